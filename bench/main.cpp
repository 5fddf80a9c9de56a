// plait-bench: times collectives. Each process is one rank and runs this; rank 0 prints.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/creation.hpp"
#include "bench/options.hpp"
#include "bench/peers/mpi.hpp"
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

int run(int argc, char** argv, const plait::bench::MpiSession& mpi) {
  int rank = mpi.rank();
  try {
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
    if (options->creations > 0) {
      plait::bench::measure_creation(*world, *options, [&] { return mpi.make_world(); });
      return ok;
    }
    plait::bench::Session session(std::move(world), *options);
    return session.run() == 0 ? ok : wrong_results;
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

}  // namespace

int main(int argc, char** argv) {
  const plait::bench::MpiSession mpi(argc, argv);
  return run(argc, argv, mpi);
}
