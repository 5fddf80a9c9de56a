#include <array>

#include "communicator/selection/selection.hpp"

namespace plait {

namespace {

// The fastest algorithm at each size, measured on H200 behind NVSwitch with graphs of bf16 calls,
// 2026-11-21 to 23 (docs/benchmarks). Among several rules for a size the first counts that serves
// the call, so rules for algorithms that need symmetric memory stand before those for any memory.
struct Table {
  int ranks;
  std::string_view rules;
};
constexpr std::array<Table, 3> h200 = {{
    {2,
     "0-24K=oneshot_ll;24K-900K=oneshot_ll128;900K-1536K=twoshot_ll128;1536K-5M=oneshot_ll128;"
     "5M-7M=twoshot_ll128;7M-10M=oneshot_ll128;10M-40M=twoshot;160M- "
     "out=copy_engine;40M-=twoshot_push;"
     "10M-24M=twoshot_ll128;24M-=ring;"
     "reduce_scatter:0-96K=direct_ll;16M-80M=direct_pull;96K-32M=direct_ll128;32M-=direct_push;"
     "all_gather:0-24K=direct_ll;24K-8M=direct_ll128;160M- "
     "out=direct_copy;200M-=direct_copy;8M-=direct_put;"
     "8M-28M=direct_ll128;28M-=direct_push;"
     "broadcast:0-128K=direct_ll;128K-6M=direct_ll128;100M-=direct_copy;6M-=chain;"
     "reduce:0-192K=direct_ll;192K-5632K=direct_ll128;120M-=direct_pull;5632K-=chain;"
     "all_to_all:0-160K=direct_ll;160K-8M=direct_ll128;100M-=direct_copy;8M-=direct_put;"
     "8M-28M=direct_ll128;28M-=direct_push;"
     "gather:0-400K=direct_ll;400K-13M=direct_ll128;200M-=direct_copy;13M-40M=direct_put;"
     "13M-20M=direct_ll128;20M-=direct_push;"
     "scatter:0-200K=direct_ll;200K-14M=direct_ll128;200M-=direct_copy;14M-40M=direct_put;"
     "14M-24M=direct_ll128;24M-=direct_push;"
     "send_recv:0-48K=pairwise_ll;48K-1536K=pairwise_ll128;80M-=pairwise_copy;1536K-=pairwise_put;"
     "1536K-11M=pairwise_ll128;11M-=pairwise_push"},
    // all_reduce on 3 ranks was measured up to 1 MB and from 64 MB on. Between these, flash and
    // the LL128 algorithms are placed as they compare on 4 ranks.
    {3,
     "0-48K=oneshot_ll;48K-320K=oneshot_ll128;320K-5M=twoshot_ll128;"
     "5M-40M=flash;80M- out=copy_engine;40M-=twoshot_push;"
     "5M-32M=twoshot_ll128;32M-=stream;"
     "reduce_scatter:0-128K=direct_ll;128K-32M=direct_ll128;32M-=direct_push;"
     "all_gather:0-48K=direct_ll;48K-3M=direct_ll128;160M- "
     "out=direct_copy;200M-=direct_copy;3M-=direct_put;"
     "3M-96M=direct_ll128;96M-=direct_push;"
     "broadcast:0-96K=direct_ll;96K-200K=direct_ll128;200K-3M=relay_ll128;3M-=chain;"
     "reduce:0-48K=direct_ll;48K-200K=direct_ll128;200K-3M=relay_ll128;3M-=chain;"
     "all_to_all:0-256K=direct_ll;256K-3M=direct_ll128;128M-=direct_copy;3M-=direct_put;"
     "3M-24M=direct_ll128;24M-=direct_push;"
     "gather:0-512K=direct_ll;512K-20M=direct_ll128;120M-=direct_copy;20M-=direct_push;"
     "scatter:0-512K=direct_ll;512K-3M=direct_ll128;200M-=direct_copy;3M-40M=direct_put;"
     "3M-=direct_push;"
     "send_recv:0-40K=pairwise_ll;40K-1536K=pairwise_ll128;80M-=pairwise_copy;1536K-=pairwise_put;"
     "1536K-5M=pairwise_ll128;5M-=pairwise_push"},
    {4,
     "0-48K=oneshot_ll;48K-320K=oneshot_ll128;320K-5M=twoshot_ll128;"
     "5M-40M=flash;80M- out=copy_engine;40M-=twoshot_push;"
     "5M-32M=twoshot_ll128;32M-=stream;"
     "reduce_scatter:0-128K=direct_ll;128K-24M=direct_ll128;24M-=direct_push;"
     "all_gather:0-32K=direct_ll;32K-3M=direct_ll128;160M- "
     "out=direct_copy;200M-=direct_copy;3M-=direct_put;"
     "3M-24M=direct_ll128;24M-=direct_push;"
     "broadcast:0-96K=direct_ll;96K-200K=direct_ll128;200K-2560K=relay_ll128;2560K-=chain;"
     "reduce:0-48K=direct_ll;48K-448K=direct_ll128;448K-2560K=relay_ll128;2560K-=chain;"
     "all_to_all:0-256K=direct_ll;256K-3M=direct_ll128;128M-=direct_copy;3M-=direct_put;"
     "3M-24M=direct_ll128;24M-=direct_push;"
     "gather:0-320K=direct_ll;320K-16M=direct_ll128;200M-=direct_copy;16M-=direct_push;"
     "scatter:0-512K=direct_ll;512K-3M=direct_ll128;200M-=direct_copy;3M-40M=direct_put;"
     "3M-10M=direct_ll128;10M-=direct_push;"
     "send_recv:0-40K=pairwise_ll;40K-1536K=pairwise_ll128;80M-=pairwise_copy;1536K-=pairwise_put;"
     "1536K-5M=pairwise_ll128;5M-=pairwise_push"},
}};

// Measured with CPU ranks, blocking calls of f32, 2 and 4 ranks on 2 cores of an AMD EPYC,
// 2026-11-24 (docs/benchmarks/host-2026-11-24.md). For symmetric memory the estimates find the
// fastest algorithm. So these rules are for ordinary memory, and for sizes at which one copy beats
// loads by the kernel. `pull` is passed over where ranks can't read each other's memory.
constexpr std::string_view host_pair =
    "0-640 ordinary=oneshot_ll128;40K- ordinary=pull;640- ordinary=stream;"
    "reduce_scatter:0-128 ordinary=direct_ll;128-2K ordinary=direct_ll128;24K- ordinary=pull;2K- "
    "ordinary=direct_push;"
    "all_gather:0-128 ordinary=direct_ll;128-2K ordinary=direct_ll128;24K- ordinary=pull;2K- "
    "ordinary=direct_push;"
    "broadcast:12K- ordinary=pull;200K-=pull;0- ordinary=chain;"
    "reduce:0-3K ordinary=chain;24K- ordinary=pull;3K- ordinary=direct_push;"
    "all_to_all:0-128 ordinary=direct_ll;128-1536 ordinary=direct_ll128;24K- ordinary=pull;1536- "
    "ordinary=direct_push;"
    "gather:0-128 ordinary=direct_ll;128-2K ordinary=direct_ll128;24K- ordinary=pull;2K- "
    "ordinary=direct_push;"
    "scatter:0-128 ordinary=direct_ll;128-2K ordinary=direct_ll128;24K- "
    "ordinary=pull;512K-=pull;2K- ordinary=direct_push;"
    "send_recv:12K- ordinary=pairwise_pull;0- ordinary=pairwise_push";
constexpr std::string_view host_more =
    "0-2K ordinary=oneshot_ll128;2K-96K ordinary=halving_doubling;96K- ordinary=pull;96K- "
    "ordinary=stream;"
    "reduce_scatter:0-128 ordinary=direct_ll;128-12K ordinary=direct_ll128;1M- ordinary=pull;12K- "
    "ordinary=direct_push;"
    "all_gather:0-12K ordinary=direct_ll128;12K- ordinary=pull;12K- ordinary=direct_push;"
    "broadcast:0-8K ordinary=direct_ll128;8K- ordinary=pull;8K- ordinary=chain;"
    "reduce:0-128 ordinary=direct_ll;128-6K ordinary=direct_ll128;128K- ordinary=pull;6K- "
    "ordinary=direct_push;"
    "all_to_all:0-128 ordinary=direct_ll;128-12K ordinary=direct_ll128;12K- ordinary=pull;12K- "
    "ordinary=direct_push;"
    "gather:0-128 ordinary=direct_ll;128-12K ordinary=direct_ll128;12K- ordinary=pull;12K- "
    "ordinary=direct_push;"
    "scatter:0-128 ordinary=direct_ll;128-12K ordinary=direct_ll128;12K- ordinary=pull;12K- "
    "ordinary=direct_push;"
    "send_recv:12K- ordinary=pairwise_pull;0- ordinary=pairwise_push";

}  // namespace

std::string_view builtin_rules(const Topology& topology) {
  if (topology.backend == BackendKind::host)
    return topology.ranks < 2 ? std::string_view() : topology.ranks == 2 ? host_pair : host_more;
  if (topology.architecture != "sm_90" || !topology.peer_access) return {};
  for (const Table& table : h200)
    if (table.ranks == topology.ranks) return table.rules;
  return {};
}

std::span<const Policy> policies() {
  static constexpr std::array<Policy, 2> all = {{
      {"yali", "0-67108865=flash;0-=stream",
       "YALI: Flash up to and with 64 MiB, Stream above (and where memory is not symmetric)"},
      {"p2p", "0-32769=recursive_doubling;32769-=ring",
       "the peer-to-peer design: recursive doubling up to and with 32 KiB, ring above"},
  }};
  return all;
}

}  // namespace plait
