// Groups: several communicators of one thread, messages, errors, and a simulation.
#include "plait/group.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "interop/nccl/ranks.hpp"

namespace plait::nccl::test {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(Group, SeveralCommunicatorsAndDevicesOfOneThread) {
  const OwnRanks first(3), second(2);
  std::vector<std::int32_t> a = {1, 2, 3}, b = {10, 20};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    std::int32_t* const value = &a[static_cast<std::size_t>(rank)];
    OK(ncclGroupStart());  // an inner group enqueues nothing
    OK(sum_up(*value, first[rank]));
    OK(ncclGroupEnd());
    EXPECT_EQ(*value, rank + 1);
  }
  for (int rank = 1; rank >= 0; --rank) {
    std::int32_t* const value = &b[static_cast<std::size_t>(rank)];
    OK(sum_up(*value, second[rank]));
  }
  OK(ncclGroupEnd());
  EXPECT_THAT(a, Each(6));
  EXPECT_THAT(b, Each(30));
}

TEST(Group, MessagesGoRoundInOneThread) {
  const OwnRanks own(3);
  std::vector<std::int32_t> send = {1, 2, 3}, recv(3);
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    OK(ncclSend(&send[static_cast<std::size_t>(rank)], 1, int32, (rank + 1) % 3, own[rank],
                nullptr));
    OK(ncclRecv(&recv[static_cast<std::size_t>(rank)], 1, int32, (rank + 2) % 3, own[rank],
                nullptr));
  }
  OK(ncclGroupEnd());
  EXPECT_THAT(recv, ElementsAre(3, 1, 2));
}

TEST(Group, EmptyMessagesMatch) {
  on_ranks(2, [](int rank, CommHandle comm) {
    const int peer = 1 - rank;
    std::vector<std::int32_t> send = {rank, rank + 10}, recv(2, -1);
    OK(ncclGroupStart());
    OK(ncclSend(nullptr, 0, int32, peer, comm, nullptr));
    OK(ncclSend(&send[0], 1, int32, peer, comm, nullptr));
    OK(ncclSend(&send[0], 0, int32, peer, comm, nullptr));
    OK(ncclSend(&send[1], 1, int32, peer, comm, nullptr));
    OK(ncclRecv(nullptr, 0, int32, peer, comm, nullptr));
    OK(ncclRecv(&recv[0], 1, int32, peer, comm, nullptr));
    OK(ncclRecv(&recv[0], 0, int32, peer, comm, nullptr));
    OK(ncclRecv(&recv[1], 1, int32, peer, comm, nullptr));
    OK(ncclGroupEnd());
    EXPECT_THAT(recv, ElementsAre(peer, peer + 10));
    // Outside a group, too.
    if (rank == 0) {
      OK(ncclSend(nullptr, 0, float32, 1, comm, nullptr));
    } else OK(ncclRecv(nullptr, 0, float32, 0, comm, nullptr));
    check_sum(comm, rank, 2);
  });
}

TEST(Group, MessagesThatAreNotAligned) {
  on_ranks(2, [](int rank, CommHandle comm) {
    std::vector<char> memory(2 * 400 + 2);
    char *const send = memory.data() + 1, *const recv = memory.data() + 401;
    std::fill_n(send, 400, static_cast<char>('a' + rank));
    OK(ncclGroupStart());
    OK(ncclSend(send, 100, float32, 1 - rank, comm, nullptr));
    OK(ncclRecv(recv, 100, float32, 1 - rank, comm, nullptr));
    OK(ncclGroupEnd());
    EXPECT_EQ(std::string(recv, 400), std::string(400, static_cast<char>('b' - rank)));
    EXPECT_EQ(memory.back(), 0);
  });
}

