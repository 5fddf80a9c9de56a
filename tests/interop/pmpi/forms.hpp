// MPI's calls that don't block, and persistent ones, as calls that do.
#pragma once
#include <mpi.h>
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PLAIT_INIT(NAME) MPIX_##NAME##_init
#else
#define PLAIT_INIT(NAME) MPI_##NAME##_init
#endif

#include <array>

namespace plait::test {

/// Ends a request by each of MPI's functions in turn, beside a message to this rank itself.
inline int end_somehow(MPI_Request& request, [[maybe_unused]] bool persistent = false) {
  static int turn = 0;
  ++turn;
#ifndef OPEN_MPI  // MPICH 5.0.2 finds an error in MPI_Testall of its own persistent calls
  if (persistent && turn % 9 == 4) ++turn;
#endif
  MPI_Status status;
  int flag = 0, result = MPI_SUCCESS;
  if (turn % 9 == 0) return MPI_Wait(&request, &status);
  if (turn % 9 == 1) {
    while (flag == 0 && result == MPI_SUCCESS) result = MPI_Test(&request, &flag, &status);
    return result;
  }
  if (turn % 9 == 2) {
    while (flag == 0) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  int received = -1, index = 0, number = 0;
  std::array<MPI_Request, 3> all{MPI_REQUEST_NULL, request, MPI_REQUEST_NULL};
  std::array<MPI_Status, 3> statuses;
  std::array<int, 3> indices{};
  MPI_Irecv(&received, 1, MPI_INT, 0, 0, MPI_COMM_SELF, all.data());
  MPI_Isend(&turn, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &all[2]);
  for (int left = 3; left > 0 && result == MPI_SUCCESS;) {
    switch (turn % 9) {
      case 3:
        result = MPI_Waitall(3, all.data(), statuses.data());
        left = 0;
        break;
      case 4:
        result = MPI_Testall(3, all.data(), &flag, statuses.data());
        left = flag != 0 ? 0 : 3;
        break;
      case 5:
        result = MPI_Waitany(3, all.data(), &index, &status);
        --left;
        break;
      case 6:
        result = MPI_Testany(3, all.data(), &index, &flag, MPI_STATUS_IGNORE);
        left -= flag;
        break;
      case 7:
        result = MPI_Waitsome(3, all.data(), &number, indices.data(), statuses.data());
        left -= number;
        break;
      default:
        result = MPI_Testsome(3, all.data(), &number, indices.data(), MPI_STATUSES_IGNORE);
        left -= number;
    }
  }
  request = all[1];
  return received == turn ? result : MPI_ERR_TRUNCATE;
}

/// A call that doesn't block, as one that does.
template <auto Begin, class Blocking>
struct Ended;
template <auto Begin, class... Args>
struct Ended<Begin, int (*)(Args...)> {
  static int call(Args... args) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int status = Begin(args..., &request);
    if (status != MPI_SUCCESS) return status;
    const int ended = end_somehow(request);
    return request == MPI_REQUEST_NULL ? ended : MPI_ERR_REQUEST;
  }
};
/// A persistent one, started once.
template <auto Init, class Blocking>
struct Started;
template <auto Init, class... Args>
struct Started<Init, int (*)(Args...)> {
  static int call(Args... args) {
    MPI_Request request = MPI_REQUEST_NULL;
    int status = Init(args..., MPI_INFO_NULL, &request);
    if (status == MPI_SUCCESS) status = MPI_Start(&request);
    if (status == MPI_SUCCESS) status = end_somehow(request, true);
    if (request == MPI_REQUEST_NULL) return MPI_ERR_REQUEST;
    MPI_Request_free(&request);
    return status;
  }
};

}  // namespace plait::test
