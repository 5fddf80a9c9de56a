// What the collectives compute, in which memory, and with which operations.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "interop/nccl/ranks.hpp"
#include "plait/collective_table.h"

namespace plait::nccl::test {
namespace {

using testing::Each;

constexpr std::size_t count = 1000;
using Values = std::vector<std::int64_t>;

/// A row of PLAIT_NCCL_COLLECTIVES, and its buffers.
struct Row {
  Collective collective;
  bool many_sent, many_received, root_sends, root_receives;
};
enum Buffer { block = 0, blocks = 1, root_block = 2, root_blocks = 3 };
constexpr Row rows[] = {
#define PLAIT_ROW(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) \
  {Collective::NAME, (SEND & 1) != 0, (RECV & 1) != 0, (SEND & 2) != 0, (RECV & 2) != 0},
    PLAIT_COLLECTIVES(PLAIT_ROW, PLAIT_NO_OTHER)
#undef PLAIT_ROW
};

/// The collective by its own function, with or without a configuration. None for those that NCCL
/// lacks.
std::optional<Result> by_name(Collective collective, const CallConfig* config, const void* send,
                              void* recv, int root, CommHandle comm) {
  switch (collective) {
#define PLAIT_CALL(NAME, COLLECTIVE, OP, ROOT)                                                     \
  case Collective::COLLECTIVE:                                                                     \
    return config == nullptr                                                                       \
               ? nccl##NAME(send, recv, count, int64,                                              \
                            PLAIT_IF_##OP(op_sum, ) PLAIT_IF_##ROOT(root, ) comm, nullptr)         \
               : nccl##NAME##Config(send, recv, count, int64,                                      \
                                    PLAIT_IF_##OP(op_sum, ) PLAIT_IF_##ROOT(root, ) comm, nullptr, \
                                    config);
    PLAIT_NCCL_COLLECTIVES(PLAIT_CALL)
#undef PLAIT_CALL
    default:
      static_cast<void>(root);
      return std::nullopt;
  }
}

std::int64_t value(int seed, int rank, std::size_t i) {
  return static_cast<std::int64_t>(test_hash(seed, rank, i));
}
/// What element `i` of the `recv` of `rank` must be.
std::int64_t expected(const Row& row, int seed, int rank, int ranks, int root, std::size_t i) {
  const std::size_t own = row.many_sent ? static_cast<std::size_t>(rank) * count : 0;
  switch (row.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return value(seed, root, own + i);
    case Collective::all_gather:
    case Collective::gather:
    case Collective::all_to_all:
      return value(seed, static_cast<int>(i / count), own + i % count);
    default:
      std::int64_t sum = 0;
      for (int of = 0; of < ranks; ++of) sum = wrapped_sum(sum, value(seed, of, own + i));
      return sum;
  }
}

/// Where the buffers are: another address on each rank, in bytes.
struct Place {
  bool in_place;
  std::size_t send_shift, recv_shift;
};

/// One collective. Only those that have a buffer pass one; nothing behind it is written.
void check_collective(const Row& row, const Place& at, const CallConfig* config, int root, int rank,
                      int ranks, CommHandle comm) {
  const int seed = root + 10 * (config != nullptr) + 100 * static_cast<int>(row.collective);
  const bool sends = !row.root_sends || rank == root, receives = !row.root_receives || rank == root;
  const std::size_t n = static_cast<std::size_t>(ranks), sent = row.many_sent ? n * count : count,
                    received = row.many_received ? n * count : count;
  std::vector<char> from(8 * n * count + 64), to(from.size(), 'x');
  char *send = from.data() + at.send_shift, *recv = to.data() + at.recv_shift;
  if (at.in_place) {
    const auto own = static_cast<std::size_t>(row.root_sends || row.root_receives ? root : rank);
    recv = row.many_sent && !row.many_received ? send + own * count * 8 : send;
    if (row.many_received && !row.many_sent) send += own * count * 8;
  }
  Values data(std::max(sent, received));
  for (std::size_t i = 0; i < sent; ++i) data[i] = value(seed, rank, i);
  if (sends) std::memcpy(send, data.data(), sent * 8);
  const auto result = by_name(row.collective, config, sends ? send : nullptr,
                              receives ? recv : nullptr, root, comm);
  if (!result) return;
  OK(*result);
  if (!receives) return;
  std::memcpy(data.data(), recv, received * 8);
  for (std::size_t i = 0; i < received; ++i)
    ASSERT_EQ(data[i], expected(row, seed, rank, ranks, root, i))
        << name_of(row.collective) << ", root " << root << ", in place " << at.in_place
        << ", element " << i;
  if (!at.in_place) {
    EXPECT_EQ(recv[received * 8], 'x') << name_of(row.collective);
  }
}

class Collectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(n, Collectives, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST_P(Collectives, EachWithEachRootAtAnotherAddressOnEachRank) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const auto shift = static_cast<std::size_t>(rank);
    CallConfig config = new_call_config();
    config.algorithms = "ring";  // NCCL's own names have no effect
    for (const Row& row : rows)
      for (int root = 0; root < ranks(); ++root) {
        check_collective(row, {false, 0, 8 * shift}, nullptr, root, rank, ranks(), comm);
        // Rank 0 is out of place, and the others in place.
        check_collective(row, {rank != 0, 16 * shift, 0}, &config, root, rank, ranks(), comm);
        // Not aligned, but for rank 0's `recv`.
        check_collective(row, {false, 1 + shift, 3 * shift}, nullptr, root, rank, ranks(), comm);
      }
  });
}

