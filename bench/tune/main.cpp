// plait-tune: times the algorithms of this machine for the library's choice. Each process is one
// rank and runs this; rank 0 prints.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "bench/peers/mpi.hpp"
#include "bench/program.hpp"
#include "bench/tune/options.hpp"
#include "bench/tune/tuner.hpp"
#include "core/standard_fds.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace {

using plait::bench::TuneOptions;

constexpr const char* program = "plait-tune";

/// The tuner names the algorithm of each call, so what the user has set for the choice is of no use
/// to it. A check looks at the choice.
void set_environment(const TuneOptions& options) {
  if (options.check) {
    if (!options.output.empty()) setenv("PLAIT_TUNING", options.output.c_str(), 1);
    return;
  }
  unsetenv("PLAIT_ALGO");
  unsetenv("PLAIT_TUNING");
  setenv("PLAIT_CALIBRATE", "0", 1);
}

int run(const TuneOptions& options, const std::string& wrong,
        std::unique_ptr<plait::Bootstrap> world) {
  if (!plait::bench::are_right(*world, program, wrong)) return plait::bench::bad_request;
  if (!options.answer.empty()) {
    if (world->rank() == 0) std::fputs(options.answer.c_str(), stdout);
    return plait::bench::ok;
  }
  plait::bench::Tuner tuner(std::move(world), options);
  const std::size_t wrong_candidates = options.check ? tuner.check() : tuner.tune();
  return wrong_candidates == 0 ? plait::bench::ok : plait::bench::wrong_results;
}

}  // namespace

int main(int argc, char** argv) {
  TuneOptions options;
  std::string wrong;
  try {
    options = plait::bench::parse_tune_options(argc, argv);
  } catch (const plait::Error& error) {
    wrong = error.what();
  }
  set_environment(options);  // before MPI starts threads
  const plait::StandardFdsTaken taken;
  const plait::bench::MpiSession mpi(argc, argv);
  return plait::bench::run_program(program, mpi, [&](std::unique_ptr<plait::Bootstrap> world) {
    return run(options, wrong, std::move(world));
  });
}