/// NCCL takes them, as in place. Here a send delivers what its buffer held before the group, and of
/// two receives into one place the later call counts.
TEST(Group, MessagesThatOverlap) {
  constexpr int ranks = 4;
  constexpr std::size_t block = 300;
  using Numbers = std::vector<std::int32_t>;
  const auto data = [](int seed, int rank) {
    Numbers all(ranks * block);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::int32_t>(test_hash(seed, rank, i));
    return all;
  };
  on_ranks(ranks, [&](int rank, CommHandle comm) {
    Numbers mine = data(1, rank);
    const auto at = [&](int of, std::size_t shift = 0) {
      return mine.data() + static_cast<std::size_t>(of) * block + shift;
    };
    const auto block_of = [&](int seed, int of, int place) {
      const Numbers all = data(seed, of);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(block) * place;
      return Numbers(begin, begin + block);
    };
    const auto place = [&](int of) { return Numbers(at(of), at(of) + block); };
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    // To the next rank, in place: first one end and then the other.
    for (const bool sends_first : {true, false}) {
      mine = data(sends_first, rank);
      OK(ncclGroupStart());
      for (const bool send : {sends_first, !sends_first})
        OK(send ? ncclSend(at(0), block, int32, next, comm, nullptr)
                : ncclRecv(at(0), block, int32, before, comm, nullptr));
      OK(ncclGroupEnd());
      EXPECT_EQ(place(0), block_of(sends_first, before, 0));
      EXPECT_EQ(place(1), block_of(sends_first, rank, 1));
    }
    // From all to all in place, with the own block, and twice, because memory is used again.
    for (const int seed : {2, 3}) {
      mine = data(seed, rank);
      OK(ncclGroupStart());
      for (int peer = 0; peer < ranks; ++peer) {
        OK(ncclSend(at(peer), block, int32, peer, comm, nullptr));
        OK(ncclRecv(at(peer), block, int32, peer, comm, nullptr));
      }
      OK(ncclGroupEnd());
      for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(place(peer), block_of(seed, peer, rank));
    }
    // Partly, by an odd number of elements, and two receives in one place.
    mine = data(4, rank);
    OK(ncclGroupStart());
    OK(ncclSend(at(0), block, int32, next, comm, nullptr));
    OK(ncclSend(at(2), block, int32, next, comm, nullptr));
    OK(ncclRecv(at(0, 7), block, int32, before, comm, nullptr));
    OK(ncclRecv(at(0, 7), block, int32, before, comm, nullptr));
    OK(ncclGroupEnd());
    EXPECT_EQ(Numbers(at(0, 7), at(1, 7)), block_of(4, before, 2));
    const Numbers old = data(4, rank);
    EXPECT_EQ(Numbers(at(0), at(0, 7)), Numbers(old.begin(), old.begin() + 7));
  });
}

TEST(Group, ManyBroadcastsFromAllRoots) {
  constexpr int ranks = 3;
  on_ranks(ranks, [](int rank, CommHandle comm) {
    std::vector<std::int32_t> own(3, rank + 1), all(9);
    OK(ncclGroupStart());
    for (int root = 0; root < ranks; ++root)
      OK(ncclBroadcast(own.data(), &all[static_cast<std::size_t>(3 * root)], 3, int32, root, comm,
                       nullptr));
    OK(ncclGroupEnd());
    EXPECT_THAT(all, ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3));
  });
}

TEST(Group, ABadCallFailsThereAndAtTheEnd) {
  const OwnRanks own(1);
  std::int32_t value = 1, copy = 0;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &copy, 1, int32, op_sum, own[0], nullptr));
  EXPECT_INVALID(ncclAllReduce(&value, &copy, 1, 99, op_sum, own[0], nullptr),
                 "99 is no data type");
  EXPECT_INVALID(ncclGroupEnd(), "99 is no data type");
  EXPECT_EQ(copy, 0) << "nothing of the group was enqueued";
  EXPECT_FALSE(group_is_open());
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &copy, 1, int32, op_sum, own[0], nullptr));
  OK(ncclGroupEnd());
  EXPECT_EQ(copy, 1);
}

TEST(Group, ACallThatPlaitRefusesFailsAtTheEnd) {
  const OwnRanks own(1);
  std::vector<std::int32_t> data(10, 1);
  OK(ncclGroupStart());
  OK(ncclAllReduce(&data[0], &data[1], 5, int32, op_sum, own[0], nullptr));
  EXPECT_INVALID(ncclGroupEnd(), "overlap");
  check_sum(own[0], 0, 1);
}

TEST(Group, AGroupThatFailsEndsTheCommunicatorsThatItDestroys) {
  OwnRanks own(2);
  std::int32_t value = 1, copy = 0;
  OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    OK(ncclAllReduce(&value, &copy, 1, int32, op_sum, own[rank], nullptr));
  EXPECT_OK(ncclCommDestroy(own[0]));
  EXPECT_OK(ncclCommAbort(own[1]));
  own.comms.clear();
  EXPECT_EQ(ncclBcast(&value, 1, int32, 0, nullptr, nullptr), Result::invalid_argument);
  EXPECT_INVALID(ncclGroupEnd(), "is NULL");
  EXPECT_EQ(copy, 0);
}

TEST(Group, ACommunicatorThatAGroupMakesIsDroppedWithIt) {
  const OwnRanks own(1);
  CommHandle made = nullptr;
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&made, 2, new_id(), 0));
  EXPECT_EQ(ncclCommInitRank(&made, 2, new_id(), 2), Result::invalid_argument);
  EXPECT_INVALID(ncclGroupEnd(), "rank 2");
}

TEST(Group, AHandleOfThisGroupCanBeUsedOnlyAfterIt) {
  CommHandle comm = nullptr;
  std::int32_t value = 1;
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&comm, 1, new_id(), 0));
  EXPECT_INVALID(sum_up(value, comm), "still being made");
  EXPECT_EQ(ncclGroupEnd(), Result::invalid_argument);
  Result state = Result::success;
  OK(ncclCommGetAsyncError(comm, &state));
  EXPECT_NE(state, Result::success);
  EXPECT_OK(ncclCommDestroy(comm));
}

