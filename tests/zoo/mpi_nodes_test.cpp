// Ranks on several nodes: every algorithm that spans nodes, in graphs and groups, and messages. To
// be run by mpirun, with tests/support/as_nodes.sh or in the namespaces of tools/nodes.sh.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/message_round.hpp"
#include "zoo/mpi_world.hpp"
#include "zoo/quantized_sum.hpp"

namespace plait::test {
namespace {

Communicator& comm() { return World::instance()->comm; }
Arena& arena() { return World::instance()->arena; }

std::vector<Subject> all_algorithms() {
  std::vector<Subject> all = other_algorithms();
  for (const std::string& name : all_reduce_algorithms()) all.emplace_back(name);
  return all;
}

class Nodes : public testing::TestWithParam<Subject> {};
INSTANTIATE_TEST_SUITE_P(All, Nodes, testing::ValuesIn(all_algorithms()), [](const auto& test) {
  return fmt::format("{}_{}", name_of(test.param.collective), test.param.algorithm);
});

TEST_P(Nodes, AllTypesAndOperations) {
  check_all_types_and_operations(comm(), arena(), GetParam(), {1, 75});
}

TEST_P(Nodes, AllCounts) { check_all_counts(comm(), arena(), GetParam(), {DataType::bf16}); }

/// Many chunks in each channel, so that slots are filled again.
TEST_P(Nodes, Large) {
  for (const std::size_t bytes : {20'000u, 1'200'000u})
    check_large(comm(), arena(), GetParam(), bytes);
}

TEST_P(Nodes, LaunchShapes) { check_launch_shapes(comm(), arena(), GetParam()); }

/// A graph is launched without a word to the proxies.
TEST_P(Nodes, InGraphsAndGroups) {
  const Stream stream = comm().create_stream();
  std::uint64_t seed = 0;
  for (const Way way : {Way::captured, Way::grouped})
    for (const bool symmetric : {false, true})
      for (const bool in_place : {false, true})
        for (const std::size_t count : {5u, 1024u, 20'000u}) {
          const Case c = GetParam().of({.type = DataType::i32,
                                        .count = count,
                                        .in_place = in_place,
                                        .symmetric = symmetric,
                                        .root = comm().size() - 1,
                                        .seed = ++seed,
                                        .way = way});
          if (is_served(comm(), c)) check(comm(), arena(), c, stream);
        }
}

/// Else the tests would show nothing. On one node they try the algorithms of one node.
TEST(NodesTogether, AreSeveralIfTheEnvironmentSaysSo) {
  EXPECT_EQ(comm().bootstrap().nodes() > 1, std::getenv("PLAIT_NODE") != nullptr);
}

/// What a caller who names no algorithm gets.
TEST(NodesTogether, ServeEveryCollective) {
  for (int c = 0; c < collective_count; ++c) {
    const Subject chosen(static_cast<Collective>(c), "");
    if (chosen.collective == Collective::barrier) continue;
    check_all_types_and_operations(comm(), arena(), chosen, {33});
    check_large(comm(), arena(), chosen, 500'000);
  }
  comm().barrier();
  comm().synchronize();
}

/// Else they would choose differently, and wait for ever. So each text has the numbers of all.
TEST(NodesTogether, EstimateAlike) {
  for (int c = 0; c < collective_count; ++c)
    for (const std::size_t count : {2u, 10'000u, 10'000'000u}) {
      Call call{.collective = static_cast<Collective>(c), .count = count};
      const std::string text = comm().explain(call);
      const auto all = comm().bootstrap().all_gather(std::hash<std::string>{}(text));
      EXPECT_EQ(std::count(all.begin(), all.end(), all[0]), comm().size()) << text;
    }
  if (comm().bootstrap().nodes() == 1) return;
  const std::string text = comm().explain({.count = 1'000'000}, {.algorithm = "rails"});
  EXPECT_THAT(text, testing::HasSubstr("  stages: reduce on the node, "));
  EXPECT_THAT(text, testing::HasSubstr(" GB/s per node"));
  EXPECT_THAT(comm().describe(), testing::HasSubstr(" rails, by "));
}

/// What the user says of the network counts on all ranks.
TEST(NodesTogether, TakeTheNetworkFromTheEnvironment) {
  if (comm().bootstrap().nodes() == 1) return;
  const ScopedEnvironment bandwidth("PLAIT_NET_BANDWIDTH", "0.05"),
      latency("PLAIT_NET_LATENCY_US", "77.5");
  const Communicator other = comm().duplicate();
  EXPECT_THAT(other.explain({.count = 1000}),
              testing::HasSubstr("0.05 GB/s per node and 77.5 us between them"));
}

/// Calls follow each other without waiting in between: what one leaves in the channels must not
/// disturb the next.
TEST(NodesTogether, CallsFollowEachOther) {
  constexpr std::size_t at_once = 10, longest = 5000;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<Arena*> each;
  for (std::size_t i = 0; i < at_once; ++i) {
    arenas.push_back(std::make_unique<Arena>(
        comm(), (longest * static_cast<std::size_t>(comm().size()) + 10) * sizeof(std::uint64_t)));
    each.push_back(arenas.back().get());
  }
  const Stream stream = comm().create_stream();
  const auto subjects = all_algorithms();
  for (std::uint64_t i = 0; i < 100;) {
    std::vector<Case> cases;
    while (cases.size() < at_once) {
      const std::uint64_t h = hash(i++);
      const Subject& subject = subjects[h % subjects.size()];
      const Case c =
          subject.of({.type = DataType::u64,
                      .count = 1 + (h >> 10) % (i % 7 == 0 ? longest : 200),
                      .in_place = (h >> 32) % 2 == 0,
                      .symmetric = (h >> 33) % 2 == 0,
                      .root = static_cast<int>((h >> 34) % static_cast<unsigned>(comm().size())),
                      .seed = h});
      if (is_served(comm(), c)) cases.push_back(c);
    }
    check_together(comm(), each, cases, stream);
  }
  comm().bootstrap().barrier();  // no rank frees memory that a slower one still checks
}

TEST(NodesTogether, RepeatCallsInPlace) {
  for (const std::string& name : all_reduce_algorithms())
    check_repeated_in_place(comm(), arena(), 501, 100, {.algorithm = name});
}

/// Graphs of messages and sums, each launched many times: every replay finds new data, because a
/// message takes the sum of the replay before.
TEST(NodesTogether, ReplayGraphs) {
  constexpr std::size_t count = 3000;
  constexpr int replays = 30;
  const Stream stream = comm().create_stream();
  Backend& backend = backend_of(comm());
  const int next = (comm().rank() + 1) % comm().size(),
            before = (comm().rank() + comm().size() - 1) % comm().size();
  auto values = comm().allocate<std::uint32_t>(count),
       moved = comm().allocate<std::uint32_t>(count);
  std::vector<std::uint32_t> wanted(count), result(count);
  for (std::size_t i = 0; i < count; ++i) wanted[i] = static_cast<std::uint32_t>(i + 1);
  comm().copy(values.data(), wanted.data(), count * sizeof(std::uint32_t), stream);
  comm().synchronize(stream);
  {
    const DeviceScope device(backend);
    backend.begin_capture(stream.native());
    comm().send_recv(values.data(), count, next, moved.data(), count, before, DataType::u32,
                     stream);
    comm().all_reduce(moved.data(), values.data(), count, DataType::u32, ReduceOp::sum, stream);
    const auto graph = backend.end_capture(stream.native());
    for (int replay = 0; replay < replays; ++replay) graph->launch(stream.native());
    backend.synchronize(stream.native());
  }
  comm().copy(result.data(), values.data(), count * sizeof(std::uint32_t), stream);
  comm().synchronize(stream);
  for (std::size_t i = 0; i < count; ++i) {
    for (int replay = 0; replay < replays; ++replay)
      wanted[i] *= static_cast<std::uint32_t>(comm().size());
    ASSERT_EQ(result[i], wanted[i]) << i;
  }
}

/// Any rank sends any number of messages of any kind to any other, and to itself, in one group.
TEST(NodesTogether, SendAllToAllInGroups) {
  const auto names = ways();
  for (std::uint64_t round = 0; round < 30; ++round) {
    Round messages(comm(), arena(), round);
    for (int other = 0; other < comm().size(); ++other)
      for (const bool sends : {true, false}) {
        const auto from = static_cast<std::uint64_t>(sends ? comm().rank() : other),
                   to = static_cast<std::uint64_t>(sends ? other : comm().rank());
        const std::uint64_t h = hash(round, from, to);
        for (std::size_t m = 0; m < h % 4; ++m) {
          const std::uint64_t d = hash(h, 5, m);
          messages.add(sends, other, static_cast<DataType>((d >> 8) % data_type_count),
                       (d >> 16) % (d % 5 == 0 ? 9000 : 300), names[(d >> 40) % names.size()],
                       (d >> 48) % 7);
        }
      }
    messages.begin();
    {
      const Group group;
      messages.call_all();
    }
    messages.expect_right();
  }
}

/// Between the first rank and the last, which is on another node: one direction after the other,
/// then both at once.
TEST(NodesTogether, SendThereAndBack) {
  const int last = comm().size() - 1;
  const bool takes_part = comm().rank() == 0 || comm().rank() == last;
  const int other = last - comm().rank();
  for (const std::string& way : ways())
    for (const bool at_once : {false, true})
      for (const std::size_t count : {0u, 1u, 33u, 1000u, 100'001u}) {
        Round messages(comm(), arena(), count);
        if (takes_part) {
          messages.add(comm().rank() == 0, other, DataType::bf16, count, way, count % 5);
          messages.add(comm().rank() != 0, other, DataType::f32, count, way);
        }
        messages.begin();
        if (at_once) {
          const Group group;
          messages.call_all();
        } else {
          messages.call_all();
        }
        messages.expect_right();
      }
}

TEST(NodesTogether, QuantizedSumsKeepTheirBound) {
  if (comm().bootstrap().nodes() == 1) return;  // they are for several
  check_quantized(comm(), arena(), comm().bootstrap().all_gather(comm().bootstrap().node()),
                  100'003);
}

/// Communicators of some of the ranks, on one node and across nodes, beside the world's.
TEST(NodesTogether, HaveCommunicatorsOfSome) {
  const int node = comm().bootstrap().node(), local_rank = comm().bootstrap().local_rank();
  for (const int color : {node, local_rank}) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, comm().rank(), &part);
    Communicator some = make_communicator(part, test_options());
    MPI_Comm_free(&part);
    Arena memory(some);
    for (std::uint64_t i = 0; i < 5; ++i) {
      check(some, memory, {.count = 2000 + i, .symmetric = i % 2 == 0, .seed = i});
      check(comm(), arena(), {.count = 100 + i, .symmetric = true, .seed = i});
    }
    comm().bootstrap().barrier();
  }
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) { return plait::test::run_tests_in_world(argc, argv); }
