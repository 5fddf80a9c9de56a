// What the parts of the MPI bootstrap share: checked calls, and what a failed call leaves under
// way.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

namespace plait::detail {

/// MPI's own words.
std::string describe(int status);
/// Throws Error(bootstrap) unless `status` is MPI_SUCCESS.
void check(int status, const char* call, int rank);
bool is_finalized();

/// Requests under way with the memory that MPI reads and writes for them. It must never be the
/// caller's, which is gone after a timeout.
class Flight {
 public:
  virtual ~Flight() = default;
  Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  /// Lets MPI go on.
  bool is_finished();

  std::vector<MPI_Request> requests;  // MPI_REQUEST_NULL when finished
};

/// Kept until the process ends, if it is not finished.
void abandon(std::unique_ptr<Flight> flight);
/// A rank will never come.
void lose_rank();
/// Whether no rank is lost, and those that were given up have come after all, so that MPI can be
/// finalised.
bool nothing_abandoned();

}  // namespace plait::detail
