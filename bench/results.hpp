// The results of the measurements and the facts about the machine.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bench/ceiling/ceilings.hpp"
#include "bench/link.hpp"
#include "bench/options.hpp"
#include "bench/timing.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

/// busbw / algbw: 2 (n-1)/n for all-reduce, 1 for broadcast, reduce, scans and send_recv, (n-1)/n
/// for all others.
constexpr double busbw_factor(Collective collective, int ranks) {
  if (collective == Collective::broadcast || collective == Collective::reduce ||
      collective == Collective::send_recv || is_scan(collective))
    return 1;
  return (collective == Collective::all_reduce ? 2.0 : 1.0) * (ranks - 1) / ranks;
}

struct Result {
  std::string name;  // an algorithm, "default", "peer:..."
  Call call;
  int ranks = 1;
  bool in_place = false;
  std::size_t offset = 0;  // bytes from an aligned address to the buffers
  Memory memory = Memory::ordinary;
  Timing timing = Timing::graph;
  Times times;
  int repeats = 0, calls = 0;        // calls per repeat
  std::optional<std::size_t> wrong;  // as `count_wrong` counts; none: not checked
  std::string chosen;                // for "default": the algorithm that served it
  std::string earlier;               // its JSON, if taken over from an earlier run

  /// Size of the larger buffer, as nccl-tests defines it.
  std::size_t bytes() const { return call.bytes(); }
  bool moves_data() const { return call.collective != Collective::barrier; }
  double time_us() const { return times.median(); }
  /// bytes / time, in GB/s; GB = 1e9 bytes. A barrier has no bandwidth: both are 0.
  double algbw() const { return static_cast<double>(bytes()) / (time_us() * 1e3); }
  /// The least bandwidth of the busiest link direction, as nccl-tests defines it.
  double busbw() const { return algbw() * busbw_factor(call.collective, ranks); }
  /// busbw in percent of the greatest bandwidth that was measured, if any.
  std::optional<double> percent_of(const Ceilings& ceilings) const {
    const auto greatest = ceilings.greatest_gbs();
    return greatest && moves_data() ? std::optional(100 * busbw() / *greatest) : std::nullopt;
  }
};

struct Machine {
  std::string date;  // UTC, ISO 8601
  std::string hostname, backend;
  std::string architecture;          // of all devices; "mixed" if they differ
  std::vector<std::string> ranks;    // "rank 0 of 2: cuda device 0, NVIDIA H200 (sm_90)"
  std::vector<std::string> devices;  // one name per rank
  int nodes = 1;
  std::string version, mpi_version;
  std::string nccl_version{};  // empty: not loaded
  int processes = 1;           // in which the ranks live
  Link link{};
  Ceilings ceilings{};
  std::string command_line{};
  std::string settings{};  // flags that change how everything is measured; see `settings`
};

/// Collective. Leaves `nccl_version`, `link`, `ceilings`, `command_line` and `settings` to the
/// caller.
Machine describe_machine(Communicator& comm);
/// Whether two ranks have the same device. Collective.
bool share_a_device(Communicator& comm);

}  // namespace plait::bench
