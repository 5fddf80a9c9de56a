// MPI's life in this process: who initialises and finalises it.
#pragma once
#include <functional>

#include "core/process.hpp"

namespace plait::detail {

/// Calls `end` once when MPI is about to end, while it may still be used: in MPI_Finalize, or at
/// the exit of a process whose MPI Plait has initialised. The last object that was made is called
/// first. `end` runs in the thread that ends MPI. It does not throw, and makes and destroys no
/// objects of this class. The destructor waits for a call of `end` that is under way.
class BeforeMpiEnds {
 public:
  explicit BeforeMpiEnds(std::function<void()> end);
  ~BeforeMpiEnds();
  BeforeMpiEnds(const BeforeMpiEnds&) = delete;
  BeforeMpiEnds& operator=(const BeforeMpiEnds&) = delete;

 private:
  Origin origin_;
  std::function<void()> end_;

  friend class EndOfMpi;
};

/// Initialises MPI if that has not been done yet; the exit of the process then finalises it. Throws
/// Error: `invalid_argument` in a child that was forked from a process that had initialised MPI,
/// `bootstrap` if MPI is finalised or fails.
void initialize_mpi();

}  // namespace plait::detail
