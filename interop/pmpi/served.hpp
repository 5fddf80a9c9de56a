// The communicators of MPI whose collective calls Plait serves, and the way of a call to it.
#pragma once
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "interop/pmpi/prepare.hpp"
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

void let_mpi_proceed() noexcept;
/// Lets MPI proceed while a call of Plait waits on this thread. A peer may need that to come to the
/// call: a message that it receives before is perhaps sent only while this rank is in MPI.
class MpiProceeds {
 public:
  MpiProceeds() noexcept;
  ~MpiProceeds();
  MpiProceeds(const MpiProceeds&) = delete;
  MpiProceeds& operator=(const MpiProceeds&) = delete;
};

/// What is kept for a communicator of MPI: Plait's, or why there is none, the same on all ranks.
struct Served {
  explicit Served(MPI_Comm comm) : mpi(comm) {}

  const MPI_Comm mpi;
  Why why = Why::served;
  std::optional<Communicator> own{};
  /// For calls that don't block. Made by the first of them.
  std::optional<Stream> stream{};
  /// Calls that were begun and not ended. A blocking call comes behind them.
  std::atomic<int> under_way = 0;

  StreamRef stream_of_blocking() const {
    return under_way.load(std::memory_order_acquire) != 0 ? StreamRef(*stream) : StreamRef();
  }
  /// For a communicator of MPI: null if no call has made one yet.
  static Served* find(MPI_Comm comm);
  /// Makes one if there is none yet; the call is collective then. Null for MPI_COMM_NULL: MPI says
  /// what is wrong.
  static Served* find_or_make(MPI_Comm comm);
  /// Ends Plait's communicator for `comm`, if there is one.
  static void forget(MPI_Comm comm) noexcept;
  /// Ends all of them.
  static void forget_all() noexcept;
};

/// Calls the error handler of `comm` with an error of MPI that says what Plait says.
int raise(MPI_Comm comm, const std::exception& error) noexcept;

/// Serves a call of the program, or passes it on. `own(served)` returns false, on all ranks alike,
/// if Plait can't serve it; then, and where nothing is served, `mpi()` does.
template <class Own, class Mpi>
int serve(Function function, Form form, MPI_Comm comm, const Own& own, const Mpi& mpi) noexcept {
  if (Below::is_here()) return mpi();
  Tally tally(function, form);
  try {
    // What doesn't block can't make a communicator, which waits for the others.
    Served* const served =
        form == Form::nonblocking ? Served::find(comm) : Served::find_or_make(comm);
    Why why = served == nullptr ? Why::no_communicator : served->why;
    if (served != nullptr && served->own) {
      const Below below;
      const MpiProceeds proceeds;
      if (own(*served)) return tally.was(Why::served), MPI_SUCCESS;
      why = Why::type_or_operation;
    }
    tally.was(why);
  } catch (const std::exception& error) {
    tally.was(Why::failed);
    return raise(comm, error);
  }
  return mpi();
}

/// A call that blocks. `prepare(own, use)` as in prepare.hpp.
template <class Prepare, class Mpi>
int serve_blocking(Function function, MPI_Comm comm, const Prepare& prepare,
                   const Mpi& mpi) noexcept {
  static const CallOptions blocking{.blocking = true};
  return serve(
      function, Form::blocking, comm,
      [&](Served& served) {
        return prepare(*served.own, [&](const Data& sent, const Data& received, const auto& call) {
          sent.pack();
          received.pack();
          call(*served.own, sent, received, How{served.stream_of_blocking(), blocking});
          sent.unpack();
          received.unpack();
        });
      },
      mpi);
}

}  // namespace plait::pmpi