TEST_P(Collectives, BcastIsInPlace) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    Values both(count);
    for (std::size_t i = 0; i < count; ++i) both[i] = value(1, rank, i);
    OK(ncclBcast(both.data(), count, int64, ranks() - 1, comm, nullptr));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(both[i], value(1, ranks() - 1, i)) << i;
  });
}

TEST_P(Collectives, BuffersThatAreNotAlignedInAGroup) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    std::vector<char> memory(8 * count + 4), all(8 * count * static_cast<std::size_t>(ranks()) + 3);
    Values own(count);
    for (std::size_t i = 0; i < count; ++i) own[i] = value(2, rank, i);
    std::memcpy(&memory[3], own.data(), 8 * count);
    OK(ncclGroupStart());
    OK(ncclAllGather(&memory[3], &all[1], count, int64, comm, nullptr));
    OK(ncclGroupEnd());
    for (int peer = 0; peer < ranks(); ++peer) {
      std::memcpy(own.data(), &all[1 + 8 * count * static_cast<std::size_t>(peer)], 8 * count);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(own[i], value(2, peer, i)) << i;
    }
    EXPECT_EQ(all.back(), 0) << "nothing is written behind the buffer";
  });
}

TEST_P(Collectives, CountsOfZeroDoNothing) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    EXPECT_OK(ncclAllReduce(nullptr, nullptr, 0, float32, op_sum, comm, nullptr));
    EXPECT_OK(ncclAllGather(nullptr, nullptr, 0, float32, comm, nullptr));
    EXPECT_OK(ncclReduceScatter(nullptr, nullptr, 0, float32, op_avg, comm, nullptr));
    EXPECT_OK(ncclBroadcast(nullptr, nullptr, 0, float32, 0, comm, nullptr));
    check_sum(comm, rank, ranks());
  });
}

TEST(CallConfig, AnOptionNamesPlaitsAlgorithm) {
  on_ranks(2, [&](int rank, CommHandle comm) {
    ConfigOption other{.next = nullptr, .key = {1234, 1}, .value = {.text = "of another vendor"}};
    ConfigOption name{.next = &other, .key = {vendor, option_algorithm}, .value = {.text = "ring"}};
    CallConfig config = new_call_config();
    config.options = &name;
    std::int32_t value = rank + 1;
    const auto reduce = [&] {
      return ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config);
    };
    OK(reduce());
    EXPECT_EQ(value, 3);
    name.value.text = "no such algorithm";
    EXPECT_INVALID(reduce(), "no such algorithm");
    name.value.text = nullptr;
    EXPECT_INVALID(reduce(), "is NULL");
    other.next = &name;  // a ring
    name.value.text = "ring";
    EXPECT_INVALID(reduce(), "more than 1000 options");
    config = new_call_config();
    config.magic = 0;
    EXPECT_INVALID(reduce(), "was not initialised");
    check_sum(comm, rank, 2);
  });
}

TEST(Types, OperationsAndSmallTypes) {
  on_ranks(2, [](int rank, CommHandle comm) {
    const auto reduced = [&](auto mine, TypeNumber type, OpNumber op) {
      auto result = mine;
      EXPECT_OK(ncclAllReduce(&mine, &result, 1, type, op, comm, nullptr));
      return result;
    };
    EXPECT_EQ(reduced(rank + 3, int32, op_prod), 12);
    EXPECT_EQ(reduced(rank + 3, int32, op_max), 4);
    EXPECT_EQ(reduced(rank + 3, int32, op_min), 3);
    EXPECT_EQ(reduced(2 * rank + 3, int32, op_avg), 4);
    EXPECT_EQ(reduced(static_cast<float>(rank), float32, op_avg), 0.5f);
    EXPECT_EQ(reduced(static_cast<double>(rank), float64, op_avg), 0.5);
    // PyTorch passes bool as uint8: its "any" is the maximum.
    EXPECT_EQ(reduced(rank == 1, uint8, op_max), true);
    EXPECT_EQ(reduced(static_cast<std::int8_t>(-rank), int8, op_min), -1);
    EXPECT_EQ(reduced(std::uint64_t{1} << 63, uint64, op_max), std::uint64_t{1} << 63);
    EXPECT_EQ(reduced(std::uint16_t{0x3c00}, float16, op_sum), 0x4000) << "1 + 1";
    EXPECT_EQ(reduced(std::uint16_t{0x3f80}, bfloat16, op_sum), 0x4000);
    EXPECT_EQ(reduced(std::uint8_t{0x38}, float8e4m3, op_sum), 0x40);
    EXPECT_EQ(reduced(std::uint8_t{0x3c}, float8e5m2, op_sum), 0x40);
  });
}

