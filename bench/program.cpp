#include "bench/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "plait/error.hpp"

namespace plait::bench {
namespace {

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

}  // namespace

bool are_right(Bootstrap& world, const char* program, const std::string& wrong) {
  const std::vector<int> right = world.all_gather(wrong.empty() ? 1 : 0);
  const auto first = std::find(right.begin(), right.end(), 0);
  if (first == right.end()) return true;
  const int rank = world.rank();
  if (first - right.begin() == rank)
    fmt::print(stderr, "{}: {}{}\n", program, rank == 0 ? "" : fmt::format("rank {}: ", rank),
               wrong);
  return false;
}

int exit_code(const char* program, const MpiSession& mpi, const int& rank,
              const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    const bool everywhere = is_everywhere(error.code());
    if (!everywhere) fmt::print(stderr, "{}: rank {}: {}\n", program, rank, error.what());
    else if (rank == 0) fmt::print(stderr, "{}: {}\n", program, error.what());
    if (!everywhere) mpi.abort(broke);
    return bad_request;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: rank {}: {}\n", program, rank, error.what());
    mpi.abort(broke);
  }
}

int run_program(const char* program, const MpiSession& mpi,
                const std::function<int(std::unique_ptr<Bootstrap>)>& body) {
  int rank = mpi.rank();
  return exit_code(program, mpi, rank, [&] {
    auto world = mpi.make_world();
    rank = world->rank();
    return body(std::move(world));
  });
}

}  // namespace plait::bench
