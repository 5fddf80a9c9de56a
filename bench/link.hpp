// The bandwidth of the link between two ranks, with which measured bandwidths are compared.
#pragma once
#include <functional>
#include <string>

#include "backends/backend.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

struct Link {
  double gb_per_s = 0;  // one way, in 1e9 bytes per second; 0: a single rank has no link
  std::string how;      // how it was measured, as printed
};

/// Measures large copies in one direction between neighbours. On a GPU the copy engine copies, on
/// the host the processor. Collective.
Link measure_link(Communicator& comm, NativeStream stream);

/// Milliseconds on `stream` of what `work` enqueues there: of the slowest rank, the median of
/// `repeats` repeats after one that warms up. Ranks with an empty `work` take no part. Collective.
double median_milliseconds(Communicator& comm, NativeStream stream, int repeats,
                           const std::function<void()>& work);

}  // namespace plait::bench
