// What algorithms would take on machines that nobody has at hand, for tools/scaling_model.py.
#pragma once
#include <string>

namespace plait::info {

/// `file` is JSON: `facts`, numbers of `DeviceFacts` and of `NetworkFacts` by their names,
/// `scratch_bytes`, `gpus` (else the ranks are on CPUs), and `calls`, each with `collective`,
/// `bytes`, `nodes` and `ranks_per_node`. Returns, for each call in ordinary memory, the estimate
/// in microseconds of each algorithm that serves it. Throws Error if the file can't be read or is
/// none.
std::string estimates(const std::string& file);

}  // namespace plait::info