TEST(Group, AnEndWithoutAStart) {
  EXPECT_TRUE(refused(ncclGroupEnd(), Result::invalid_usage, "no group was started"));
  Simulation simulation{};
  EXPECT_TRUE(refused(ncclGroupSimulateEnd(nullptr), Result::invalid_usage, "no group"));
  OK(ncclGroupStart());
  EXPECT_INVALID(ncclGroupSimulateEnd(&simulation), "was not initialised");
  EXPECT_FALSE(group_is_open()) << "the group has ended all the same";
}

TEST(Group, ACapturedGroupCanBeReplayed) {
  on_ranks(2, [](int rank, CommHandle comm) {
    std::vector<std::int64_t> a(10), b(10), c(10);
    HostStream stream(comm);
    stream.begin_capture();
    OK(ncclGroupStart());
    OK(ncclAllReduce(a.data(), b.data(), 10, int64, op_sum, comm, stream.get()));
    OK(ncclGroupEnd());
    OK(ncclBroadcast(b.data(), c.data(), 10, int64, 1, comm, stream.get()));
    // Through memory of Plait's, which the graph keeps using.
    std::vector<char> odd(10 * 8 + 1), odd_sums(10 * 8 + 3);
    OK(ncclAllReduce(&odd[1], &odd_sums[3], 10, int64, op_sum, comm, stream.get()));
    std::vector<std::int64_t> products(5);
    std::int64_t factor = 0;
    OpNumber op = 0;
    OK(ncclRedOpCreatePreMulSum(&op, &factor, int64, scalar_on_device, comm));
    OK(ncclReduceScatter(a.data(), products.data(), 5, int64, op, comm, stream.get()));
    const auto graph = stream.end_capture();
    for (int turn = 1; turn <= 3; ++turn) {
      const auto own = [turn](int of, std::size_t i) {
        return static_cast<std::int64_t>(test_hash(turn, of, i));
      };
      for (std::size_t i = 0; i < 10; ++i) a[i] = own(rank, i);
      std::memcpy(&odd[1], a.data(), 10 * 8);
      factor = own(rank, 99);
      graph->launch(stream.get());
      stream.synchronize();
      const auto sum = [&](std::size_t i) { return wrapped_sum(own(0, i), own(1, i)); };
      std::vector<std::int64_t> sums(10);
      std::memcpy(sums.data(), &odd_sums[3], 10 * 8);
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(c[i], sum(i)) << turn;
        EXPECT_EQ(sums[i], sum(i)) << turn;
      }
      for (std::size_t i = 0; i < 5; ++i) {
        const std::size_t at = 5 * static_cast<std::size_t>(rank) + i;
        EXPECT_EQ(products[i], wrapped_sum(wrapped_product(own(0, at), own(0, 99)),
                                           wrapped_product(own(1, at), own(1, 99))));
      }
    }
  });
}

TEST(Group, AnotherThreadsDestructionWaitsForTheGroupsEnd) {
  CommHandle comm = nullptr;
  OK(ncclCommInitRank(&comm, 1, new_id(), 0));
  std::int32_t value = 4, copy = 0;
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &copy, 1, int32, op_sum, comm, nullptr));
  std::thread other([&] { EXPECT_OK(ncclCommDestroy(comm)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_OK(ncclGroupEnd());
  other.join();
  EXPECT_EQ(copy, 4);
}

/// One rank asks, and none of its calls takes a number.
TEST(Group, ASimulationEstimatesAndEnqueuesNothing) {
  on_ranks(2, [](int rank, CommHandle comm) {
    if (rank == 1) return check_sum(comm, rank, 2);
    std::vector<std::int32_t> data(1000, rank);
    Simulation simulation{.size = sizeof(Simulation),
                          .magic = magic_of_simulation,
                          .version = version,
                          .estimated_time = -1};
    OK(ncclGroupStart());
    OK(ncclAllReduce(data.data(), data.data(), 10, int32, op_sum, comm, nullptr));
    OK(ncclGroupSimulateEnd(&simulation));
    const float one = simulation.estimated_time;
    EXPECT_GT(one, 0);
    EXPECT_THAT(data, Each(rank));
    OK(ncclGroupStart());
    OK(ncclAllReduce(data.data(), data.data(), 10, int32, op_sum, comm, nullptr));
    OK(ncclSend(&data[20], 10, int32, 1 - rank, comm, nullptr));
    OK(ncclRecv(&data[40], 10, int32, 1 - rank, comm, nullptr));
    OK(ncclGroupSimulateEnd(&simulation));
    EXPECT_GT(simulation.estimated_time, one);
    EXPECT_THAT(data, Each(rank));
    check_sum(comm, rank, 2);
  });
}

}  // namespace
}  // namespace plait::nccl::test
