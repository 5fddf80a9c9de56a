// What the machine gives at most: bandwidths and latencies beside which collectives are judged.
#pragma once
#include <algorithm>
#include <optional>
#include <string>

#include "bench/link.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

/// None where it was not measured. Bandwidths are one way, in 1e9 bytes per second.
struct Ceilings {
  std::optional<double> push_gbs{}, pull_gbs{};   // a kernel that stores to, or loads from, a peer
  std::optional<double> copy_engine_gbs{};        // `measure_link`; on the host a memcpy
  std::optional<double> flag_us{};                // one way between two ranks
  std::optional<double> signal_us{};              // release and store of one, nobody waiting
  std::optional<double> barrier_us{};             // of all ranks, on the device
  std::optional<double> launch_us{}, query_us{};  // host: an empty kernel, whether an event came
  std::string how{};                              // how they were measured, as printed

  /// The greatest bandwidth: that of percentages.
  std::optional<double> greatest_gbs() const {
    return std::max({push_gbs, pull_gbs, copy_engine_gbs});  // none is less than any
  }
};

/// Measures them, in some tenths of a second. Between neighbours, ranks 0->1, 2->3, ..., and the
/// slowest pair counts. A single rank has none. Ranks on several nodes have a barrier only. Throws
/// Error(timeout) if a peer does not answer within half of the bootstrap's timeout. Collective.
Ceilings measure_ceilings(Communicator& comm, NativeStream stream, const Link& link);

}  // namespace plait::bench
