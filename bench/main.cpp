// plait-bench: times collectives. Each process is one rank and runs this, or with --devices each of
// its threads; rank 0 prints.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/creation.hpp"
#include "bench/options.hpp"
#include "bench/peers/mpi.hpp"
#include "bench/peers/nccl_library.hpp"
#include "bench/plan.hpp"
#include "bench/session.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace {

using plait::Error;
using plait::ErrorCode;

constexpr int ok = 0, wrong_results = 1, bad_request = 2, broke = 3;  // --help explains them

/// Errors that all ranks meet together. Any other error may concern one rank, for which the rest
/// may be waiting.
bool is_everywhere(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
    case ErrorCode::mismatch:
    case ErrorCode::no_peer_access:
    case ErrorCode::out_of_memory:
      return true;
    default:
      return false;
  }
}

/// None on all ranks if any rank's flags or plug-ins are wrong, because the other ranks would wait
/// for it. The first such rank prints the reason.
std::optional<plait::bench::Options> agreed_options(int argc, char** argv,
                                                    plait::Bootstrap& world) {
  std::optional<plait::bench::Options> options;
  std::string wrong;
  try {
    options = plait::bench::parse_options(argc, argv);
  } catch (const Error& error) {
    wrong = error.what();
  }
  const std::vector<int> right = world.all_gather(options ? 1 : 0);
  const auto first = std::find(right.begin(), right.end(), 0);
  if (first == right.end()) return options;
  const int rank = world.rank();
  if (first - right.begin() == rank)
    fmt::print(stderr, "plait-bench: {}{}\n", rank == 0 ? "" : fmt::format("rank {}: ", rank),
               wrong);
  return std::nullopt;
}

/// Makes another bootstrap of the ranks of this one. Collective.
using MakeWorld = std::function<std::unique_ptr<plait::Bootstrap>(plait::Bootstrap&)>;

int run_rank(std::unique_ptr<plait::Bootstrap> world, const plait::bench::Options& options,
             const MakeWorld& make_world) {
  if (options.creations > 0) {
    plait::bench::measure_creation(*world, options, [&] { return make_world(*world); });
    return ok;
  }
  plait::bench::Session session(std::move(world), options);
  return session.run() == 0 ? ok : wrong_results;
}

/// The exit code of `body`. Prints its error, and ends all ranks if it may be this rank's alone.
/// `body` may still set `rank`.
int exit_code(const plait::bench::MpiSession& mpi, const int& rank,
              const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    const bool everywhere = is_everywhere(error.code());
    if (!everywhere) fmt::print(stderr, "plait-bench: rank {}: {}\n", rank, error.what());
    else if (rank == 0) fmt::print(stderr, "plait-bench: {}\n", error.what());
    if (!everywhere) mpi.abort(broke);
    return bad_request;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plait-bench: rank {}: {}\n", rank, error.what());
    mpi.abort(broke);
  }
}

/// A thread per rank, each of which does what a process does otherwise.
int run_devices(const plait::bench::Options& options, const plait::Bootstrap& processes,
                const plait::bench::MpiSession& mpi) {
  if (processes.size() > 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--devices {}: all ranks live in one process, but {} were started",
                            options.devices, processes.size()));
  plait::bench::NcclLibrary::turn_multicast_off();  // before there are threads
  auto worlds = plait::make_thread_bootstraps(options.devices);
  std::vector<int> codes(worlds.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.devices; ++rank)
    threads.emplace_back([&, rank, at = static_cast<std::size_t>(rank)] {
      codes[at] = exit_code(mpi, rank, [&] {
        return run_rank(std::move(worlds[at]), options,
                        [](plait::Bootstrap& world) { return world.split(0, world.rank()); });
      });
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

int run(int argc, char** argv, const plait::bench::MpiSession& mpi) {
  int rank = mpi.rank();
  return exit_code(mpi, rank, [&]() -> int {
    auto world = mpi.make_world();
    rank = world->rank();
    const auto options = agreed_options(argc, argv, *world);
    if (!options) return bad_request;
    if (!options->answer.empty()) {
      if (rank == 0) std::fputs(options->answer.c_str(), stdout);
      return ok;
    }
    if (options->dry_run) {
      if (rank == 0) std::fputs(plait::bench::plan_of(*options).c_str(), stdout);
      return ok;
    }
    if (options->devices > 0) return run_devices(*options, *world, mpi);
    return run_rank(std::move(world), *options,
                    [&](plait::Bootstrap&) { return mpi.make_world(); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  const plait::bench::MpiSession mpi(argc, argv);
  return run(argc, argv, mpi);
}
