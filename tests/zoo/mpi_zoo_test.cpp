// The zoo with ranks that are processes, on one node or several: every algorithm that the nodes
// allow, in graphs and groups, and messages. To be run by mpirun with any number of ranks, as it is
// (the library initialises MPI) or with the argument --caller-initializes-mpi. On several nodes:
// with tests/support/as_nodes.sh or in the namespaces of tools/nodes.sh.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/message_round.hpp"
#include "zoo/mpi_world.hpp"
#include "zoo/quantized_sum.hpp"

namespace plait::test {
namespace {

Communicator& comm() { return World::instance()->comm; }
Arena& arena() { return World::instance()->arena; }

class MpiZoo : public testing::TestWithParam<Subject> {};
INSTANTIATE_TEST_SUITE_P(All, MpiZoo, testing::ValuesIn(all_algorithms()), TestName());

TEST_P(MpiZoo, AllTypesAndOperations) {
  check_all_types_and_operations(comm(), arena(), GetParam(), {1, 75});
}

TEST_P(MpiZoo, AllCounts) {
  check_all_counts(comm(), arena(), GetParam(), {DataType::bf16, DataType::f64});
}

/// Many chunks in each channel, so that slots are filled again.
TEST_P(MpiZoo, Large) {
  for (const std::size_t bytes : {20'000u, 1'200'000u})
    check_large(comm(), arena(), GetParam(), bytes);
}

TEST_P(MpiZoo, LaunchShapes) { check_launch_shapes(comm(), arena(), GetParam()); }

/// A graph is launched without a word to the proxies.
TEST_P(MpiZoo, InGraphsAndGroups) {
  check_graphs_and_groups(comm(), arena(), GetParam(), {5, 1024, 20'000});
}

TEST_P(MpiZoo, BackToBackCalls) {
  if (GetParam().collective == Collective::all_reduce)
    check_repeated_in_place(comm(), arena(), 501, 200, {.algorithm = GetParam().algorithm});
}

/// Rank 0 has one NaN of another bit pattern, at the beginning, at the end, or none. Between
/// processes a scan may take the only term of a rank from where it lies.
template <class T, class Bits>
void check_scan_of_nan(const Subject& subject, Bits wanted) {
  constexpr std::size_t count = 5003;
  DeviceArray &send = arena().send, &recv = arena().recv;
  const int terms = terms_of(subject.collective, comm().rank(), comm().size());
  for (const std::size_t nan : {std::size_t{0}, count - 1, count}) {
    send.put<Bits>(count, [&](std::size_t i) {
      return comm().rank() == 0 && i == nan
                 ? wanted - 5
                 : bits_as<Bits>(element<T>(1, comm().rank(), i, ReduceOp::sum));
    });
    recv.place(0, count * sizeof(T));
    recv.upload({});
    comm().enqueue({.collective = subject.collective, .type = data_type_of<T>, .count = count},
                   send.device(), recv.device(), {}, {.algorithm = subject.algorithm});
    recv.download({});
    comm().synchronize();
    for (std::size_t i = 0; i < count && terms != 0; ++i) {
      const auto sum = static_cast<T>(expected<T>(1, terms, i, ReduceOp::sum, 1));
      ASSERT_EQ(recv.get<Bits>(i), i == nan ? wanted : bits_as<Bits>(sum))
          << sizeof(T) << " bytes, element " << i << ", a NaN at " << nan;
    }
  }
}

TEST_P(MpiZoo, ScansOfNan) {
  if (!is_scan(GetParam().collective) || comm().size() == 1) return;  // nothing to take
  check_scan_of_nan<float>(GetParam(), 0x7fffffffu);
  check_scan_of_nan<double>(GetParam(), std::uint64_t{0x7fffffffffffffff});
}

/// Else the tests would show nothing. On one node they try the algorithms of one node.
TEST(NodesTogether, AreSeveralIfTheEnvironmentSaysSo) {
  EXPECT_EQ(comm().bootstrap().nodes() > 1, std::getenv("PLAIT_NODE") != nullptr);
}

/// Calls that name no algorithm.
TEST(NodesTogether, ServeEveryCollective) {
  for (const Subject& chosen : chosen_ones()) {
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

TEST(NodesTogether, CallsFollowEachOther) { check_calls_in_a_row(comm(), all_algorithms(), 100); }

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
    const auto graph = captured(comm(), stream, [&] {
      comm().send_recv(values.data(), count, next, moved.data(), count, before, DataType::u32,
                       stream);
      comm().all_reduce(moved.data(), values.data(), count, DataType::u32, ReduceOp::sum, stream);
    });
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
    messages.call_all({}, true);
    messages.expect_right();
  }
}

/// Between the first rank and the last, which is on another node: one direction after the other,
/// then both at once.
TEST(NodesTogether, SendThereAndBack) {
  const int last = comm().size() - 1;
  if (last == 0) return;
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
        messages.call_all({}, at_once);
        messages.expect_right();
      }
}

TEST(NodesTogether, QuantizedSumsKeepTheirBound) {
  check_quantized(comm(), arena(), comm().bootstrap().all_gather(comm().bootstrap().node()),
                  100'003);
}

/// Each rank into the window of each, on this node or another, and out of it again. The copies wait
/// behind signals, so they must leave the driver to the proxy (docs/algorithms/one_sided.md).
TEST(MpiCommunicator, PutsAndGets) {
  const int n = comm().size(), rank = comm().rank();
  const Stream stream = comm().create_stream();
  constexpr std::size_t most = 700'001;
  const auto memory = comm().allocate<std::byte>((most + 16) * static_cast<std::size_t>(n));
  const auto place = [](int from, std::size_t shift) {
    return (most + 16) * static_cast<std::size_t>(from) + shift;
  };
  const auto value = [](int from, int to, std::size_t bytes, std::size_t i) {
    return static_cast<std::byte>(hash(bytes, static_cast<std::uint64_t>(from * 64 + to), i));
  };
  DeviceArray &send = arena().send, &recv = arena().recv;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{20'000}, most}) {
    const std::size_t shift = bytes % 7;
    for (int peer = 0; peer < n; ++peer) {
      send.put<std::byte>(
          bytes, [&](std::size_t i) { return value(rank, peer, bytes, i); }, stream, 3);
      comm().put(memory.window(), peer, place(rank, shift), send.device(), bytes, true, stream);
      comm().synchronize(stream);  // before the image changes
    }
    std::vector<std::byte> got(bytes);
    for (int peer = 0; peer < n; ++peer) {
      comm().wait_signal(peer, 1, stream);
      comm().copy(got.data(), memory.data() + place(peer, shift), bytes, stream);
      comm().synchronize(stream);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(got[i], value(peer, rank, bytes, i)) << "put by " << peer << ", byte " << i;
      recv.place(5, bytes);
      recv.upload(stream);
      comm().get(memory.window(), peer, place(rank, shift), recv.device(), bytes, stream);
      recv.download(stream);
      comm().synchronize(stream);
      EXPECT_EQ(recv.damage(), "");
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(recv.get<std::byte>(i), value(rank, peer, bytes, i)) << "from " << peer;
    }
    comm().barrier(stream);
    comm().synchronize(stream);
  }
}

/// Communicators of some of the ranks, on one node and across nodes, in another order, beside the
/// world's.
TEST(MpiCommunicator, OfSomeOfTheRanks) {
  const int node = comm().bootstrap().node(), local_rank = comm().bootstrap().local_rank(),
            rank = comm().rank();
  for (const int color : {node, local_rank, rank % 2}) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, color, -rank, &part);
    Communicator some = make_communicator(part, test_options());
    MPI_Comm_free(&part);  // it was duplicated
    Arena memory(some);
    for (std::uint64_t i = 0; i < 5; ++i) {
      check(some, memory, {.count = 2000 + i, .symmetric = i % 2 == 0, .seed = i});
      check(comm(), arena(), {.count = 100 + i, .symmetric = true, .seed = i});
    }
    comm().bootstrap().barrier();
  }
}

TEST(MpiCommunicator, KnowsTheWorld) {
  int rank = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(comm().rank(), rank);
  EXPECT_EQ(comm().size(), size);
}

/// A sender that receives nothing still needs the receive buffer, because it finds the address of
/// its peer's by it.
TEST(MpiCommunicator, AGroupKeepsTheReceiversMemory) {
  constexpr std::size_t count = 100000;
  const int last = comm().size() - 1;
  if (last == 0) GTEST_SKIP() << "needs two ranks";
  const Case put{.collective = Collective::send_recv,
                 .algorithm = "pairwise_put",
                 .type = DataType::i32,
                 .count = count,
                 .symmetric = true};
  if (!is_served(comm(), put)) GTEST_SKIP() << "pairwise_put is for one node";
  const auto sent = comm().allocate<int>(count), kept = comm().allocate<int>(count);
  std::vector<int> values(count), result(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = element<int>(1, comm().rank(), i, ReduceOp::max);
  comm().copy(sent.data(), values.data(), count * sizeof(int));
  {
    const Group group;
    const auto received = comm().allocate<int>(count);
    const bool sends = comm().rank() == 0, receives = comm().rank() == last;
    comm().send_recv(sent.data(), sends ? count : 0, last, received.data(), receives ? count : 0, 0,
                     DataType::i32, {}, {.algorithm = "pairwise_put", .symmetric = true});
    comm().all_reduce(sent.data(), kept.data(), count, DataType::i32, ReduceOp::max);
  }
  comm().copy(result.data(), kept.data(), count * sizeof(int));
  comm().synchronize();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(result[i], expected<int>(1, comm().size(), i, ReduceOp::max, 1)) << i;
}

TEST(MpiCommunicator, UnequalSizesAreRefusedOnAllRanks) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  expect_throws(
      ErrorCode::mismatch, [] { comm().allocate<int>(comm().rank() == 1 ? 5u : 6u); }, "rank 1");
  check(comm(), arena(), {.count = 9});
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) { return plait::test::run_tests_in_world(argc, argv); }
