// MPI's functions that begin and end calls that don't block, in front of those of the MPI below.
// Arrays may hold requests of both. Plait's calls proceed by themselves; MPI's in these functions.
#include <mpi.h>

#include <thread>

#include "core/backoff.hpp"
#include "interop/pmpi/requests.hpp"

namespace plait::pmpi {
namespace {

Requests& requests() { return Requests::instance(); }

/// Plait's request behind this one, or null.
Request* own(MPI_Request handle) {
  return requests().none() || handle == MPI_REQUEST_NULL ? nullptr : requests().find(handle);
}
Request* under_way(MPI_Request handle) {
  Request* const request = own(handle);
  return request != nullptr && request->is_under_way() ? request : nullptr;
}

/// An array as MPI gets it: without Plait's requests. Intel's MPI 2021.19 takes an inactive request
/// that receives from MPI_PROC_NULL for one that is done.
class OfMpi {
 public:
  OfMpi(int count, MPI_Request handles[])
      : handles_(handles), all_(handles, handles + count), is_own_(all_.size()) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      is_own_[i] = own(all_[i]) != nullptr;
      if (is_own_[i]) all_[i] = MPI_REQUEST_NULL;
    }
  }
  ~OfMpi() {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (!is_own_[i]) handles_[i] = all_[i];
  }
  OfMpi(const OfMpi&) = delete;
  OfMpi& operator=(const OfMpi&) = delete;
  MPI_Request* data() { return all_.data(); }

 private:
  MPI_Request* handles_;
  std::vector<MPI_Request> all_;
  std::vector<bool> is_own_;
};

/// Waits. The request is null afterwards, or inactive if it is persistent.
int end(Request& request, MPI_Request& handle) {
  const int status = request.end();
  if (!request.is_persistent()) requests().remove(handle);
  return status;
}

/// What MPI says of requests that are null or inactive.
void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
}
MPI_Status* at(MPI_Status* statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
}

/// What an array has of Plait's: a call that is done; calls under way, of which none is done; none.
enum class Found : std::uint8_t { done, under_way, nothing };
template <class End>
Found find(int count, MPI_Request handles[], const End& end_if_done) {
  Found found = Found::nothing;
  for (int i = 0; i < count; ++i) {
    Request* const request = under_way(handles[i]);
    if (request == nullptr) continue;
    if (!request->is_done()) found = found == Found::nothing ? Found::under_way : found;
    else if (found = Found::done; !end_if_done(*request, i)) return found;
  }
  return found;
}

/// MPI_Testany, and whether a call of Plait's is under way, which MPI doesn't see.
int test_any(int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status,
             bool& waits) {
  int result = MPI_SUCCESS;
  const Found found = find(count, handles, [&](Request& request, int i) {
    result = end(request, handles[i]);
    set_empty(status);
    *index = i;
    *flag = 1;
    return false;
  });
  waits = found == Found::under_way;
  if (found == Found::done) return result;
  result = PMPI_Testany(count, OfMpi(count, handles).data(), index, flag, status);
  if (waits && *flag != 0 && *index == MPI_UNDEFINED) *flag = 0;
  return result;
}

/// MPI_Testsome likewise. `*number`: MPI_UNDEFINED if nothing is under way.
int test_some(int count, MPI_Request handles[], int* number, int indices[], MPI_Status statuses[]) {
  int result = MPI_SUCCESS, ended = 0;
  const Found found = find(count, handles, [&](Request& request, int i) {
    const int error = end(request, handles[i]);
    set_empty(at(statuses, ended));
    if (statuses != MPI_STATUSES_IGNORE) statuses[ended].MPI_ERROR = error;
    if (error != MPI_SUCCESS) result = MPI_ERR_IN_STATUS;
    indices[ended++] = i;
    return true;
  });
  const int below = PMPI_Testsome(count, OfMpi(count, handles).data(), number, indices + ended,
                                  at(statuses, ended));
  if (*number != MPI_UNDEFINED) *number += ended;
  else if (found != Found::nothing) *number = ended;
  return below != MPI_SUCCESS ? below : result;
}

/// After a test that found nothing. The thread that makes Plait's calls may wait for this core.
int not_yet() {
  let_mpi_proceed();
  std::this_thread::yield();
  return MPI_SUCCESS;
}

Backoff pauses() { return Backoff({.spins = 100, .sleep = std::chrono::microseconds(20)}); }

}  // namespace
}  // namespace plait::pmpi

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::pmpi;  // NOLINT(google-build-using-namespace)

