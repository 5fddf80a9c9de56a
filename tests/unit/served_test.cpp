// What every algorithm of the registry serves. The calls that each one serves stand in the table of
// docs/algorithms/README.md; the test docs_tables compares.
#include <gtest/gtest.h>

#include <array>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"

namespace plait {
namespace {

/// Whether the algorithm serves whole packs in symmetric memory, which every one can do best, on
/// one node or else on two.
Support serves_the_best(const Algorithm& algorithm, Topology topology) {
  const Call best{.collective = algorithm.collective(),
                  .count = 1024,
                  .symmetric = true,
                  .parts = parts_of(algorithm.collective(), topology.ranks)};
  const Support support = can_serve(algorithm, best, topology);
  if (support || !algorithm.spans_nodes()) return support;
  topology.nodes = 2;
  topology.rails = topology.node_ranks = topology.ranks / 2;
  return can_serve(algorithm, best, topology);
}

/// A communicator asks every algorithm for the most blocks of a launch, also one that the target
/// does not serve: here a GPU without lines.
TEST(Served, EveryAlgorithmFitsALaunchOnEveryTarget) {
  Topology topology;
  topology.backend = BackendKind::cuda;
  topology.ranks = 4;
  topology.units = 132;
  topology.max_block_threads = 512;
  topology.peer_access = false;
  topology.line_threads = 0;
  for (const auto& algorithm : Registry::instance().all()) {
    const LaunchShape shape = algorithm->fitted({.blocks = 4, .threads = 33}, {}, topology);
    EXPECT_TRUE(shape.blocks >= 1 && shape.blocks <= 4) << algorithm->name();
    EXPECT_GE(shape.threads, 1u) << algorithm->name();
  }
}

/// The host target stands in for every other target, so an algorithm that refuses it would drop out
/// of all tests that run without a GPU.
TEST(Served, IncludesTheHostTarget) {
  const auto backend = open_backend(BackendKind::host, 0);
  backend->meet(std::array{backend->process_facts()});
  Topology host{backend->info().facts};
  host.backend = BackendKind::host;
  host.ranks = 2;
  host.peer_reads = true;  // a machine may forbid them: then `pull` is not there, rightly
  host.scratch_limit = std::size_t{128} << 20;
  for (const auto& algorithm : Registry::instance().all()) {
    const Support support = serves_the_best(*algorithm, host);
    EXPECT_TRUE(support) << algorithm->name() << ": " << support.reason();
  }
}

}  // namespace
}  // namespace plait
