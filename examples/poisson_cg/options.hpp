// What the command line says.
#pragma once
#include <optional>
#include <string>

namespace poisson {

struct Options {
  int n = 128;               ///< interior points in each direction
  int iterations = 10'000;   ///< at most
  double tolerance = 1e-8;   ///< of the residual, relative to that of x = 0
  std::string with = "all";  ///< plait, mpi, nccl, or all that there is
};

/// None after `--help`, which is printed if `print`. Throws `UsageError`.
std::optional<Options> parse_options(int argc, char** argv, bool print);

}  // namespace poisson
