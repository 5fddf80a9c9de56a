// The results as tables for a reader.
#pragma once
#include <cstdio>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// Prints lines about the machine and the run, then the names of the columns.
void print_header(std::FILE* out, const Machine& machine, const Options& options);
/// `statistics`: with the columns that Options::statistics adds.
void print_result(std::FILE* out, const Result& result, const Ceilings& ceilings, bool statistics);
/// Prints the empty line between groups.
void print_gap(std::FILE* out);
/// Prints the fastest of Plait's algorithms for every type, operation and size, with the best peer
/// beside it. Then prints the number of wrong elements.
void print_summary(std::FILE* out, const std::vector<Result>& results);

/// Sum of all results' wrong elements.
std::size_t total_wrong(const std::vector<Result>& results);

}  // namespace plait::bench
