// Choices among the real algorithms: by the policies, by the built-in tables, and by estimates.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "support/environment.hpp"

namespace plait {
namespace {

using test::ScopedEnvironment;

std::vector<const Algorithm*> every_algorithm() {
  std::vector<const Algorithm*> all;
  for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
  return all;
}

/// The thresholds of the sources, with the real algorithms.
class Policies : public testing::Test {
 protected:
  static std::string chosen(const char* policy, std::size_t bytes, bool symmetric) {
    Topology topology;
    topology.ranks = 2;
    topology.max_block_threads = 64;
    Call call{.type = DataType::u8, .count = bytes};
    call.symmetric = symmetric;
    return std::string(Selector(topology, every_algorithm())
                           .choose(call, {.algorithm = policy})
                           .algorithm->name());
  }
};

TEST_F(Policies, YaliChangesAbove64MiB) {
  constexpr std::size_t edge = std::size_t{64} << 20;
  EXPECT_EQ(chosen("yali", edge - 1, true), "flash");
  EXPECT_EQ(chosen("yali", edge, true), "flash");
  EXPECT_EQ(chosen("yali", edge + 1, true), "stream");
  EXPECT_EQ(chosen("yali", 1000, false), "stream") << "flash needs symmetric memory";
}

TEST_F(Policies, PeerToPeerChangesAbove32KiB) {
  for (const bool symmetric : {false, true}) {
    EXPECT_EQ(chosen("p2p", 32767, symmetric), "recursive_doubling");
    EXPECT_EQ(chosen("p2p", 32768, symmetric), "recursive_doubling");
    EXPECT_EQ(chosen("p2p", 32769, symmetric), "ring");
  }
}

Topology machine(BackendKind backend, int ranks_per_device, int nodes = 1) {
  Topology topology;
  topology.backend = backend;
  topology.ranks = 4;
  topology.nodes = nodes;
  topology.ranks_per_device = ranks_per_device;
  topology.max_block_threads = 64;
  topology.scratch_limit = 64 << 20;
  topology.launch_us = topology.hop_us = topology.signal_us = topology.copy_us = 1;
  topology.link_bandwidth = topology.push_bandwidth = topology.packet_bandwidth =
      topology.copy_bandwidth = 1000;
  return topology;
}

/// The algorithms that have factors on the machine. A smaller number than here means that one has
/// lost its name or its place in the tables of communicator/selection/estimate.cpp.
std::size_t corrected_on(const Topology& topology) {
  const auto all = every_algorithm();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Algorithm* one) {
    const EstimateFactors factors = Selector::factors(*one, topology);
    return factors.fixed != 1 || factors.bytes != 1;
  }));
}

TEST(Estimates, AreCorrectedWithoutLinks) {
  EXPECT_EQ(corrected_on(machine(BackendKind::host, 1)), 63u);
  EXPECT_EQ(corrected_on(machine(BackendKind::host, 2)), 63u);
  EXPECT_EQ(corrected_on(machine(BackendKind::cuda, 2)), 45u);
  EXPECT_EQ(corrected_on(machine(BackendKind::hip, 3)), 45u);
  EXPECT_EQ(corrected_on(machine(BackendKind::cuda, 1)), 0u);
  EXPECT_EQ(corrected_on(machine(BackendKind::host, 1, 2)), 0u);
  EXPECT_EQ(corrected_on(machine(BackendKind::host, 2, 2)), 0u);
  Topology alone = machine(BackendKind::host, 1);
  alone.ranks = 1;
  EXPECT_EQ(corrected_on(alone), 0u);
}

