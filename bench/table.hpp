// The results as tables for a reader.
#pragma once
#include <cstdio>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// What races over one message: calls of the same kind and size, in the same place.
struct Race {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t bytes = 0;
  bool in_place = false;
  std::size_t offset = 0;
  Memory memory = Memory::symmetric;  // of Plait's; peers with ordinary buffers run in both
  bool operator==(const Race&) const = default;
};
Race race_of(const Result& result);

/// Prints lines about the machine and the run, then the names of the columns: those of `print_row`,
/// or with Options::table those of `print_result`.
void print_header(std::FILE* out, const Machine& machine, const Options& options);
/// Prints the names of the columns of `print_row`.
void print_row_names(std::FILE* out, const Machine& machine, const Options& options);
/// Prints the row of a race: the default, the best algorithm and the best peer. Nothing if none of
/// them has a result. Then names the results with wrong elements.
void print_row(std::FILE* out, const Race& race, const std::vector<Result>& results,
               const Options& options);
/// `statistics`: with the columns that Options::statistics adds.
void print_result(std::FILE* out, const Result& result, const Ceilings& ceilings, bool statistics);
/// Prints how many elements were checked, and how many of them are wrong.
void print_verdict(std::FILE* out, const std::vector<Result>& results);

/// Sum of all results' wrong elements.
std::size_t total_wrong(const std::vector<Result>& results);

}  // namespace plait::bench