TEST(Memory, ShiftedPartsServeEveryCommunicator) {
  on_ranks(2, [](int rank, CommHandle comm) {
    CommHandle part = nullptr;
    OK(ncclCommSplit(comm, 0, 1 - rank, &part, nullptr));
    void* pointer = nullptr;
    OK(ncclMemAlloc(&pointer, 1 << 16));
    ASSERT_NE(pointer, nullptr);
    auto* const data = static_cast<std::int32_t*>(pointer) + 100 * (rank + 1);
    for (const CommHandle of : {comm, part}) {
      std::fill_n(data, 50, rank + 1);
      OK(ncclAllReduce(data, data, 50, int32, op_sum, of, nullptr));
      EXPECT_THAT(std::vector<std::int32_t>(data, data + 50), Each(3));
    }
    void* handle = nullptr;
    OK(ncclCommRegister(comm, pointer, 1 << 16, &handle));
    EXPECT_NE(handle, nullptr);
    EXPECT_OK(ncclCommDeregister(comm, handle));
    EXPECT_OK(ncclMemFree(pointer));
    EXPECT_OK(ncclMemFree(nullptr));
    EXPECT_INVALID(ncclMemFree(data), "no memory of ncclMemAlloc");
    EXPECT_INVALID(ncclMemAlloc(nullptr, 4), "ptr is NULL");
    EXPECT_OK(ncclCommDestroy(part));
  });
}

TEST(Memory, Windows) {
  on_ranks(3, [](int rank, CommHandle comm) {
    constexpr std::size_t bytes = 1 << 16, count = 5000;
    void *pointer = nullptr, *found = nullptr;
    OK(ncclMemAlloc(&pointer, bytes));
    auto* const data = static_cast<std::int32_t*>(pointer);
    WindowHandle window = nullptr, other = nullptr;
    OK(ncclCommWindowRegister(comm, pointer, bytes, &window, window_for_collectives));
    ASSERT_NE(window, nullptr);
    EXPECT_OK(ncclWinGetUserPtr(comm, window, &found));
    EXPECT_EQ(found, pointer);
    for (int call = 0; call < 4; ++call) {
      for (std::size_t i = 0; i < count; ++i)
        data[i] = static_cast<std::int32_t>(test_hash(call, rank, i));
      OK(ncclAllReduce(data, data, count, int32, op_sum, comm, nullptr));
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t sum = 0;
        for (int peer = 0; peer < 3; ++peer) sum += test_hash(call, peer, i);
        ASSERT_EQ(data[i], static_cast<std::int32_t>(sum));
      }
    }
    const int next = (rank + 1) % 3;
    data[16] = 100 + rank;
    check_sum(comm, rank, 3);  // all have written
    OK(ncclGetPeerDevicePointer(window, 64, next, &found));
    EXPECT_EQ(*static_cast<std::int32_t*>(found), 100 + next);
    OK(ncclGetLsaDevicePointer(window, 64, next, &found));
    EXPECT_EQ(*static_cast<std::int32_t*>(found), 100 + next);
    EXPECT_INVALID(ncclGetPeerDevicePointer(window, 0, 3, &found), "no rank 3");
    EXPECT_INVALID(ncclGetPeerDevicePointer(window, bytes, 0, &found), "lies beyond");
    EXPECT_INVALID(ncclCommWindowRegister(comm, data + 16, 64, &other, 0), "overlaps");
    EXPECT_EQ(other, nullptr);
    check_sum(comm, rank, 3);  // all have read
    EXPECT_OK(ncclCommWindowDeregister(comm, window));
    EXPECT_OK(ncclCommWindowDeregister(comm, nullptr));
    EXPECT_INVALID(ncclCommWindowDeregister(comm, window), "has been destroyed");
    EXPECT_INVALID(ncclWinGetUserPtr(comm, window, &found), "has been destroyed");
    check_sum(comm, rank, 3);
    EXPECT_OK(ncclMemFree(pointer));
  });
}

