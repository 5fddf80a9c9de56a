// What the collectives compute, in which memory, and with which operations.
#include <array>
#include <cstring>
#include <numeric>

#include "interop/nccl/ranks.hpp"

namespace plait::nccl::test {
namespace {

using testing::Each;

constexpr std::size_t count = 1000;
using Values = std::vector<std::int64_t>;

/// Values that tell rank and place apart.
Values values_of(int rank, std::size_t size) {
  Values values(size);
  std::iota(values.begin(), values.end(), 100000 * (rank + 1));
  return values;
}
std::int64_t sum_at(int ranks, std::size_t at) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank)
    sum += 100000 * (rank + 1) + static_cast<std::int64_t>(at);
  return sum;
}

class Collectives : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  std::size_t blocks() const { return static_cast<std::size_t>(ranks()); }
};
INSTANTIATE_TEST_SUITE_P(n, Collectives, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST_P(Collectives, AllReduce) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const Values send = values_of(rank, count);
    Values recv(count);
    ASSERT_TRUE(ok(ncclAllReduce(send.data(), recv.data(), count, int64, op_sum, comm, nullptr)));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(recv[i], sum_at(ranks(), i)) << i;
  });
}

TEST_P(Collectives, BroadcastFromTheLastRank) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const int root = ranks() - 1;
    const Values send = values_of(rank, count);
    Values recv(count);
    // Only the root has a `send`.
    ASSERT_TRUE(ok(ncclBroadcast(rank == root ? send.data() : nullptr, recv.data(), count, int64,
                                 root, comm, nullptr)));
    EXPECT_EQ(recv, values_of(root, count));
    Values both = values_of(rank, count);
    ASSERT_TRUE(ok(ncclBcast(both.data(), count, int64, 0, comm, nullptr)));
    EXPECT_EQ(both, values_of(0, count));
  });
}

TEST_P(Collectives, ReduceToTheLastRank) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const int root = ranks() - 1;
    const Values send = values_of(rank, count);
    Values recv(count);
    ASSERT_TRUE(ok(ncclReduce(send.data(), rank == root ? recv.data() : nullptr, count, int64,
                              op_sum, root, comm, nullptr)));
    if (rank != root) return;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(recv[i], sum_at(ranks(), i)) << i;
  });
}

TEST_P(Collectives, AllGatherInPlaceAtAnotherAddressOnEachRank) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const auto at = static_cast<std::size_t>(rank);
    Values memory(blocks() * count + 16 * at);
    std::int64_t* const recv = memory.data() + 16 * at;
    const Values own = values_of(rank, count);
    // Rank 0 is out of place, and the others in place.
    const std::int64_t* send = own.data();
    if (rank != 0) send = std::copy(own.begin(), own.end(), recv + at * count) - count;
    ASSERT_TRUE(ok(ncclAllGather(send, recv, count, int64, comm, nullptr)));
    for (int peer = 0; peer < ranks(); ++peer) {
      const std::int64_t* const block = recv + static_cast<std::size_t>(peer) * count;
      EXPECT_EQ(Values(block, block + count), values_of(peer, count));
    }
  });
}

TEST_P(Collectives, ReduceScatterInPlaceAtAnotherAddressOnEachRank) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const auto at = static_cast<std::size_t>(rank);
    Values memory(blocks() * count + 16 * at), apart(count);
    std::int64_t* const send = memory.data() + 16 * at;
    const Values own = values_of(rank, blocks() * count);
    std::copy(own.begin(), own.end(), send);
    std::int64_t* const recv = rank == 0 ? apart.data() : send + at * count;
    ASSERT_TRUE(ok(ncclReduceScatter(send, recv, count, int64, op_sum, comm, nullptr)));
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(recv[i], sum_at(ranks(), at * count + i)) << i;
  });
}

