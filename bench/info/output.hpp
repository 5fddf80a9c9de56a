// What plait-info prints: for people (listing.cpp), for programs (json.cpp, which alone compiles
// nlohmann-json), and for the documentation (markdown.cpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/info/catalog.hpp"
#include "plait/statistics.hpp"

namespace plait::info {

/// Prints targets, devices, types and operations, and a row per name of an algorithm. Algorithms
/// that serve nothing here share a line per reason.
void print_listing(const std::vector<BackendFacts>& backends, const Topology& topology,
                   const std::vector<AlgorithmFacts>& algorithms);

/// Prints what the algorithms of that name serve here, and why not more. Throws
/// Error(invalid_argument) if there is none.
void print_why(const std::vector<AlgorithmFacts>& algorithms, const std::string& name);

/// All that the catalogue knows, and the statistics of a job if there was one.
std::string catalog_json(const std::vector<BackendFacts>& backends,
                         const std::vector<AlgorithmFacts>& algorithms, int ranks,
                         const std::optional<Statistics>& counted);

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

/// `file` is JSON: `facts`, numbers of `DeviceFacts` and of `NetworkFacts` by their names,
/// `scratch_bytes`, `gpus` (else the ranks are on CPUs), and `calls`, each with `collective`,
/// `bytes`, `nodes` and `ranks_per_node`. Returns, for each call in ordinary memory, the estimate
/// in microseconds of each algorithm that serves it. Throws Error if the file can't be read or is
/// none.
std::string estimates(const std::string& file);

/// Tables of algorithms. Each follows a line `<!-- table: NAME -->`. The text is the same on every
/// machine and in every build, because it asks the algorithms about reference machines; it leaves
/// out the algorithms of plug-ins. tools/docs_tables.py puts the tables into the pages.
std::string markdown();

}  // namespace plait::info
