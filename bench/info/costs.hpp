// What the estimates of the algorithms are made of, for tools/fit_model.py.
#pragma once
#include <string>

namespace plait::info {

/// For a file of results that `plait-bench --json` wrote: JSON with the link model in force
/// (`facts`: the times of `DeviceFacts` in microseconds, and the bandwidths in bytes per
/// microsecond) and, for each result of an algorithm that is chosen by its estimate, how often the
/// estimate counts each of them. Those of the choice itself, `default`, count as the `algorithm`
/// that was chosen. `costs` are `constant`, in microseconds, the factors of the times,
/// and the bytes that are divided by each bandwidth. Their sum is the estimate: it is linear in the
/// times and in the reciprocals of the bandwidths. `factors`, which are in the costs already, are
/// those of `estimate_factors`.
///
/// The results' machine is taken for H200 behind an NVSwitch if its backend is not the host; with
/// `shared`, for one GPU that all ranks share, and bandwidths are those of all of them together.
/// `processors`: those on which CPU ranks took turns; the facts are those of a rank that has one
/// alone. 0: each rank had one.
/// Throws Error if the file can't be read or is none.
std::string costs(const std::string& file, bool shared, int processors);

}  // namespace plait::info
