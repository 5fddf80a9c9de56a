// Choices among the real algorithms: by the policies, by the built-in tables, and by estimates.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "support/environment.hpp"
#include "support/every_algorithm.hpp"

namespace plait {
namespace {

using test::every_algorithm;
using test::ScopedEnvironment;

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

/// One that has built-in rules: CPU ranks on one node, or GPUs that reach each other.
Topology known_machine(BackendKind backend, int ranks) {
  const bool host = backend == BackendKind::host;
  Topology topology = machine(backend, 1);
  topology.architecture = host ? "x86_64" : "sm_90";
  topology.ranks = ranks;
  topology.line_threads = host ? 1 : 8;
  topology.units = host ? 1 : 132;
  topology.block_threads = topology.max_block_threads = 512;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.indexed_arguments = true;
  return topology;
}

/// A section of communicator/selection/builtin.factors: its heading, and rows COLLECTIVE NAME FIXED
/// BYTES.
struct Section {
  std::string heading;
  std::vector<std::tuple<Collective, std::string, double, double>> rows{};
};
std::vector<Section> sections() {
  std::vector<Section> all;
  std::istringstream text{std::string(builtin_factors_text)};
  Collective collective{};
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with('[')) all.push_back({.heading = line});
    if (line.starts_with('#') || line.starts_with('[')) continue;
    std::istringstream said(line);
    for (std::string word; said >> word;) {
      if (word.back() == ':') {
        collective = parse_collective(word.substr(0, word.size() - 1));
        continue;
      }
      const auto equals = word.find('='), comma = word.find(',');
      all.back().rows.emplace_back(collective, word.substr(0, equals),
                                   std::stod(word.substr(equals + 1)),
                                   std::stod(word.substr(comma + 1)));
    }
  }
  return all;
}

/// Each row is one of an algorithm that there is, and counts on its machine.
TEST(Estimates, AreCorrectedWithoutLinks) {
  const std::vector<Section> all = sections();
  const Topology machines[] = {machine(BackendKind::host, 1), machine(BackendKind::host, 2),
                               machine(BackendKind::cuda, 2), machine(BackendKind::hip, 3)};
  ASSERT_EQ(all.size(), std::size(machines));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_GE(all[i].rows.size(), 45u) << all[i].heading;
    for (const auto& [collective, name, fixed, bytes] : all[i].rows) {
      const Algorithm* const algorithm = Registry::instance().find(name, collective);
      ASSERT_NE(algorithm, nullptr) << all[i].heading << name_of(collective) << name;
      const EstimateFactors factors = Selector::factors(*algorithm, machines[i]);
      EXPECT_EQ(factors.fixed, fixed) << all[i].heading << name_of(collective) << name;
      EXPECT_EQ(factors.bytes, bytes) << all[i].heading << name_of(collective) << name;
    }
  }
}

TEST(Estimates, AreAsTheFormulasSayWithLinks) {
  Topology alone = machine(BackendKind::host, 1);
  alone.ranks = 1;
  for (const Topology& topology : {machine(BackendKind::cuda, 1), machine(BackendKind::host, 1, 2),
                                   machine(BackendKind::host, 2, 2), alone})
    for (const Algorithm* const algorithm : every_algorithm()) {
      const EstimateFactors factors = Selector::factors(*algorithm, topology);
      EXPECT_TRUE(factors.fixed == 1 && factors.bytes == 1) << algorithm->name();
    }
}

