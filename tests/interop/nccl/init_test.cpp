// Making communicators: from threads, from one thread in a group, without waiting, from others.
#include <unistd.h>

#include <cstring>

#include "interop/nccl/ranks.hpp"
#include "support/signals.hpp"

namespace plait::nccl::test {
namespace {

TEST(Init, SaysTheVersionOfNccl) {
  int code = 0;
  OK(ncclGetVersion(&code));
  EXPECT_EQ(code, 22809);
}

TEST(Init, RanksAreThreads) {
  on_ranks(3, [](int rank, CommHandle comm) {
    EXPECT_EQ(own_rank(comm), rank);
    EXPECT_EQ(rank_count(comm), 3);
    EXPECT_GE(device_of(comm), 0);
    check_sum(comm, rank, 3);
  });
}

TEST(Init, OneThreadMakesAllRanksInAGroup) {
  constexpr int ranks = 3;
  const IdBytes id = new_id();
  std::vector<CommHandle> comms(ranks);
  Config config = new_config();
  OK(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    OK(ncclCommInitRankConfig(&comms[rank], ranks, id, rank, &config));
    EXPECT_NE(comms[rank], nullptr) << "the handle is there before the group's end";
  }
  OK(ncclGroupEnd());
  std::vector<std::int64_t> data = {1, 2, 3};
  OK(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank)
    OK(ncclAllReduce(&data[rank], &data[rank], 1, int64, op_sum, comms[rank], nullptr));
  OK(ncclGroupEnd());
  EXPECT_THAT(data, testing::Each(6));
  for (const CommHandle comm : comms) EXPECT_OK(ncclCommDestroy(comm));
}

TEST(Init, AllDevicesOfAProcess) {
  const OwnRanks own(3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(own_rank(own[rank]), rank);
}

TEST(Init, ListOfDevices) {
  const int list[] = {1, 0};
  CommHandle comms[2] = {};
  OK(ncclCommInitAll(comms, 2, list));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(device_of(comms[rank]), list[rank]);
    EXPECT_OK(ncclCommDestroy(comms[rank]));
  }
}

TEST(Init, WithoutWaiting) {
  const IdBytes id = new_id();
  Config config = new_config(0);
  CommHandle first = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), Result::in_progress);
  EXPECT_EQ(plait::test::signals_taken({getpid()}), 0u) << "of the thread that makes it";
  ASSERT_NE(first, nullptr);
  Result state = Result::success;
  OK(ncclCommGetAsyncError(first, &state));
  EXPECT_EQ(state, Result::in_progress);
  std::int32_t value = 1;
  EXPECT_INVALID(sum_up(value, first), "still being made");
  on_threads(2, [&](int rank) {
    CommHandle comm = first;
    if (rank == 1) {
      OK(ncclCommInitRank(&comm, 2, id, 1));
    }
    EXPECT_EQ(state_after(comm, Result::in_progress), Result::success);
    check_sum(comm, rank, 2);
    if (rank == 0) {
      const Result finalized = ncclCommFinalize(comm);
      EXPECT_TRUE(finalized == Result::in_progress) << last_error();
      EXPECT_EQ(state_after(comm, Result::in_progress), Result::success);
    }
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

TEST(Init, AGroupWithoutWaitingIsInProgress) {
  const IdBytes id = new_id();
  Config config = new_config(0);
  CommHandle comms[2] = {};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    OK(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config));
  EXPECT_EQ(ncclGroupEnd(), Result::in_progress);
  for (const CommHandle comm : comms)
    EXPECT_EQ(state_after(comm, Result::in_progress), Result::success);
  for (const CommHandle comm : comms) EXPECT_OK(ncclCommDestroy(comm));
}

TEST(Init, AbortEndsTheMakingOfARankWhosePeersNeverCome) {
  const IdBytes id = new_id();
  Config config = new_config(0);
  CommHandle comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), Result::in_progress);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_OK(ncclCommAbort(comm));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Init, ConfigurationsOfOtherVersions) {
  const auto init = [](Config* config) {
    CommHandle comm = nullptr;
    const Result result = ncclCommInitRankConfig(&comm, 1, new_id(), 0, config);
    if (result == Result::success) {
      EXPECT_OK(ncclCommDestroy(comm));
    }
    return result;
  };
  // 2.14 ended after `blocking`; the bytes behind it are no part of the structure.
  Config first = new_config();
  std::memset(static_cast<void*>(&first), 0x7b, sizeof first);
  first.size = 24;
  first.magic = magic_of_config;
  first.version = 21400;
  first.blocking = 1;
  EXPECT_OK(init(&first));
  struct Later {
    Config known;
    char unknown[64];
  } later{};
  later.known = new_config();
  later.known.size = sizeof later;
  later.known.version = 29900;
  EXPECT_OK(init(&later.known));
  EXPECT_OK(init(nullptr));

  Config wrong = new_config();
  wrong.magic = 1;
  EXPECT_INVALID(init(&wrong), "was not initialised");
  wrong = new_config();
  wrong.size = 8;
  EXPECT_INVALID(init(&wrong), "was not initialised");
  wrong = new_config(2);
  EXPECT_INVALID(init(&wrong), "blocking is 2");
}