int MPI_Wait(MPI_Request* handle, MPI_Status* status) {
  Request* const request = own(*handle);
  if (request == nullptr) return PMPI_Wait(handle, status);
  set_empty(status);
  return request->is_under_way() ? end(*request, *handle) : MPI_SUCCESS;
}
int MPI_Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  Request* const request = own(*handle);
  if (request == nullptr) return PMPI_Test(handle, flag, status);
  *flag = !request->is_under_way() || request->is_done() ? 1 : 0;
  if (*flag != 0) return MPI_Wait(handle, status);
  return not_yet();
}
int MPI_Request_get_status(MPI_Request handle, int* flag, MPI_Status* status) {
  Request* const request = own(handle);
  if (request == nullptr) return PMPI_Request_get_status(handle, flag, status);
  *flag = !request->is_under_way() || request->is_done() ? 1 : 0;
  if (*flag == 0) return not_yet();
  set_empty(status);
  return MPI_SUCCESS;
}

int MPI_Waitall(int count, MPI_Request handles[], MPI_Status statuses[]) {
  if (requests().none()) return PMPI_Waitall(count, handles, statuses);
  std::vector<std::pair<int, int>> errors;
  for (int i = 0; i < count; ++i)
    if (Request* const request = under_way(handles[i]))
      if (const int error = end(*request, handles[i]); error != MPI_SUCCESS)
        errors.emplace_back(i, error);
  const int below = PMPI_Waitall(count, OfMpi(count, handles).data(), statuses);
  if (errors.empty()) return below;
  for (int i = 0; i < count && statuses != MPI_STATUSES_IGNORE && below == MPI_SUCCESS; ++i)
    statuses[i].MPI_ERROR = MPI_SUCCESS;
  for (const auto& [i, error] : errors)
    if (statuses != MPI_STATUSES_IGNORE) statuses[i].MPI_ERROR = error;
  return MPI_ERR_IN_STATUS;
}
int MPI_Testall(int count, MPI_Request handles[], int* flag, MPI_Status statuses[]) {
  if (requests().none()) return PMPI_Testall(count, handles, flag, statuses);
  bool all_done = true;
  for (int i = 0; i < count; ++i)
    if (Request* const request = under_way(handles[i])) all_done = all_done && request->is_done();
  *flag = 0;
  if (!all_done) return not_yet();
  // Ends none of MPI's unless all are done.
  if (const int below = PMPI_Testall(count, OfMpi(count, handles).data(), flag, statuses);
      below != MPI_SUCCESS || *flag == 0)
    return below;
  return MPI_Waitall(count, handles, MPI_STATUSES_IGNORE);
}

int MPI_Testany(int count, MPI_Request handles[], int* index, int* flag, MPI_Status* status) {
  if (requests().none()) return PMPI_Testany(count, handles, index, flag, status);
  bool waits = false;
  return test_any(count, handles, index, flag, status, waits);
}
int MPI_Waitany(int count, MPI_Request handles[], int* index, MPI_Status* status) {
  if (requests().none()) return PMPI_Waitany(count, handles, index, status);
  for (Backoff wait = pauses();; wait.pause()) {
    int flag = 0;
    bool waits = false;
    const int result = test_any(count, handles, index, &flag, status, waits);
    if (result != MPI_SUCCESS || flag != 0) return result;
    if (!waits) return PMPI_Waitany(count, OfMpi(count, handles).data(), index, status);
  }
}
int MPI_Testsome(int count, MPI_Request handles[], int* number, int indices[],
                 MPI_Status statuses[]) {
  if (requests().none()) return PMPI_Testsome(count, handles, number, indices, statuses);
  return test_some(count, handles, number, indices, statuses);
}
int MPI_Waitsome(int count, MPI_Request handles[], int* number, int indices[],
                 MPI_Status statuses[]) {
  if (requests().none()) return PMPI_Waitsome(count, handles, number, indices, statuses);
  for (Backoff wait = pauses();; wait.pause())
    if (const int result = test_some(count, handles, number, indices, statuses);
        result != MPI_SUCCESS || *number != 0)
      return result;
}

int MPI_Start(MPI_Request* handle) {
  Request* const request = own(*handle);
  if (request == nullptr) return PMPI_Start(handle);
  Tally tally(request->function(), Form::persistent);
  try {
    const Below below;
    const MpiProceeds proceeds;
    request->begin();
    tally.was(Why::served);
    return MPI_SUCCESS;
  } catch (const std::exception& error) {
    tally.was(Why::failed);
    const Served* const served = request->served();
    return raise(served == nullptr ? MPI_COMM_SELF : served->mpi, error);
  }
}
int MPI_Startall(int count, MPI_Request handles[]) {
  if (requests().none()) return PMPI_Startall(count, handles);
  for (int i = 0; i < count; ++i)
    if (const int status = MPI_Start(&handles[i]); status != MPI_SUCCESS) return status;
  return MPI_SUCCESS;
}
int MPI_Request_free(MPI_Request* handle) {
  Request* const request = own(*handle);
  if (request == nullptr) return PMPI_Request_free(handle);
  const int status = request->end();
  requests().remove(*handle);
  return status;
}
