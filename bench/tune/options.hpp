// The command line of plait-tune.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plait/call.hpp"

namespace plait::bench {

struct TuneOptions {
  std::string output;                   // the file; empty: the one in the user's cache
  std::vector<Collective> collectives;  // none: all
  std::vector<DataType> types;          // none: bf16 on GPUs, f32 on the host
  /// None: from 512 B to 512 MB on GPUs, from 128 B to 8 MB on the host.
  std::optional<std::size_t> min_bytes, max_bytes;
  bool symmetric = true, ordinary = true;
  double seconds = 90;
  std::optional<BackendKind> backend;
  /// Compares the library's choice with the fastest algorithm, and writes nothing.
  bool check = false;
  int check_sizes = 40;
  bool verbose = false;  // a line for each call of a check
  std::string command_line;
  std::string answer;  // the text of --help or --version; if not empty, print it and stop
};

/// Throws Error(invalid_argument) with one sentence for a wrong flag or value.
TuneOptions parse_tune_options(int argc, char** argv);

/// The sizes at which all algorithms are timed: each four times the one before, and the last one.
std::vector<std::size_t> tuned_sizes(const TuneOptions& options, BackendKind backend);
/// `check_sizes` sizes between these, evenly on a logarithmic scale, each a multiple of 16.
std::vector<std::size_t> checked_sizes(const TuneOptions& options, BackendKind backend);

}  // namespace plait::bench