/// The factors are of the two parts of a formula: launch and signals, and bytes.
TEST(Estimates, AreTheFormulaTimesFactors) {
  const Algorithm& ring = *Registry::instance().find("ring");
  const Topology host = machine(BackendKind::host, 1);
  const Call call{.count = 250'000};
  const EstimateFactors factors = Selector::factors(ring, host);
  // 2 (n - 1) steps of 1.5 signals; 2 (n - 1) / n of 1 MB at 1 GB/s.
  EXPECT_DOUBLE_EQ(ring.estimate(call, host), 10 + 1500);
  EXPECT_DOUBLE_EQ(Selector::estimate(ring, call, host), 10 * factors.fixed + 1500 * factors.bytes);
  EXPECT_DOUBLE_EQ(Selector::estimate(ring, call, machine(BackendKind::cuda, 1)), 10 + 1500);
}

/// Every all-reduce is served by a rule, whatever its size and memory, and by several algorithms.
TEST_F(Policies, BuiltInTablesServeEverything) {
  for (const int ranks : {2, 3, 4}) {
    Topology topology;
    topology.backend = BackendKind::cuda;
    topology.architecture = "sm_90";
    topology.ranks = ranks;
    topology.line_threads = 8;
    topology.max_block_threads = 512;
    topology.block_threads = 512;
    topology.units = 132;
    topology.scratch_limit = std::size_t{128} << 20;
    const Selector selector(topology, every_algorithm());
    std::set<std::string> used;
    for (std::size_t bytes = 1; bytes <= std::size_t{8} << 30; bytes *= 2)
      for (const bool symmetric : {false, true}) {
        Call call{.type = DataType::u8, .count = bytes};
        call.symmetric = symmetric;
        const Choice choice = selector.choose(call, {});
        EXPECT_EQ(choice.rule, "built-in table") << bytes;
        used.insert(std::string(choice.algorithm->name()));
      }
    EXPECT_GE(used.size(), 6u) << ranks;
    topology.architecture = "sm_80";
    EXPECT_TRUE(builtin_rules(topology).empty());
  }
}

/// CPU ranks: calls in ordinary memory have rules, with and without reads of the peers' memory.
TEST_F(Policies, BuiltInTablesServeTheHost) {
  for (const int ranks : {2, 3, 8}) {
    for (const bool peer_reads : {false, true}) {
      Topology topology;
      topology.backend = BackendKind::host;
      topology.architecture = "x86_64";
      topology.ranks = ranks;
      topology.indexed_arguments = true;
      topology.line_threads = 1;
      topology.max_block_threads = 64;
      topology.scratch_limit = std::size_t{128} << 20;
      topology.peer_reads = peer_reads;
      const Selector selector(topology, every_algorithm());
      bool pulls = false;
      for (int collective = 0; collective < collective_count; ++collective) {
        if (static_cast<Collective>(collective) == Collective::barrier) continue;
        for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 4) {
          Call call{.collective = static_cast<Collective>(collective),
                    .type = DataType::u8,
                    .count = bytes};
          call.parts = parts_of(call.collective, ranks);
          call.count = bytes / static_cast<unsigned>(call.parts);
          const Choice choice = selector.choose(call, {});
          EXPECT_EQ(choice.rule, "built-in table")
              << name_of(call.collective) << " of " << bytes << " bytes, " << ranks << " ranks";
          pulls = pulls || choice.algorithm->name() == "pull";
        }
      }
      EXPECT_EQ(pulls, peer_reads);
    }
  }
}

/// On GPUs and on the host, in any memory and at any size, alone and in batches.
TEST_F(Policies, ReproducibleServesEveryReduction) {
  for (const BackendKind backend : {BackendKind::host, BackendKind::cuda})
    for (const int ranks : {2, 3, 4, 8}) {
      Topology topology;
      topology.backend = backend;
      topology.architecture = backend == BackendKind::host ? "x86_64" : "sm_90";
      topology.ranks = ranks;
      topology.line_threads = backend == BackendKind::host ? 1 : 8;
      topology.units = backend == BackendKind::host ? 1 : 132;
      topology.block_threads = topology.max_block_threads = 512;
      topology.scratch_limit = std::size_t{128} << 20;
      topology.indexed_arguments = topology.peer_access = true;
      topology.link_bandwidth = topology.push_bandwidth = topology.packet_bandwidth = 300e3;
      topology.copy_bandwidth = 300e3;
      const Selector selector(topology, every_algorithm(), 0, {}, true);
      for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                          Collective::reduce, Collective::scan, Collective::exscan})
        for (const DataType type : {DataType::f32, DataType::bf16, DataType::f8e4m3})
          for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 2)
            for (const bool symmetric : {false, true}) {
              Call call{.collective = collective,
                        .type = type,
                        .op = is_scan(collective) ? ReduceOp::sum : ReduceOp::avg};
              call.symmetric = symmetric;
              call.parts = parts_of(collective, ranks);
              call.count = count_within(call, bytes);
              const Choice choice = selector.choose(call, {});
              EXPECT_TRUE(choice.algorithm->reduces_in_rank_order(call, topology))
                  << choice.algorithm->name();
              const Algorithm* const batch = selector.choose_batch(call);
              EXPECT_EQ(batch != nullptr,
                        collective == Collective::all_reduce || is_scan(collective));
              EXPECT_TRUE(batch == nullptr || batch->reduces_in_rank_order(call, topology));
            }
    }
}

TEST_F(Policies, AreNamedWhereAlgorithmsAre) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-1K=oneshot_ll;p2p");
  EXPECT_EQ(chosen("", 1023, false), "oneshot_ll");
  EXPECT_EQ(chosen("", 1024, false), "recursive_doubling");
  EXPECT_EQ(chosen("", std::size_t{1} << 20, false), "ring");
}

}  // namespace
}  // namespace plait
