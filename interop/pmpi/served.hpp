// The communicators of MPI whose collective calls Plait serves, and the way of a call to it.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "interop/pmpi/statistics.hpp"
#include "plait/communicator.hpp"
#include "plait/error.hpp"

namespace plait::pmpi {

/// While one exists, functions of MPI that this thread calls go to MPI: Plait calls them, too.
class Below {
 public:
  Below() noexcept { ++depth; }
  ~Below() { --depth; }
  Below(const Below&) = delete;
  Below& operator=(const Below&) = delete;
  static bool is_here() noexcept { return depth != 0; }

 private:
  static thread_local int depth;
};

/// Lets MPI proceed while a call of Plait waits on this thread. A peer may need that to come to the
/// call: a message that it receives before is perhaps sent only while this rank is in MPI.
class MpiProceeds {
 public:
  MpiProceeds() noexcept;
  ~MpiProceeds();
  MpiProceeds(const MpiProceeds&) = delete;
  MpiProceeds& operator=(const MpiProceeds&) = delete;
};

/// Plait's communicator for `comm`, or null and why there is none, the same on all ranks. The first
/// call for `comm` makes it, and is collective.
Communicator* served(MPI_Comm comm, Why& why);
/// Ends Plait's communicator for `comm`, if there is one.
void forget(MPI_Comm comm) noexcept;
/// Ends all of them.
void forget_all() noexcept;
/// Calls the error handler of `comm` with an error of MPI that says what Plait says.
int raise(MPI_Comm comm, const std::exception& error) noexcept;

/// Serves a call by `own(communicator)`, which returns false, on all ranks alike, if Plait can't.
/// Then, and where nothing is served, `mpi()` does.
template <class Own, class Mpi>
int serve(Function function, MPI_Comm comm, const Own& own, const Mpi& mpi) noexcept {
  if (Below::is_here()) return mpi();
  Tally tally(function);
  try {
    Why why = Why::served;
    if (Communicator* const communicator = served(comm, why)) {
      const Below below;
      const MpiProceeds proceeds;
      if (own(*communicator)) return tally.was(Why::served), MPI_SUCCESS;
      why = Why::type_or_operation;
    }
    tally.was(why);
  } catch (const std::exception& error) {
    tally.was(Why::failed);
    return raise(comm, error);
  }
  return mpi();
}

}  // namespace plait::pmpi