/// As a plug-in may have it.
class Stranger final : public Algorithm {
 public:
  Stranger(Collective collective, StaticName family) : collective_(collective), family_(family) {}
  StaticName name() const override { return "stranger"; }
  StaticName family() const override { return family_; }
  Collective collective() const override { return collective_; }
  std::string_view summary() const override { return ""; }
  Support supports(const Call&, const Topology&) const override { return {}; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override { return {{}}; }
  double estimate(const Call&, const Topology&) const override { return 1; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext&) const override {}

 private:
  Collective collective_;
  StaticName family_;
};

/// Without a row it has the factors of its family, or the geometric mean of its collective.
TEST(Estimates, AreCorrectedForStrangers) {
  const Topology host = machine(BackendKind::host, 2);
  const Algorithm& ring = *Registry::instance().find("ring");
  const EstimateFactors of_ring = Selector::factors(ring, host),
                        of_kin = Selector::factors(Stranger(Collective::all_reduce, "ring"), host);
  EXPECT_EQ(of_kin.fixed, of_ring.fixed);
  EXPECT_EQ(of_kin.bytes, of_ring.bytes);
  double fixed = 1, bytes = 1, rows = 0;
  const auto all = sections();
  for (const auto& [collective, name, its_fixed, its_bytes] : all.at(1).rows)
    if (collective == Collective::all_reduce) {
      fixed *= its_fixed;
      bytes *= its_bytes;
      ++rows;
    }
  const EstimateFactors other =
      Selector::factors(Stranger(Collective::all_reduce, "stranger"), host);
  EXPECT_NEAR(other.fixed, std::pow(fixed, 1 / rows), 1e-9);
  EXPECT_NEAR(other.bytes, std::pow(bytes, 1 / rows), 1e-9);
  EXPECT_EQ(Selector::factors(Stranger(Collective::scan, "stranger"), host).fixed, 1);
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
    Topology topology = known_machine(BackendKind::cuda, ranks);
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
      Topology topology = known_machine(BackendKind::host, ranks);
      topology.peer_reads = peer_reads;
      const Selector selector(topology, every_algorithm());
      bool pulls = false;
      for (int collective = 0; collective < collective_count; ++collective) {
        if (static_cast<Collective>(collective) == Collective::barrier) continue;
        for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 4) {
          Call call{.collective = static_cast<Collective>(collective), .type = DataType::u8};
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

constexpr std::pair<BackendKind, int> machines[] = {
    {BackendKind::host, 2}, {BackendKind::host, 3}, {BackendKind::host, 4}, {BackendKind::host, 8},
    {BackendKind::cuda, 2}, {BackendKind::cuda, 3}, {BackendKind::cuda, 4}, {BackendKind::cuda, 8}};

/// In either order, on GPUs and on the host, in any memory and at any size, alone and in batches.
TEST_F(Policies, ReproducibleServesEveryReduction) {
  for (const bool tree : {false, true})
    for (const auto& [backend, ranks] : machines) {
      const Topology topology = known_machine(backend, ranks);
      const Selector selector(topology, every_algorithm(), 0, {},
                              tree ? SumOrder::tree : SumOrder::ranks);
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
              const Call ordered = selector.ordered(call, {});
              EXPECT_EQ(choice.sum_order,
                        tree && !is_scan(collective) ? SumOrder::tree : SumOrder::ranks);
              EXPECT_TRUE(selector.admits(*choice.algorithm, ordered)) << choice.algorithm->name();
              const Algorithm* const batch = selector.choose_batch(call);
              EXPECT_EQ(batch != nullptr,
                        (collective == Collective::all_reduce && !tree) || is_scan(collective));
              EXPECT_TRUE(batch == nullptr || selector.admits(*batch, ordered));
            }
    }
}

/// Without a policy, too.
TEST_F(Policies, EveryAllReduceOnANodeKeepsRankOrder) {
  for (const auto& [backend, ranks] : machines) {
    const Selector selector(known_machine(backend, ranks), every_algorithm());
    for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f8e4m3})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min})
        for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 2)
          for (const bool symmetric : {false, true}) {
            Call call{.type = type, .op = op, .count = bytes / size_of(type)};
            call.symmetric = symmetric;
            EXPECT_EQ(selector.choose(call, {}).sum_order, SumOrder::ranks);
            Call in_order = call;
            in_order.sum_order = SumOrder::ranks;
            const Algorithm* const batch = selector.choose_batch(call);
            EXPECT_TRUE(batch == nullptr || selector.admits(*batch, in_order));
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
