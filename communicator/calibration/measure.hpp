// Times the algorithms on the machine at hand.
#pragma once
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_rules.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// Times the calls of every collective by every algorithm that may be chosen by itself, at sizes
/// from 512 B to 32 MB on GPUs and from 128 B to 2 MB on the host, each four times the one before,
/// and in the middle of two where the fastest algorithm may differ. GPUs run graphs, as
/// `plait-bench --timing graph`; on the host each call is waited for, as `--timing latency`. Types
/// are bf16 and f32, reductions are sums.
///
/// Algorithms that take far longer than the fastest in their first call are not measured further.
/// When `measuring_limit_us` have passed, the rest is left out: a collective and kind of memory is
/// in the result with all its sizes, or not at all.
///
/// Collective, and the result is the same on all ranks. `comm`: nobody else uses it. Throws
/// Error(out_of_memory) on all ranks if one has no memory for the buffers.
std::vector<MeasuredCall> measure_algorithms(Communicator& comm, const Topology& topology);

/// Tests set it, for machines that are busy.
inline double measuring_limit_us = 3e6;

}  // namespace plait
