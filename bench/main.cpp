// plait-bench: times collectives. Each process is one rank and runs this; rank 0 prints.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <optional>
#include <string>

#include "bench/options.hpp"
#include "bench/session.hpp"
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
std::optional<plait::bench::Options> agreed_options(int argc, char** argv, int rank) {
  std::optional<plait::bench::Options> options;
  std::string wrong;
  try {
    options = plait::bench::parse_options(argc, argv);
  } catch (const Error& error) {
    wrong = error.what();
  }
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first = options ? ranks : rank;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == ranks) return options;
  if (first == rank)
    fmt::print(stderr, "plait-bench: {}{}\n", rank == 0 ? "" : fmt::format("rank {}: ", rank),
               wrong);
  return std::nullopt;
}

int run(int argc, char** argv, int rank) {
  try {
    const auto options = agreed_options(argc, argv, rank);
    if (!options) return bad_request;
    if (!options->answer.empty()) {
      if (rank == 0) std::fputs(options->answer.c_str(), stdout);
      return ok;
    }
    plait::bench::Session session(*options);
    return session.run() == 0 ? ok : wrong_results;
  } catch (const Error& error) {
    const bool everywhere = is_everywhere(error.code());
    if (!everywhere) fmt::print(stderr, "plait-bench: rank {}: {}\n", rank, error.what());
    else if (rank == 0) fmt::print(stderr, "plait-bench: {}\n", error.what());
    if (!everywhere) MPI_Abort(MPI_COMM_WORLD, broke);
    return bad_request;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plait-bench: rank {}: {}\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, broke);
    return broke;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A stream's thread calls MPI for the peer while this thread waits, so calls never overlap.
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int status = run(argc, argv, rank);
  MPI_Finalize();
  return status;
}
