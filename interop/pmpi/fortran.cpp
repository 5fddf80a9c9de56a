// Fortran's names of the functions that Plait serves, for Open MPI, whose own call those of C by
// their PMPI_ names and so pass by this library. MPICH's and Intel's call them by their MPI_ names.
//
// Each has two names: mpif.h and the module mpi call mpi_NAME_, the module mpi_f08 ompi_NAME_f, but
// pmpi_NAME_ for most functions with logicals. All arguments are addresses. Handles are numbers,
// indices begin with 1, and true is what the compiler that built MPI takes for it.
#include <mpi.h>
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PLAIT_INIT(NAME) MPIX_##NAME##_init
#define PLAIT_X x  // of the names of persistent calls
#else
#define PLAIT_INIT(NAME) MPI_##NAME##_init
#define PLAIT_X
#endif

#ifdef OPEN_MPI
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

extern "C" {
// Where they are says what they mean.
extern int mpi_fortran_in_place_, mpi_fortran_bottom_;
// In a program without Fortran there is none.
[[gnu::weak]] void pmpi_initialized_(MPI_Fint* flag, MPI_Fint* error);
}

namespace plait::pmpi {
namespace {

void* address(void* given) {
  if (given == &mpi_fortran_in_place_) return MPI_IN_PLACE;
  return given == &mpi_fortran_bottom_ ? MPI_BOTTOM : given;
}
MPI_Fint& number(void* given) { return *static_cast<MPI_Fint*>(given); }

// NOLINTBEGIN(bugprone-macro-parentheses): types
/// A parameter of C's, from Fortran's.
template <class T>
struct Argument {
  explicit Argument(void* given) : at(given) {}
  operator T() const { return static_cast<T>(at); }  // NOLINT(google-explicit-constructor)
  void* at;
};
#define PLAIT_ARGUMENT(TYPE, VALUE)                                         \
  template <>                                                               \
  struct Argument<TYPE> {                                                   \
    explicit Argument(void* given) : at(given) {}                           \
    operator TYPE() const { return VALUE; } /* NOLINT(google-explicit-*) */ \
    void* at;                                                               \
  };
PLAIT_ARGUMENT(void*, address(at))
PLAIT_ARGUMENT(const void*, address(at))
PLAIT_ARGUMENT(int, number(at))
PLAIT_ARGUMENT(MPI_Datatype, MPI_Type_f2c(number(at)))
PLAIT_ARGUMENT(MPI_Op, MPI_Op_f2c(number(at)))
PLAIT_ARGUMENT(MPI_Comm, MPI_Comm_f2c(number(at)))
PLAIT_ARGUMENT(MPI_Info, MPI_Info_f2c(number(at)))
#undef PLAIT_ARGUMENT
/// Handles that the call changes.
#define PLAIT_ARGUMENT(TYPE, NAME)                                                         \
  template <>                                                                              \
  struct Argument<TYPE*> {                                                                 \
    explicit Argument(void* given) : at(given), handle(MPI_##NAME##_f2c(number(given))) {} \
    ~Argument() { number(at) = MPI_##NAME##_c2f(handle); }                                 \
    Argument(const Argument&) = delete;                                                    \
    Argument& operator=(const Argument&) = delete;                                         \
    operator TYPE*() { return &handle; } /* NOLINT(google-explicit-constructor) */         \
    void* at;                                                                              \
    TYPE handle;                                                                           \
  };
PLAIT_ARGUMENT(MPI_Request, Request)
PLAIT_ARGUMENT(MPI_Comm, Comm)
#undef PLAIT_ARGUMENT
// NOLINTEND(bugprone-macro-parentheses)

/// Calls C's function. The last argument gets what it returns.
template <class... Parameters, std::size_t... I>
void call(int (*function)(Parameters...), const std::array<void*, sizeof...(Parameters) + 1>& given,
          std::index_sequence<I...>) {
  number(given.back()) = function(Argument<Parameters>(given[I])...);
}
template <class... Parameters>
void call(int (*function)(Parameters...),
          const std::array<void*, sizeof...(Parameters) + 1>& given) {
  call(function, given, std::index_sequence_for<Parameters...>());
}

MPI_Fint logical(int flag) {
  static const MPI_Fint yes = [] {
    MPI_Fint initialized = 1, error = 0;
    if (pmpi_initialized_ != nullptr) pmpi_initialized_(&initialized, &error);
    return initialized;
  }();
  return flag != 0 ? yes : 0;
}

/// Fortran's requests and statuses.
class Arrays {
 public:
  Arrays(int count, void* handles, void* statuses)
      : handles_(static_cast<MPI_Fint*>(handles)), own_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = MPI_Request_f2c(handles_[i]);
    if (statuses == MPI_F_STATUS_IGNORE || statuses == MPI_F_STATUSES_IGNORE) return;
    statuses_ = static_cast<MPI_Fint*>(statuses);
    own_statuses_.resize(own_.size() + 1);  // an empty array is no MPI_STATUSES_IGNORE
  }
  MPI_Request* handles() { return own_.data(); }
  MPI_Status* statuses() {
    return statuses_ == nullptr ? MPI_STATUSES_IGNORE : own_statuses_.data();
  }
  /// To the program: all requests, and so many statuses.
  void give_back(int statuses) {
    for (std::size_t i = 0; i < own_.size(); ++i) handles_[i] = MPI_Request_c2f(own_[i]);
    for (std::size_t i = 0; statuses_ != nullptr && i < static_cast<std::size_t>(statuses); ++i)
      MPI_Status_c2f(&own_statuses_[i], statuses_ + i * (sizeof(MPI_Status) / sizeof(MPI_Fint)));
  }

 private:
  MPI_Fint *handles_, *statuses_ = nullptr;
  std::vector<MPI_Request> own_;
  std::vector<MPI_Status> own_statuses_;
};

void give_back(const MPI_Status& own, void* status) {
  if (status != MPI_F_STATUS_IGNORE) MPI_Status_c2f(&own, static_cast<MPI_Fint*>(status));
}
void from_one(MPI_Fint& index) {
  if (index != MPI_UNDEFINED) ++index;
}

}  // namespace
}  // namespace plait::pmpi

using namespace plait::pmpi;  // NOLINT(google-build-using-namespace): the functions are global

#define PLAIT_BOTH_(X, NAME, PARAMETERS)                                                          \
  extern "C" void mpi##X##_##NAME##_ PARAMETERS __attribute__((alias("ompi" #X "_" #NAME "_f"))); \
  extern "C" void ompi##X##_##NAME##_f PARAMETERS
#define PLAIT_BOTH(X, NAME, PARAMETERS) PLAIT_BOTH_(X, NAME, PARAMETERS)

#define PLAIT_WITH_LOGICAL(NAME, PARAMETERS)                                            \
  extern "C" void pmpi_##NAME##_ PARAMETERS __attribute__((alias("ompi_" #NAME "_f"))); \
  PLAIT_BOTH(, NAME, PARAMETERS)

#define PLAIT_P2 void *a, void *b
#define PLAIT_P3 PLAIT_P2, void* c
#define PLAIT_P4 PLAIT_P3, void* d
#define PLAIT_P5 PLAIT_P4, void* e
#define PLAIT_P6 PLAIT_P5, void* f
#define PLAIT_P7 PLAIT_P6, void* g
#define PLAIT_P8 PLAIT_P7, void* h
#define PLAIT_P9 PLAIT_P8, void* i
#define PLAIT_P10 PLAIT_P9, void* j
#define PLAIT_P11 PLAIT_P10, void* k
#define PLAIT_P12 PLAIT_P11, void* l
#define PLAIT_V2 a, b
#define PLAIT_V3 PLAIT_V2, c
#define PLAIT_V4 PLAIT_V3, d
#define PLAIT_V5 PLAIT_V4, e
#define PLAIT_V6 PLAIT_V5, f
#define PLAIT_V7 PLAIT_V6, g
#define PLAIT_V8 PLAIT_V7, h
#define PLAIT_V9 PLAIT_V8, i
#define PLAIT_V10 PLAIT_V9, j
#define PLAIT_V11 PLAIT_V10, k
#define PLAIT_V12 PLAIT_V11, l
#define PLAIT_FORTRAN(X, NAME, FUNCTION, N) \
  PLAIT_BOTH(X, NAME, (PLAIT_P##N)) { call(FUNCTION, {PLAIT_V##N}); }
// The numbers are those of Fortran's arguments in each form.
#define PLAIT_FORMS(FUNCTION, IFUNCTION, NAME, N, NI, NP) \
  PLAIT_FORTRAN(, NAME, MPI_##FUNCTION, N)                \
  PLAIT_FORTRAN(, i##NAME, MPI_##IFUNCTION, NI)           \
  PLAIT_FORTRAN(PLAIT_X, NAME##_init, PLAIT_INIT(FUNCTION), NP)

// NOLINTBEGIN(misc-definitions-in-headers,readability-named-parameter)
PLAIT_FORMS(Allreduce, Iallreduce, allreduce, 7, 8, 9)
PLAIT_FORMS(Scan, Iscan, scan, 7, 8, 9)
PLAIT_FORMS(Exscan, Iexscan, exscan, 7, 8, 9)
PLAIT_FORMS(Reduce, Ireduce, reduce, 8, 9, 10)
PLAIT_FORMS(Reduce_scatter, Ireduce_scatter, reduce_scatter, 7, 8, 9)
PLAIT_FORMS(Reduce_scatter_block, Ireduce_scatter_block, reduce_scatter_block, 7, 8, 9)
PLAIT_FORMS(Bcast, Ibcast, bcast, 6, 7, 8)
PLAIT_FORMS(Allgather, Iallgather, allgather, 8, 9, 10)
PLAIT_FORMS(Alltoall, Ialltoall, alltoall, 8, 9, 10)
PLAIT_FORMS(Gather, Igather, gather, 9, 10, 11)
PLAIT_FORMS(Scatter, Iscatter, scatter, 9, 10, 11)
PLAIT_FORMS(Allgatherv, Iallgatherv, allgatherv, 9, 10, 11)
PLAIT_FORMS(Gatherv, Igatherv, gatherv, 10, 11, 12)
PLAIT_FORMS(Scatterv, Iscatterv, scatterv, 10, 11, 12)
PLAIT_FORMS(Alltoallv, Ialltoallv, alltoallv, 10, 11, 12)
PLAIT_FORMS(Barrier, Ibarrier, barrier, 2, 3, 4)
PLAIT_FORTRAN(, comm_free, MPI_Comm_free, 2)
PLAIT_FORTRAN(, comm_disconnect, MPI_Comm_disconnect, 2)
PLAIT_FORTRAN(, start, MPI_Start, 2)
PLAIT_FORTRAN(, request_free, MPI_Request_free, 2)

PLAIT_BOTH(, finalize, (void* error)) { number(error) = MPI_Finalize(); }
PLAIT_BOTH(, startall, (void* count, void* handles, void* error)) {
  Arrays all(number(count), handles, MPI_F_STATUSES_IGNORE);
  number(error) = MPI_Startall(number(count), all.handles());
  all.give_back(0);
}
PLAIT_BOTH(, wait, (void* handle, void* status, void* error)) {
  MPI_Status own;
  number(error) = MPI_Wait(Argument<MPI_Request*>(handle), &own);
  give_back(own, status);
}
PLAIT_WITH_LOGICAL(test, (void* handle, void* flag, void* status, void* error)) {
  MPI_Status own;
  int done = 0;
  number(error) = MPI_Test(Argument<MPI_Request*>(handle), &done, &own);
  number(flag) = logical(done);
  if (done != 0) give_back(own, status);
}
PLAIT_WITH_LOGICAL(request_get_status, (void* handle, void* flag, void* status, void* error)) {
  MPI_Status own;
  int done = 0;
  number(error) = MPI_Request_get_status(MPI_Request_f2c(number(handle)), &done, &own);
  number(flag) = logical(done);
  if (done != 0) give_back(own, status);
}
PLAIT_BOTH(, waitall, (void* count, void* handles, void* statuses, void* error)) {
  Arrays all(number(count), handles, statuses);
  number(error) = MPI_Waitall(number(count), all.handles(), all.statuses());
  all.give_back(number(count));
}
PLAIT_WITH_LOGICAL(testall, (void* count, void* handles, void* flag, void* statuses, void* error)) {
  Arrays all(number(count), handles, statuses);
  int done = 0;
  number(error) = MPI_Testall(number(count), all.handles(), &done, all.statuses());
  number(flag) = logical(done);
  all.give_back(done != 0 ? number(count) : 0);
}
PLAIT_BOTH(, waitany, (void* count, void* handles, void* index, void* status, void* error)) {
  Arrays all(number(count), handles, MPI_F_STATUSES_IGNORE);
  MPI_Status own;
  number(error) = MPI_Waitany(number(count), all.handles(), &number(index), &own);
  all.give_back(0);
  give_back(own, status);
  from_one(number(index));
}
PLAIT_WITH_LOGICAL(testany, (void* count, void* handles, void* index, void* flag, void* status,
                             void* error)) {
  Arrays all(number(count), handles, MPI_F_STATUSES_IGNORE);
  MPI_Status own;
  int done = 0;
  number(error) = MPI_Testany(number(count), all.handles(), &number(index), &done, &own);
  number(flag) = logical(done);
  if (done == 0) return;
  all.give_back(0);
  give_back(own, status);
  from_one(number(index));
}
namespace {
void some(decltype(&MPI_Waitsome) function, void* count, void* handles, void* number_ended,
          void* indices, void* statuses, void* error) {
  Arrays all(number(count), handles, statuses);
  auto* const which = static_cast<MPI_Fint*>(indices);
  number(error) =
      function(number(count), all.handles(), &number(number_ended), which, all.statuses());
  const int ended = number(number_ended) == MPI_UNDEFINED ? 0 : number(number_ended);
  all.give_back(ended);
  for (int i = 0; i < ended; ++i) from_one(which[i]);
}
}  // namespace
PLAIT_BOTH(, waitsome,
           (void* count, void* handles, void* ended, void* indices, void* statuses, void* error)) {
  some(MPI_Waitsome, count, handles, ended, indices, statuses, error);
}
PLAIT_WITH_LOGICAL(testsome, (void* count, void* handles, void* ended, void* indices,
                              void* statuses, void* error)) {
  some(MPI_Testsome, count, handles, ended, indices, statuses, error);
}
// NOLINTEND(misc-definitions-in-headers,readability-named-parameter)
#endif
