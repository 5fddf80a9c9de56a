// ncclRedOpCreatePreMulSum: a factor of each rank, of every type.
#include <algorithm>
#include <array>
#include <cstring>

#include "interop/nccl/ranks.hpp"

namespace plait::nccl::test {
namespace {

using testing::ElementsAre;

TEST(PreMulSum, FactorsOfTheHostAndOfMemory) {
  on_ranks(2, [](int rank, CommHandle comm) {
    float factor = 0.5f;
    OpNumber here = 0, there = 0;
    OK(ncclRedOpCreatePreMulSum(&here, &factor, float32, scalar_on_host, comm));
    OK(ncclRedOpCreatePreMulSum(&there, &factor, float32, scalar_on_device, comm));
    EXPECT_GE(here, op_count);
    EXPECT_NE(here, there);
    factor = 0.25f;  // only the second one reads it now
    std::array<float, 2> data = {static_cast<float>(rank + 1), static_cast<float>(rank + 1)};
    OK(ncclGroupStart());
    OK(ncclAllReduce(&data[0], &data[0], 1, float32, here, comm, nullptr));
    OK(ncclAllReduce(&data[1], &data[1], 1, float32, there, comm, nullptr));
    // Before the group's end, as NCCL allows.
    OK(ncclRedOpDestroy(here, comm));
    OK(ncclRedOpDestroy(there, comm));
    OK(ncclGroupEnd());
    EXPECT_THAT(data, ElementsAre(1.5f, 0.75f));

    EXPECT_INVALID(ncclAllReduce(&data[0], &data[0], 1, float32, here, comm, nullptr),
                   "no operation of this communicator");
    EXPECT_INVALID(ncclRedOpDestroy(here, comm), "destroyed");
  });
}

/// Elements of a rank, its factor, and what they are together. Integers have all their bits.
template <class T>
struct Products {
  int seed, ranks;

