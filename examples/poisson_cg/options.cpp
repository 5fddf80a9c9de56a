#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <optional>

#include "problem.hpp"

namespace poisson {

std::optional<Options> parse_options(int argc, char** argv, bool print) {
  Options options;
  CLI::App app(
      "Solves -Laplace u = f on the unit cube with conjugate gradients, on all ranks of an MPI "
      "program.");
  app.add_option("--n", options.n, "interior points in each direction")
      ->check(CLI::Range(1, 2048))
      ->capture_default_str();
  app.add_option("--iterations", options.iterations, "at most so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tolerance", options.tolerance, "of the residual, relative to that of u = 0")
      ->check(CLI::Range(1e-12, 1.0))
      ->capture_default_str();
  app.add_option("--with", options.with, "who carries the data")
      ->check(CLI::IsMember({"plait", "mpi", "nccl", "all"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (print) std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  if (std::isnan(options.tolerance))
    throw UsageError("--tolerance: not a number");  // CLI::Range accepts it
  return options;
}

}  // namespace poisson