TEST(Init, OneOfSeveralIdsServes) {
  IdBytes ids[2] = {new_id(), new_id()};
  on_threads(2, [&](int rank) {
    CommHandle comm = nullptr;
    OK(ncclCommInitRankScalable(&comm, 2, rank, 2, ids, nullptr));
    check_sum(comm, rank, 2);
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

TEST(Init, AnIdOfAnotherVersionIsRefused) {
  IdBytes id{};
  std::memset(id.bytes, 0x55, sizeof id.bytes);
  CommHandle comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), Result::invalid_argument) << last_error();
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(last_error(), "");
}

TEST(Split, ByColourAndKey) {
  on_ranks(3, [](int rank, CommHandle comm) {
    CommHandle part = nullptr;
    OK(ncclCommSplit(comm, rank == 1 ? 7 : 0, -rank, &part, nullptr));
    const int own = own_rank(part), count = rank_count(part);
    EXPECT_EQ(count, rank == 1 ? 1 : 2);
    EXPECT_EQ(own, rank == 0 ? 1 : 0) << "a greater key comes later";
    check_sum(part, own, count);
    EXPECT_OK(ncclCommDestroy(part));
    check_sum(comm, rank, 3);
  });
}

TEST(Split, WithoutAColourThereIsNoPart) {
  on_ranks(2, [](int rank, CommHandle comm) {
    int something = 0;
    auto part = reinterpret_cast<CommHandle>(&something);
    OK(ncclCommSplit(comm, rank == 0 ? no_colour : 0, 0, &part, nullptr));
    EXPECT_EQ(part == nullptr, rank == 0);
    if (part != nullptr) {
      EXPECT_OK(ncclCommDestroy(part));
    }
  });
}

TEST(Split, ByOneThreadInAGroupTwice) {
  const OwnRanks own(2);
  CommHandle parts[2][2] = {};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    for (int turn = 0; turn < 2; ++turn)
      OK(ncclCommSplit(own[rank], 0, rank, &parts[rank][turn], nullptr));
  OK(ncclGroupEnd());
  std::vector<std::int32_t> data = {1, 2, 10, 20};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank)
    for (int turn = 0; turn < 2; ++turn) {
      std::int32_t* const value = data.data() + 2 * turn + rank;
      OK(sum_up(*value, parts[rank][turn]));
    }
  OK(ncclGroupEnd());
  EXPECT_THAT(data, testing::ElementsAre(3, 3, 30, 30));
  for (auto& of_rank : parts)
    for (const CommHandle part : of_rank) EXPECT_OK(ncclCommDestroy(part));
}

TEST(Split, WithoutWaitingTheParentIsInProgress) {
  on_ranks(2, [](int rank, CommHandle comm) {
    Config config = new_config(0);
    CommHandle part = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &part, &config), Result::in_progress) << last_error();
    EXPECT_EQ(state_after(comm, Result::in_progress), Result::success);
    EXPECT_EQ(state_after(part, Result::in_progress), Result::success);
    check_sum(part, rank, 2);
    check_sum(comm, rank, 2);
    EXPECT_OK(ncclCommDestroy(part));
  });
}

TEST(Shrink, LeavesOutARankThatDoesNotCall) {
  on_ranks(4, [](int rank, CommHandle comm) {
    check_sum(comm, rank, 4);
    if (rank == 1) return;
    int excluded = 1;
    CommHandle rest = nullptr;
    OK(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, 0));
    const int own = own_rank(rest);
    EXPECT_EQ(own, rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(rank_count(rest), 3);
    check_sum(rest, own, 3);
    int first = 0;
    if (own != 0) {  // and once more
      CommHandle two = nullptr;
      OK(ncclCommShrink(rest, &first, 1, &two, nullptr, 0));
      check_sum(two, own - 1, 2);
      EXPECT_OK(ncclCommDestroy(two));
    }
    EXPECT_OK(ncclCommDestroy(rest));
  });
}

TEST(Shrink, AbortsCallsThatWaitForTheRankThatIsLeftOut) {
  on_ranks_that_end(3, [&](int rank, CommHandle comm) {
    if (rank == 2) {  // is silent until it hears that the others have aborted
      EXPECT_EQ(state_after(comm, Result::success), Result::remote_error);
      EXPECT_OK(ncclCommAbort(comm));
      return;
    }
    std::int32_t value = 1;
    HostStream stream(comm);
    OK(sum_up(value, comm, stream.get()));
    int excluded = 2;
    CommHandle rest = nullptr;
    OK(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, shrink_aborts));
    stream.synchronize();
    check_sum(rest, rank, 2);
    EXPECT_OK(ncclCommDestroy(rest));
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

TEST(Shrink, ToOneRank) {
  on_ranks(2, [](int rank, CommHandle comm) {
    if (rank == 1) return;
    int excluded = 1;
    CommHandle alone = nullptr;
    OK(ncclCommShrink(comm, &excluded, 1, &alone, nullptr, 0));
    check_sum(alone, 0, 1);
    EXPECT_OK(ncclCommDestroy(alone));
  });
}

TEST(Shrink, RefusesListsThatMakeNoSense) {
  on_ranks(2, [](int rank, CommHandle comm) {
    CommHandle rest = nullptr;
    int own = rank, none = 5, both[] = {0, 1};
    EXPECT_INVALID(ncclCommShrink(comm, &own, 1, &rest, nullptr, 0), "excludes itself");
    EXPECT_INVALID(ncclCommShrink(comm, &none, 1, &rest, nullptr, 0), "the list of excluded ranks");
    EXPECT_INVALID(ncclCommShrink(comm, both, 2, &rest, nullptr, 0), "2 of 2 ranks");
    EXPECT_INVALID(ncclCommShrink(comm, nullptr, 1, &rest, nullptr, 0), "excludeRanksList is NULL");
  });
}

}  // namespace
}  // namespace plait::nccl::test
