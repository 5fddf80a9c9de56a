// The program's command line.
#pragma once
#include <optional>
#include <string>

namespace poisson {

struct Options {
  int n = 128;               ///< interior points in each direction
  int iterations = 10'000;   ///< the most to run
  double tolerance = 1e-8;   ///< for the residual, relative to the residual of x = 0
  std::string with = "all";  ///< plait, mpi, nccl, or all that are available
};

/// None after `--help`, whose text is printed if `print`. Throws `UsageError`.
std::optional<Options> parse_options(int argc, char** argv, bool print);

}  // namespace poisson