TEST_P(Collectives, AllToAllGatherAndScatter) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const auto at = static_cast<std::size_t>(rank);
    const Values send = values_of(rank, blocks() * count);
    Values recv(blocks() * count);
    ASSERT_TRUE(ok(ncclAlltoAll(send.data(), recv.data(), count, int64, comm, nullptr)));
    for (int peer = 0; peer < ranks(); ++peer)
      ASSERT_EQ(recv[static_cast<std::size_t>(peer) * count],
                values_of(peer, blocks() * count)[at * count]);
    Values gathered(blocks() * count), scattered(count);
    ASSERT_TRUE(ok(ncclGather(send.data(), gathered.data(), count, int64, 0, comm, nullptr)));
    for (int peer = 0; rank == 0 && peer < ranks(); ++peer)
      ASSERT_EQ(gathered[static_cast<std::size_t>(peer) * count], values_of(peer, 1)[0]);
    ASSERT_TRUE(ok(ncclScatter(send.data(), scattered.data(), count, int64, 0, comm, nullptr)));
    EXPECT_EQ(scattered[0], values_of(0, blocks() * count)[at * count]);
  });
}

TEST_P(Collectives, BuffersThatAreNotAligned) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    const auto at = static_cast<std::size_t>(rank);
    // Each rank is off by another number of bytes, and rank 0's receive buffer is aligned.
    std::vector<char> memory(count * 8 + 16), result(blocks() * count * 8 + 16);
    char* const send = memory.data() + 1 + at;
    char* const recv = result.data() + 3 * at;
    const Values own = values_of(rank, count);
    std::memcpy(send, own.data(), count * 8);
    ASSERT_TRUE(ok(ncclAllReduce(send, recv, count, int64, op_sum, comm, nullptr)));
    Values sums(count);
    std::memcpy(sums.data(), recv, count * 8);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sums[i], sum_at(ranks(), i)) << i;

    ASSERT_TRUE(ok(ncclGroupStart()));
    ASSERT_TRUE(ok(ncclAllGather(send, recv, count, int64, comm, nullptr)));
    ASSERT_TRUE(ok(ncclGroupEnd()));
    for (int peer = 0; peer < ranks(); ++peer) {
      Values block(count);
      std::memcpy(block.data(), recv + static_cast<std::size_t>(peer) * count * 8, count * 8);
      EXPECT_EQ(block, values_of(peer, count));
    }
    EXPECT_EQ(result.back(), 0) << "nothing is written behind the buffer";
  });
}

TEST_P(Collectives, CountsOfZeroDoNothing) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    EXPECT_TRUE(ok(ncclAllReduce(nullptr, nullptr, 0, float32, op_sum, comm, nullptr)));
    EXPECT_TRUE(ok(ncclAllGather(nullptr, nullptr, 0, float32, comm, nullptr)));
    EXPECT_TRUE(ok(ncclReduceScatter(nullptr, nullptr, 0, float32, op_avg, comm, nullptr)));
    EXPECT_TRUE(ok(ncclBroadcast(nullptr, nullptr, 0, float32, 0, comm, nullptr)));
    check_sum(comm, rank, ranks());
  });
}

TEST_P(Collectives, WithAConfiguration) {
  on_ranks(ranks(), [&](int rank, CommHandle comm) {
    CallConfig config = new_call_config();
    config.algorithms = "ring";  // NCCL's own names have no effect
    std::int32_t value = rank + 1;
    const std::int32_t sum = ranks() * (ranks() + 1) / 2;
    ASSERT_TRUE(ok(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config)));
    EXPECT_EQ(value, sum);
    std::vector<std::int32_t> all(blocks()), one(1);
    ASSERT_TRUE(ok(ncclAllGatherConfig(&value, all.data(), 1, int32, comm, nullptr, &config)));
    EXPECT_THAT(all, Each(sum));
    ASSERT_TRUE(ok(
        ncclReduceScatterConfig(all.data(), one.data(), 1, int32, op_sum, comm, nullptr, &config)));
    EXPECT_THAT(one, Each(sum * ranks()));
    ASSERT_TRUE(ok(ncclBroadcastConfig(&value, &value, 1, int32, 0, comm, nullptr, &config)));
    ASSERT_TRUE(ok(ncclReduceConfig(&value, &value, 1, int32, op_max, 0, comm, nullptr, &config)));
    std::vector<std::int32_t> other(blocks());
    ASSERT_TRUE(ok(ncclAlltoAllConfig(all.data(), other.data(), 1, int32, comm, nullptr, &config)));
    EXPECT_THAT(other, Each(sum));
    ASSERT_TRUE(ok(ncclGatherConfig(&value, other.data(), 1, int32, 0, comm, nullptr, &config)));
    ASSERT_TRUE(ok(ncclScatterConfig(all.data(), &value, 1, int32, 0, comm, nullptr, &config)));
    EXPECT_EQ(value, sum);
  });
}

