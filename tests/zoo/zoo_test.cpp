// Every registered algorithm on 1 to 8 ranks that are threads: types, operations, counts, memory,
// alignment, launch shapes, graphs and groups.
#include "support/zoo.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/ranks.hpp"

namespace plait::test {
namespace {

const auto all_ranks = testing::Range(1, under_tsan ? 6 : 9);

class Zoo : public testing::TestWithParam<std::tuple<int, Subject>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  static int ranks() { return std::get<0>(GetParam()); }
  static const Subject& subject() { return std::get<1>(GetParam()); }
  static void run(const RankGroup::Body& body) { RankGroup::cached(ranks()).run(body); }
};
// Ordered by ranks: the memory of one group of communicators is kept from test to test.
INSTANTIATE_TEST_SUITE_P(All, Zoo, testing::Combine(all_ranks, testing::ValuesIn(all_algorithms())),
                         TestName());

TEST_P(Zoo, AllTypesAndOperations) {
  const std::vector<std::size_t> counts =
      under_tsan ? std::vector<std::size_t>{64, 67} : std::vector<std::size_t>{1, 64, 515};
  run([&](Communicator& comm, Arena& arena) {
    check_all_types_and_operations(comm, arena, subject(), counts);
  });
}

TEST_P(Zoo, AllCounts) {
  using enum DataType;
  const std::vector<DataType> types =
      under_tsan ? std::vector{bf16} : std::vector{i8, bf16, f32, f64};
  run([&](Communicator& comm, Arena& arena) { check_all_counts(comm, arena, subject(), types); });
}

TEST_P(Zoo, Large) {
  run([&](Communicator& comm, Arena& arena) {
    check_large(comm, arena, subject(), under_tsan ? 20000 : 500000);
  });
}

TEST_P(Zoo, LaunchShapes) {
  run([&](Communicator& comm, Arena& arena) { check_launch_shapes(comm, arena, subject()); });
}

TEST_P(Zoo, InGraphsAndGroups) {
  run([&](Communicator& comm, Arena& arena) {
    check_graphs_and_groups(comm, arena, subject(), {5, 1024});
  });
}

class AllReduces : public Zoo {};
INSTANTIATE_TEST_SUITE_P(All, AllReduces,
                         testing::Combine(all_ranks, testing::ValuesIn(all_reduces())), TestName());

/// More blocks than the algorithm has memory for.
TEST_P(AllReduces, TooManyBlocksDoNoHarm) {
  run([&](Communicator& comm, Arena& arena) {
    for (const unsigned blocks : {64u, 65u, 300u, 100000u})
      check(comm, arena,
            {.algorithm = subject().algorithm,
             .type = DataType::f32,
             .count = 9999,
             .symmetric = hash(blocks + subject().algorithm.size()) % 2 ==
                          static_cast<unsigned>(ranks()) % 2,
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
    send.put<T>(count, [&](std::size_t i) { return input(comm.rank(), i); });
    recv.place(0, count * sizeof(T));
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
    const T got = recv.get<T>(i);
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

TEST_P(AllReduces, WideRangeData) {
  run([&](Communicator& comm, Arena& arena) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::premul_sum}) {
      check_wide<float>(comm, arena, subject().algorithm, op, 3001);
      check_wide<bf16>(comm, arena, subject().algorithm, op, 3001);
      check_wide<f16>(comm, arena, subject().algorithm, op, 777);
      check_wide<double>(comm, arena, subject().algorithm, op, 777);
    }
  });
}

/// One element of rank r, and the right result of the reduction.
struct Special {
  ReduceOp op;
  float rank0, others, wanted;
};

TEST_P(AllReduces, SpecialValues) {
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
          const T mine = to<T>(comm.rank() == 0 ? s.rank0 : s.others);
          data.put<T>(count, [&](std::size_t) { return mine; });
          comm.all_reduce(data.device(), data.device(), count, type, s.op, {},
                          {.algorithm = subject().algorithm});
          data.download({});
          comm.synchronize();
          for (std::size_t i = 0; i < count; ++i) {
            const auto got = static_cast<float>(widen(data.get<T>(i)));
            if (got == s.wanted || (std::isnan(got) && std::isnan(s.wanted))) continue;
            report(comm, fmt::format("{}, {} of {} and {} in {} is {}", subject().algorithm,
                                     name_of(s.op), s.rank0, s.others, name_of(type), got));
            break;
          }
        });
      }
  });
}

/// Calls that name no algorithm, and calls of all that do.
PLAIT_FOR_RANKS(Mixed, all_ranks);

/// Calls follow each other in every order: what one leaves in shared memory must not disturb the
/// next.
TEST_P(Mixed, CallsFollowEachOther) {
  run([](Communicator& comm, Arena&) {
    check_calls_in_a_row(comm, all_algorithms(), under_tsan ? 100 : 400);
  });
}

TEST_P(Mixed, WhatIsChosenIsRight) {
  run([](Communicator& comm, Arena& arena) {
    for (const Subject& chosen : chosen_ones()) {
      check_all_types_and_operations(comm, arena, chosen, {33});
      check_all_counts(comm, arena, chosen, {DataType::f32});
      check_large(comm, arena, chosen, under_tsan ? 20000 : 500000);
    }
  });
}

}  // namespace
}  // namespace plait::test
