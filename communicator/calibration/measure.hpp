// Times the algorithms on the machine at hand.
#pragma once
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/calibration/plan.hpp"
#include "communicator/selection/measured_times.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// Times the calls of every collective by every algorithm that may be chosen by itself. GPUs run
/// graphs, as `plait-bench --timing graph`; on the host each call is waited for, as
/// `--timing latency`. Reductions are sums.
///
/// Algorithms that take far longer than the fastest in their first call are not measured further:
/// their time is that of this call. When the time is over, the rest is left out: a kind is in the
/// result with all its first sizes, or not at all.
///
/// Collective, and the result is the same on all ranks. Nothing else may use `comm` meanwhile.
/// Throws Error(out_of_memory) on all ranks if one has no memory for the buffers.
std::vector<MeasuredCall> measure_algorithms(Communicator& comm, const Topology& topology,
                                             const MeasuringPlan& plan);

}  // namespace plait