/// In place, each rank's only buffer is its own block, whichever rank is the root.
TEST(Memory, GatherAndScatterInAWindow) {
  on_ranks(3, [](int rank, CommHandle comm) {
    constexpr std::size_t block = 100;
    std::vector<std::int32_t> data(3 * block);
    WindowHandle window = nullptr;
    OK(ncclCommWindowRegister(comm, data.data(), 12 * block, &window, window_for_collectives));
    std::int32_t* const own = data.data() + block * static_cast<std::size_t>(rank);
    const auto value = [](int root, int owner, std::size_t i) {
      return static_cast<std::int32_t>(test_hash(root, owner, i));
    };
    for (int root = 0; root < 3; ++root) {
      for (std::size_t i = 0; i < block; ++i) own[i] = value(root, rank, i);
      OK(ncclGather(own, data.data(), block, int32, root, comm, nullptr));
      for (std::size_t i = 0; rank == root && i < data.size(); ++i)
        ASSERT_EQ(data[i], value(root, static_cast<int>(i / block), i % block));
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = value(7 + rank, static_cast<int>(i / block), i % block);
      OK(ncclScatter(data.data(), own, block, int32, root, comm, nullptr));
      for (std::size_t i = 0; i < block; ++i) ASSERT_EQ(own[i], value(7 + root, rank, i));
    }
    EXPECT_OK(ncclCommWindowDeregister(comm, window));
  });
}

TEST(Memory, PutsWithSignals) {
  on_ranks(3, [](int rank, CommHandle comm) {
    std::vector<std::int32_t> data(400), own(100);
    WindowHandle window = nullptr;
    OK(ncclCommWindowRegister(comm, data.data(), 1600, &window, 0));
    const int next = (rank + 1) % 3, last = (rank + 2) % 3;
    for (int call = 0; call < 3; ++call) {
      for (std::size_t i = 0; i < own.size(); ++i)
        own[i] = static_cast<std::int32_t>(test_hash(call, rank, i));
      OK(ncclPutSignal(own.data(), 100, int32, next, window, 400, 0, 0, 0, comm, nullptr));
      AwaitedSignals signals{1, last, 0, 0};
      OK(ncclWaitSignal(1, &signals, comm, nullptr));
      for (std::size_t i = 0; i < own.size(); ++i)
        ASSERT_EQ(data[100 + i], static_cast<std::int32_t>(test_hash(call, last, i)));
      OK(ncclGroupStart());
      OK(ncclSignal(next, 0, 0, 0, comm, nullptr));
      OK(ncclSignal(last, 0, 0, 0, comm, nullptr));
      std::array<AwaitedSignals, 2> both{{{1, last, 0, 0}, {1, next, 0, 0}}};
      OK(ncclWaitSignal(2, both.data(), comm, nullptr));
      OK(ncclGroupEnd());
    }
    EXPECT_INVALID(
        ncclPutSignal(own.data(), 100, int32, next, window, 1201, 0, 0, 0, comm, nullptr),
        "put: rank");
    EXPECT_INVALID(ncclSignal(3, 0, 0, 0, comm, nullptr), "none of the ranks");
    EXPECT_INVALID(ncclWaitSignal(0, nullptr, comm, nullptr), "0 descriptors");
    OK(ncclSignal(next, 0, 0, 0, comm, nullptr));
    std::array<AwaitedSignals, 2> half_bad{{{1, last, 0, 0}, {1, 3, 0, 0}}};
    EXPECT_INVALID(ncclWaitSignal(2, half_bad.data(), comm, nullptr), "none of the ranks");
    OK(ncclWaitSignal(1, half_bad.data(), comm, nullptr));  // the one before has awaited nothing
    EXPECT_INVALID(ncclPutSignal(own.data(), (std::size_t{1} << 62) + 1, int32, next, window, 0, 0,
                                 0, 0, comm, nullptr),
                   "put: rank");
    EXPECT_TRUE(refused(ncclSignal(next, 1, 0, 0, comm, nullptr), Result::invalid_usage,
                        "only signal 0 of context 0"));
    check_sum(comm, rank, 3);
    EXPECT_OK(ncclCommWindowDeregister(comm, window));
  });
}

/// By one thread for all its ranks, and not deregistered.
TEST(Memory, WindowsInAGroup) {
  std::vector<std::int32_t> data(300);
  std::vector<WindowHandle> windows(3);
  const OwnRanks own(3);
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank)
    OK(ncclCommWindowRegister(own[rank], data.data() + 100 * rank, 400,
                              &windows[static_cast<std::size_t>(rank)], window_for_collectives));
  OK(ncclGroupEnd());
  EXPECT_THAT(windows, Each(testing::NotNull()));
  std::fill(data.begin(), data.end(), 7);
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    std::int32_t* const at = data.data() + 100 * rank;
    OK(ncclAllReduce(at, at, 100, int32, op_sum, own[rank], nullptr));
  }
  OK(ncclGroupEnd());
  EXPECT_THAT(data, Each(21));
}

}  // namespace
}  // namespace plait::nccl::test
