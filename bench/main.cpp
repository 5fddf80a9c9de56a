// plait-bench: times collectives. Each process is one rank and runs this, or with --devices each of
// its threads; rank 0 prints.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/creation.hpp"
#include "bench/options.hpp"
#include "bench/peers/mpi.hpp"
#include "bench/peers/nccl_library.hpp"
#include "bench/plan.hpp"
#include "bench/program.hpp"
#include "bench/session.hpp"
#include "core/standard_fds.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

constexpr const char* program = "plait-bench";

/// Makes another bootstrap of the ranks of this one. Collective.
using MakeWorld = std::function<std::unique_ptr<Bootstrap>(Bootstrap&)>;

int run_rank(std::unique_ptr<Bootstrap> world, const Options& options,
             const MakeWorld& make_world) {
  if (options.creations > 0) {
    measure_creation(*world, options, [&] { return make_world(*world); });
    return ok;
  }
  Session session(std::move(world), options);
  return session.run() == 0 ? ok : wrong_results;
}

/// A thread per rank, each of which does what a process does otherwise.
int run_devices(const Options& options, const Bootstrap& processes, const MpiSession& mpi) {
  if (processes.size() > 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--devices {}: all ranks live in one process, but {} were started",
                            options.devices, processes.size()));
  NcclLibrary::turn_multicast_off();  // before there are threads
  std::vector<std::future<int>> codes;
  for (auto& world : make_thread_bootstraps(options.devices))
    codes.push_back(std::async(std::launch::async, [&, own = std::move(world)]() mutable {
      return exit_code(program, mpi, own->rank(), [&] {
        return run_rank(std::move(own), options,
                        [](Bootstrap& ranks) { return ranks.split(0, ranks.rank()); });
      });
    }));
  int worst = ok;
  for (auto& code : codes) worst = std::max(worst, code.get());
  return worst;
}

int run(int argc, char** argv, const MpiSession& mpi, std::unique_ptr<Bootstrap> world) {
  Options options;
  std::string wrong;
  try {
    options = parse_options(argc, argv);
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (!are_right(*world, program, wrong)) return bad_request;
  const std::string answer = options.dry_run ? plan_of(options) : options.answer;
  if (!answer.empty()) {
    if (world->rank() == 0) std::fputs(answer.c_str(), stdout);
    return ok;
  }
  if (options.devices > 0) return run_devices(options, *world, mpi);
  return run_rank(std::move(world), options, [&](Bootstrap&) { return mpi.make_world(); });
}

}  // namespace
}  // namespace plait::bench

int main(int argc, char** argv) {
  using namespace plait::bench;
  const plait::StandardFdsTaken taken;
  const MpiSession mpi(argc, argv);
  return run_program(program, mpi, [&](std::unique_ptr<plait::Bootstrap> world) {
    return run(argc, argv, mpi, std::move(world));
  });
}