  T element(int rank, std::size_t i) const {
    return plait::test::element<T>(static_cast<std::uint64_t>(seed), rank, i, ReduceOp::sum);
  }
  T factor(int rank) const {
    if constexpr (std::is_integral_v<T>) return element(rank, 1 << 20);
    else return narrow<T>(std::array{2, -1, 1}[static_cast<std::size_t>(rank)]);
  }
  std::vector<T> of(int rank, std::size_t size) const {
    std::vector<T> all(size);
    for (std::size_t i = 0; i < size; ++i) all[i] = element(rank, i);
    return all;
  }
  /// As bytes, because the small floats can't be compared.
  std::string sums(std::size_t begin, std::size_t size) const {
    std::vector<T> all(size);
    for (std::size_t i = 0; i < size; ++i) {
      if constexpr (std::is_integral_v<T>) {
        T sum = 0;
        for (int rank = 0; rank < ranks; ++rank)
          sum = wrapped_sum(sum, wrapped_product(element(rank, begin + i), factor(rank)));
        all[i] = sum;
      } else {
        double sum = 0;  // exact
        for (int rank = 0; rank < ranks; ++rank)
          sum += static_cast<double>(widen(element(rank, begin + i))) *
                 static_cast<double>(widen(factor(rank)));
        all[i] = plait::test::to<T>(sum);
      }
    }
    return bytes(all);
  }
  static std::string bytes(const std::vector<T>& all, std::size_t begin = 0,
                           std::size_t size = SIZE_MAX) {
    return std::string(reinterpret_cast<const char*>(all.data() + begin),
                       std::min(size, all.size() - begin) * sizeof(T));
  }
};

template <class T>
void check_products(int rank, int ranks, CommHandle comm, TypeNumber type) {
  constexpr std::size_t size = 531;
  const auto at = static_cast<std::size_t>(rank), whole = size * static_cast<std::size_t>(ranks);
  const auto is_zero = [](char byte) { return byte == 0; };
  int seed = 0;
  for (const ResidenceNumber residence : {scalar_on_host, scalar_on_device})
    for (const bool grouped : {false, true}) {
      SCOPED_TRACE(testing::Message() << "type " << type << ", " << residence << grouped);
      const Products<T> with{++seed, ranks};
      T factor = with.factor(rank);
      OpNumber op = 0;
      OK(ncclRedOpCreatePreMulSum(&op, &factor, type, residence, comm));
      const std::vector<T> send = with.of(rank, whole);
      std::vector<T> all(size), in_place = with.of(rank, size), reduced(size), part(size),
                                blocks = send;
      std::vector<char> odd(size * sizeof(T) + 1), odd_sums(size * sizeof(T) + 3);
      std::memcpy(&odd[1], send.data(), size * sizeof(T));
      if (grouped) {
        OK(ncclGroupStart());
      }
      OK(ncclAllReduce(send.data(), all.data(), size, type, op, comm, nullptr));
      OK(ncclAllReduce(in_place.data(), in_place.data(), size, type, op, comm, nullptr));
      OK(ncclReduce(send.data(), reduced.data(), size, type, op, ranks - 1, comm, nullptr));
      OK(ncclReduceScatter(send.data(), part.data(), size, type, op, comm, nullptr));
      OK(ncclReduceScatter(blocks.data(), blocks.data() + at * size, size, type, op, comm,
                           nullptr));
      OK(ncclAllReduce(&odd[1], &odd_sums[3], size, type, op, comm, nullptr));
      OK(ncclRedOpDestroy(op, comm));
      if (grouped) {
        OK(ncclGroupEnd());
      }
      using P = Products<T>;
      EXPECT_EQ(P::bytes(all), with.sums(0, size));
      EXPECT_EQ(P::bytes(in_place), with.sums(0, size));
      if (rank == ranks - 1) {
        EXPECT_EQ(P::bytes(reduced), with.sums(0, size));
      } else {
        EXPECT_TRUE(std::ranges::all_of(P::bytes(reduced), is_zero)) << "no root";
      }
      EXPECT_EQ(P::bytes(part), with.sums(at * size, size));
      EXPECT_EQ(P::bytes(blocks, at * size, size), with.sums(at * size, size));
      EXPECT_EQ(P::bytes(blocks, 0, at * size), P::bytes(send, 0, at * size)) << "not received";
      EXPECT_EQ(std::string(&odd_sums[3], size * sizeof(T)), with.sums(0, size));
      EXPECT_EQ(P::bytes(send), P::bytes(with.of(rank, whole))) << "only read";
    }
}

class PreMulSumOn : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(n, PreMulSumOn, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST_P(PreMulSumOn, EveryTypeWithAFactorOfEachRank) {
  const int ranks = GetParam();
  on_ranks(ranks, [&](int rank, CommHandle comm) {
    check_products<std::int8_t>(rank, ranks, comm, int8);
    check_products<std::uint8_t>(rank, ranks, comm, uint8);
    check_products<std::int32_t>(rank, ranks, comm, int32);
    check_products<std::uint32_t>(rank, ranks, comm, uint32);
    check_products<std::int64_t>(rank, ranks, comm, int64);
    check_products<std::uint64_t>(rank, ranks, comm, uint64);
    check_products<f16>(rank, ranks, comm, float16);
    check_products<float>(rank, ranks, comm, float32);
    check_products<double>(rank, ranks, comm, float64);
    check_products<bf16>(rank, ranks, comm, bfloat16);
    check_products<f8e4m3>(rank, ranks, comm, float8e4m3);
    check_products<f8e5m2>(rank, ranks, comm, float8e5m2);
  });
}

/// A factor of 1 multiplies nothing, but in a window all ranks must do the same.
TEST_P(PreMulSumOn, InWindows) {
  on_ranks(GetParam(), [&](int rank, CommHandle comm) {
    constexpr std::size_t size = 700;
    const auto n = static_cast<std::size_t>(GetParam()), at = static_cast<std::size_t>(rank);
    void* memory = nullptr;
    WindowHandle window = nullptr;
    OK(ncclMemAlloc(&memory, (2 * n + 2) * size * sizeof(std::int32_t)));
    OK(ncclCommWindowRegister(comm, memory, (2 * n + 2) * size * sizeof(std::int32_t), &window,
                              window_for_collectives));
    auto* const send = static_cast<std::int32_t*>(memory);
    std::int32_t* const recv = send + n * size;
    const auto right = [&](int call, std::size_t i) {
      std::int64_t sum = 0;
      for (int peer = 0; peer < GetParam(); ++peer)
        sum += static_cast<std::int64_t>(test_hash(call, peer, i) % 1000) * (peer + 1);
      return static_cast<std::int32_t>(sum);
    };
    int call = 0;
    for (const bool grouped : {false, true})
      for (const int kind : {0, 1, 2, 3}) {
        ++call;
        for (std::size_t i = 0; i < n * size; ++i)
          send[i] = static_cast<std::int32_t>(test_hash(call, rank, i) % 1000);
        std::int32_t factor = rank + 1;
        OpNumber op = 0;
        OK(ncclRedOpCreatePreMulSum(&op, &factor, int32, scalar_on_host, comm));
        if (grouped) {
          OK(ncclGroupStart());
        }
        if (kind == 0) {
          OK(ncclAllReduce(send, recv, size, int32, op, comm, nullptr));
        }
        if (kind == 1) {
          OK(ncclAllReduce(send, send, size, int32, op, comm, nullptr));
        }
        if (kind == 2) {
          OK(ncclReduce(send, recv, size, int32, op, 0, comm, nullptr));
        }
        if (kind == 3) {
          OK(ncclReduceScatter(send, recv, size, int32, op, comm, nullptr));
        }
        OK(ncclRedOpDestroy(op, comm));
        if (grouped) {
          OK(ncclGroupEnd());
        }
        const std::int32_t* const got = kind == 1 ? send : recv;
        for (std::size_t i = 0; i < size && (kind != 2 || rank == 0); ++i)
          ASSERT_EQ(got[i], right(call, kind == 3 ? at * size + i : i)) << kind << grouped;
        check_sum(comm, rank, GetParam());
      }
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclMemFree(memory));
  });
}

TEST(PreMulSum, IsOfOneTypeAndOneCommunicator) {
  on_ranks(1, [](int, CommHandle comm) {
    const OwnRanks other(1);
    double factor = 2, value = 1;
    OpNumber op = 0;
    OK(ncclRedOpCreatePreMulSum(&op, &factor, float64, scalar_on_host, comm));
    EXPECT_INVALID(ncclAllReduce(&value, &value, 1, float32, op, comm, nullptr),
                   "is for f64, not for f32");
    EXPECT_INVALID(ncclAllReduce(&value, &value, 1, float64, op, other[0], nullptr),
                   "no operation of this communicator");
    EXPECT_INVALID(ncclAllReduce(&value, &value, SIZE_MAX, float64, op, comm, nullptr),
                   "overflows");
    EXPECT_INVALID(ncclAllReduce(nullptr, &value, 1, float64, op, comm, nullptr), "send is null");
    EXPECT_INVALID(ncclRedOpCreatePreMulSum(&op, nullptr, float64, scalar_on_host, comm),
                   "scalar is NULL");
    EXPECT_INVALID(
        ncclRedOpCreatePreMulSum(&op, &factor, float64, static_cast<ResidenceNumber>(7), comm),
        "no residence");
  });
}

}  // namespace
}  // namespace plait::nccl::test
