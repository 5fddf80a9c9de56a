// A target's answers before it has a stream: its devices, and its kernels.
#include <gtest/gtest.h>

#include <utility>

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

/// An algorithm that says that it serves a call has the kernel, and no other kernel is compiled for
/// the rare types.
TEST(Backends, HaveAKernelForEveryTypeOfEveryAlgorithm) {
  const auto backend = open_backend(target(), 0);
  Topology topology{backend->info().facts};
  topology.backend = target();
  topology.ranks = 2;
  topology.peer_reads = true;
  for (const auto& [family, collective] : {std::pair("copy_engine", Collective::all_reduce),
                                           {"oneshot_ll", Collective::all_reduce},
                                           {"oneshot_ll", Collective::scan},
                                           {"recursive_doubling", Collective::all_reduce},
                                           {"ring", Collective::all_reduce},
                                           {"twoshot", Collective::all_reduce},
                                           {"stream", Collective::all_reduce},
                                           {"chain", Collective::exscan},
                                           {"direct_push", Collective::reduce_scatter},
                                           {"direct_ll", Collective::reduce},
                                           {"pull", Collective::all_reduce}}) {
    const Algorithm& algorithm = *Registry::instance().find(family, collective);
    for (int type = 0; type < data_type_count; ++type)
      for (int op = 0; op < reduce_op_count; ++op) {
        const Call call{.collective = collective,
                        .type = static_cast<DataType>(type),
                        .op = static_cast<ReduceOp>(op),
                        .count = 64,
                        .symmetric = true};
        if (!is_reduced(call.type, call.op) || (call.op == ReduceOp::avg && is_scan(collective)))
          continue;
        const DataType made = in_words(call).type;
        EXPECT_EQ(static_cast<bool>(algorithm.supports(call, topology)),
                  backend->find_kernel(family, made) != nullptr)
            << family << ", " << name_of(call.op) << " of " << name_of(call.type);
      }
  }
  EXPECT_EQ(backend->find_kernel("no such family", DataType::f32), nullptr);
}

}  // namespace
}  // namespace plait::test
