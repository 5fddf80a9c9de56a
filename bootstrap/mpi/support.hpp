// Shared by the parts of the MPI bootstrap: checked calls, and the requests that a failed call
// leaves under way.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

namespace plait::detail {

/// MPI's text for a status.
std::string describe(int status);
/// Throws Error(bootstrap) unless `status` is MPI_SUCCESS.
void check(int status, const char* call, int rank);
bool is_finalized();

/// Requests under way, and the memory that MPI reads and writes for them. That must never be the
/// caller's memory, which is gone after a timeout.
class Flight {
 public:
  virtual ~Flight() = default;
  Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  /// True if no request is under way any more. Lets MPI make progress.
  bool is_finished();

  std::vector<MPI_Request> requests;  // MPI_REQUEST_NULL when finished
};

/// Keeps the flight until the process ends, unless it is finished.
void abandon(std::unique_ptr<Flight> flight);
/// Remembers that a rank will never come.
void lose_rank();
/// True if no rank is lost and all abandoned flights have finished after all, so MPI can be
/// finalised. Lets them finish for a moment.
bool nothing_abandoned();

}  // namespace plait::detail
