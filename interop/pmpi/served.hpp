// The communicators of MPI whose collective calls Plait serves, and the way of a call to it.
#pragma once
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "interop/pmpi/prepare.hpp"
#include "interop/pmpi/statistics.hpp"
#include "plait/communicator.hpp"
#include "plait/error.hpp"
#include "plait/event.hpp"

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
  static constinit thread_local int depth;
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

/// What is kept for a communicator of MPI: two of Plait's, one for blocking calls and one for those
/// that end later, or why there are none. They are apart so that a blocking call need not come
/// behind those that are under way, and runs on the caller's thread.
class Served {
 public:
  explicit Served(MPI_Comm comm) : mpi(comm) {}

  /// Null for MPI_COMM_NULL: MPI says what is wrong.
  static Served* of(MPI_Comm comm);
  /// Ends Plait's communicators for `comm`, if there are some.
  static void forget(MPI_Comm comm) noexcept;
  /// Ends all of them.
  static void forget_all() noexcept;

  /// For a call of this form, or null: `why` says the reason, the same on all ranks. Where it may
  /// wait it makes what is missing, and is collective. A call that doesn't block can't: it is
  /// served when a blocking call has come since the first of its kind.
  Communicator* communicator(Form form, Why& why);

  /// Events for calls that end later. They cost more than a small call, so they are used again.
  Event take_event();
  void give_event(Event event);

  const MPI_Comm mpi;
  /// Of the calls that end later. Made by the first of them.
  std::optional<Stream> stream{};
  /// The last of them that was begun. Only its address counts.
  std::atomic<const void*> last_begun = nullptr;
  std::optional<Communicator> blocking{}, later{};

 private:
  void decide();
  void make(std::optional<Communicator>& own) const;

  std::mutex mutex_;
  std::vector<Event> events_;
  std::optional<Why> decided_{};
  bool wants_later_ = false;
};

/// Calls the error handler of `comm` with an error of MPI that says what Plait says.
int raise(MPI_Comm comm, const std::exception& error) noexcept;

/// Serves a call of the program, or passes it on. `own(served, communicator)` returns false, on all
/// ranks alike, if Plait can't serve it; then, and where nothing is served, `mpi()` does.
template <class Own, class Mpi>
int serve(Function function, Form form, MPI_Comm comm, const Own& own, const Mpi& mpi) noexcept {
  if (Below::is_here()) return mpi();
  Tally tally(function, form);
  try {
    Why why = Why::no_communicator;
    Served* const served = Served::of(comm);
    Communicator* const on = served == nullptr ? nullptr : served->communicator(form, why);
    if (on != nullptr) {
      const Below below;
      const MpiProceeds proceeds;
      if (own(*served, *on)) return tally.was(Why::served), MPI_SUCCESS;
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
      [&](Served&, Communicator& own) {
        return prepare(own, [&](const Data& sent, const Data& received, const auto& call) {
          sent.pack();
          received.pack();
          call(own, sent, received, How{{}, blocking});
          sent.unpack();
          received.unpack();
        });
      },
      mpi);
}

}  // namespace plait::pmpi
