// Every registered all-reduce on 1 to 8 ranks that are threads: types, operations, counts, memory,
// alignment, launch shapes.
#include "support/zoo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "support/ranks.hpp"

namespace plait::test {
namespace {

class Zoo : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const std::string& algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  void run(const RankGroup::Body& body) const { RankGroup::cached(ranks()).run(body); }
};
// Ordered by ranks: the memory of one group of communicators is kept from test to test.
INSTANTIATE_TEST_SUITE_P(All, Zoo,
                         testing::Combine(testing::ValuesIn(all_reduce_algorithms()),
                                          testing::Range(1, under_tsan ? 6 : 9)),
                         [](const auto& test) {
                           return fmt::format("{}_n{}", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

TEST_P(Zoo, AllTypesAndOperations) {
  const std::vector<std::size_t> counts =
      under_tsan ? std::vector<std::size_t>{64, 67} : std::vector<std::size_t>{1, 64, 515};
  run([&](Communicator& comm, Arena& arena) {
    check_all_types_and_operations(comm, arena, algorithm(), counts);
  });
}

TEST_P(Zoo, AllCounts) {
  using enum DataType;
  const std::vector<DataType> types = under_tsan     ? std::vector{bf16}
                                      : ranks() <= 4 ? std::vector{i8, bf16, f32, f64}
                                                     : std::vector{i8, bf16};
  run([&](Communicator& comm, Arena& arena) { check_all_counts(comm, arena, algorithm(), types); });
}

TEST_P(Zoo, Large) {
  run([&](Communicator& comm, Arena& arena) {
    check_large(comm, arena, algorithm(), under_tsan ? 20000 : 500000);
  });
}

TEST_P(Zoo, LaunchShapes) {
  run([&](Communicator& comm, Arena& arena) { check_launch_shapes(comm, arena, algorithm()); });
}

/// More blocks than the algorithm has memory for.
TEST_P(Zoo, TooManyBlocksDoNoHarm) {
  run([&](Communicator& comm, Arena& arena) {
    for (const unsigned blocks : {64u, 65u, 300u, 100000u})
      check(
          comm, arena,
          {.algorithm = algorithm(),
           .type = DataType::f32,
           .count = 9999,
           .symmetric = hash(blocks + algorithm().size()) % 2 == static_cast<unsigned>(ranks()) % 2,
           .blocks = blocks,
           .seed = blocks});
  });
}

/// Random floats of all magnitudes: close to f64 arithmetic, equal on all ranks, equal when done
/// again.
template <class T>
void check_wide(Communicator& comm, Arena& arena, const std::string& algorithm, ReduceOp op,
                std::size_t count) {
  DeviceArray &send = arena.symmetric_send, &recv = arena.symmetric_recv;
  const auto input = [&](int rank, std::size_t i) {
    return wide<T>(hash(static_cast<std::uint64_t>(op), static_cast<std::uint64_t>(rank), i),
                   std::is_same_v<T, f16> ? 5 : 20);
  };
  std::vector<std::byte> first;
  for (int round = 0; round < 2; ++round) {
    send.place(0, count * sizeof(T));
    recv.place(0, count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      const T x = input(comm.rank(), i);
      std::memcpy(send.image() + i * sizeof(T), &x, sizeof(T));
    }
    send.upload({});
    comm.all_reduce(send.device(), recv.device(), count, data_type_of<T>, op, {},
                    {.algorithm = algorithm, .scale = 1.25});
    recv.download({});
    comm.synchronize();
    if (round == 1 && std::memcmp(first.data(), recv.image(), first.size()) != 0)
      report(comm, algorithm + ": a second call gives other bits");
    first.assign(recv.image(), recv.image() + count * sizeof(T));
  }
  if (!same_on_all_ranks(comm, first.data(), first.size()))
    report(comm, algorithm + ": ranks have different bits");
  for (std::size_t i = 0; i < count; ++i) {
    T got;
    std::memcpy(&got, first.data() + i * sizeof(T), sizeof(T));
    const double wanted =
        reduce_reference<T>(op, comm.size(), 1.25, [&](int rank) { return input(rank, i); });
    // Each addition rounds a partial sum, which is at most the sum of magnitudes.
    double magnitude = 0;
    for (int rank = 0; rank < comm.size(); ++rank)
      magnitude += std::abs(static_cast<double>(widen(input(rank, i))));
    const bool exact = op == ReduceOp::min || op == ReduceOp::max;
    const double scale = op == ReduceOp::premul_sum ? 1.25
                         : op == ReduceOp::avg      ? 1.0 / comm.size()
                                                    : 1.0;
    const double bound = exact ? 0 : (comm.size() + 1) * epsilon_of<T>() * magnitude * scale;
    if (!(std::abs(static_cast<double>(widen(got)) - wanted) <= bound))
      return report(comm,
                    fmt::format("{}, {}: element {} is {} instead of {}, bound {}", algorithm,
                                name_of(op), i, static_cast<double>(widen(got)), wanted, bound));
  }
}

TEST_P(Zoo, WideRangeData) {
  run([&](Communicator& comm, Arena& arena) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::premul_sum}) {
      check_wide<float>(comm, arena, algorithm(), op, 3001);
      check_wide<bf16>(comm, arena, algorithm(), op, 3001);
      check_wide<f16>(comm, arena, algorithm(), op, 777);
      check_wide<double>(comm, arena, algorithm(), op, 777);
    }
  });
}

/// One element of rank r, and the right result of the reduction.
struct Special {
  ReduceOp op;
  float rank0, others, wanted;
};

TEST_P(Zoo, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  const bool alone = ranks() == 1;
  const std::vector<Special> specials = {
      {ReduceOp::min, nan, 3, alone ? nan : 3},
      {ReduceOp::max, nan, 3, alone ? nan : 3},
      {ReduceOp::min, 3, nan, 3},
      {ReduceOp::max, 3, nan, 3},
      {ReduceOp::max, nan, nan, nan},
      {ReduceOp::min, -infinity, 1, -infinity},
      {ReduceOp::max, -infinity, 1, alone ? -infinity : 1},
      {ReduceOp::max, -1, -2, -1},
      {ReduceOp::sum, infinity, 1, infinity},
      {ReduceOp::sum, infinity, -infinity, alone ? infinity : nan},
      {ReduceOp::sum, nan, 1, nan},
      {ReduceOp::avg, 57344, 57344, 57344}};
  run([&](Communicator& comm, Arena& arena) {
    DeviceArray& data = arena.symmetric_send;
    const std::size_t count = 67;
    for (const Special& s : specials)
      for (const DataType type : {DataType::f32, DataType::f16, DataType::f64}) {
        if (s.op == ReduceOp::avg && (ranks() & (ranks() - 1)) != 0)
          continue;  // a third is not exact
        dispatch(type, [&]<class T>() {
          data.place(0, count * sizeof(T));
          const T mine = to<T>(comm.rank() == 0 ? s.rank0 : s.others);
          for (std::size_t i = 0; i < count; ++i)
            std::memcpy(data.image() + i * sizeof(T), &mine, sizeof(T));
          data.upload({});
          comm.all_reduce(data.device(), data.device(), count, type, s.op, {},
                          {.algorithm = algorithm()});
          data.download({});
          comm.synchronize();
          for (std::size_t i = 0; i < count; ++i) {
            T x;
            std::memcpy(&x, data.image() + i * sizeof(T), sizeof(T));
            const auto got = static_cast<float>(widen(x));
            if (got == s.wanted || (std::isnan(got) && std::isnan(s.wanted))) continue;
            report(comm, fmt::format("{}, {} of {} and {} in {} is {}", algorithm(), name_of(s.op),
                                     s.rank0, s.others, name_of(type), got));
            break;
          }
        });
      }
  });
}

class Chosen : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Chosen, testing::Range(1, under_tsan ? 6 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Calls that name no algorithm.
TEST_P(Chosen, ServesEveryCall) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    check_all_types_and_operations(comm, arena, "", {33});
    check_all_counts(comm, arena, "", {DataType::f32});
    if (!under_tsan) check_large(comm, arena, "", 500000);
  });
}

}  // namespace
}  // namespace plait::test