TEST(CallConfig, AnOptionNamesPlaitsAlgorithm) {
  on_ranks(2, [&](int rank, CommHandle comm) {
    ConfigOption other{.next = nullptr, .key = {1234, 1}, .value = {.text = "of another vendor"}};
    ConfigOption name{
        .next = &other, .key = {vendor, option_algorithm}, .value = {.text = "twoshot_ll"}};
    CallConfig config = new_call_config();
    config.options = &name;
    std::int32_t value = rank + 1;
    ASSERT_TRUE(ok(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config)));
    EXPECT_EQ(value, 3);
    name.value.text = "no such algorithm";
    EXPECT_TRUE(
        refused(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config),
                Result::invalid_argument, "no such algorithm"));
    name.value.text = nullptr;
    EXPECT_TRUE(
        refused(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config),
                Result::invalid_argument, "is NULL"));
    other.next = &name;  // a ring
    name.value.text = "twoshot_ll";
    EXPECT_TRUE(
        refused(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config),
                Result::invalid_argument, "more than 1000 options"));
    config = new_call_config();
    config.magic = 0;
    EXPECT_TRUE(
        refused(ncclAllReduceConfig(&value, &value, 1, int32, op_sum, comm, nullptr, &config),
                Result::invalid_argument, "was not initialised"));
    check_sum(comm, rank, 2);
  });
}

TEST(Types, OperationsAndSmallTypes) {
  on_ranks(2, [](int rank, CommHandle comm) {
    const auto reduced = [&](auto mine, TypeNumber type, OpNumber op) {
      auto result = mine;
      EXPECT_TRUE(ok(ncclAllReduce(&mine, &result, 1, type, op, comm, nullptr)));
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
    ASSERT_TRUE(ok(ncclCommSplit(comm, 0, 1 - rank, &part, nullptr)));
    void* pointer = nullptr;
    ASSERT_TRUE(ok(ncclMemAlloc(&pointer, 1 << 16)));
    ASSERT_NE(pointer, nullptr);
    auto* const data = static_cast<std::int32_t*>(pointer) + 100 * (rank + 1);
    for (const CommHandle of : {comm, part}) {
      std::fill_n(data, 50, rank + 1);
      ASSERT_TRUE(ok(ncclAllReduce(data, data, 50, int32, op_sum, of, nullptr)));
      EXPECT_THAT(std::vector<std::int32_t>(data, data + 50), Each(3));
    }
    void* handle = nullptr;
    ASSERT_TRUE(ok(ncclCommRegister(comm, pointer, 1 << 16, &handle)));
    EXPECT_NE(handle, nullptr);
    EXPECT_TRUE(ok(ncclCommDeregister(comm, handle)));
    EXPECT_TRUE(ok(ncclMemFree(pointer)));
    EXPECT_TRUE(ok(ncclMemFree(nullptr)));
    EXPECT_TRUE(refused(ncclMemFree(data), Result::invalid_argument, "no memory of ncclMemAlloc"));
    EXPECT_TRUE(refused(ncclMemAlloc(nullptr, 4), Result::invalid_argument, "ptr is NULL"));
    EXPECT_TRUE(ok(ncclCommDestroy(part)));
  });
}

}  // namespace
}  // namespace plait::nccl::test
