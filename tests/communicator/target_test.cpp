// A target's answers before it has a stream: its devices, and its kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <tuple>

#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "plait/error.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

TEST(Backends, SayWhyTheyHaveNoDevice) {
  for (const BackendKind kind : {BackendKind::host, BackendKind::cuda, BackendKind::hip}) {
    if (device_count(kind) > 0) {
      EXPECT_TRUE(is_built(kind));
      EXPECT_EQ(why_no_device(kind), "");
    } else {
      EXPECT_NE(why_no_device(kind), "");
      EXPECT_THROW(open_backend(kind, 0), Error);
    }
  }
  if (target() == BackendKind::host) return;  // every rank of the host has its own device
  EXPECT_THROW(open_backend(target(), 1000), Error);
  EXPECT_THROW(open_backend(target(), -1), Error);
}

/// Each algorithm that says that it serves a call has the kernel, for all types and operations. No
/// kernel of a reduction is compiled that serves none. `direct_copy` has copies alone.
TEST(Backends, HaveAKernelForEveryTypeOfEveryAlgorithm) {
  const auto backend = open_backend(target(), 0);
  std::set<std::tuple<std::string, DataType>> served, there;
  std::set<std::string> names;
  for (const int nodes : {1, 2}) {
    Topology topology{backend->info().facts};
    topology.backend = target();
    topology.ranks = 2 * nodes;
    topology.nodes = nodes;
    topology.rails = topology.node_ranks = 2;
    topology.scratch_limit = 64 << 20;
    topology.peer_access = topology.peer_reads = true;
    for (const auto& algorithm : Registry::instance().all())
      for (int type = 0; type < data_type_count; ++type)
        for (int op = 0; op < reduce_op_count; ++op)
          for (const std::size_t count : {64u, 1u << 20}) {
            const Collective collective = algorithm->collective();
            Call call{.collective = collective,
                      .type = static_cast<DataType>(type),
                      .op = static_cast<ReduceOp>(op),
                      .count = count,
                      .symmetric = true};
            call.parts = parts_of(collective, topology.ranks);
            const bool reduces = facts_of(collective).reduces;
            if (collective == Collective::barrier || (!reduces && op != 0) ||
                (reduces && !is_reduced(call.type, call.op)) ||
                (call.op == ReduceOp::avg && is_scan(collective)))
              continue;
            call = in_words(call);
            const std::string family(algorithm->family());
            const DataType kernel = reduces ? call.type : move_type(call.type);
            const bool has = backend->find_kernel(family, kernel) != nullptr;
            if (has && is_rare(call)) there.insert({family, call.type});
            if (family == "direct_copy" || !can_serve(*algorithm, call, topology)) continue;
            names.insert(fmt::format("{} of {}", family, name_of(collective)));
            served.insert({family, call.type});
            EXPECT_TRUE(has) << algorithm->name() << ", " << name_of(collective) << " with "
                             << name_of(call.op) << " of " << name_of(static_cast<DataType>(type));
          }
  }
  EXPECT_GT(names.size(), 40u) << "algorithms that could be tried";
  for (const auto& kernel : there)
    EXPECT_TRUE(served.contains(kernel))
        << std::get<0>(kernel) << " for " << name_of(std::get<1>(kernel)) << " serves no call";
  EXPECT_EQ(backend->find_kernel("no such family", DataType::f32), nullptr);
}

}  // namespace
}  // namespace plait::test
