// MPI, where plait-bench is built with it: the ranks that its launcher has started, and its own
// collectives, as a peer in host memory. no_mpi.cpp takes the place of mpi.cpp in a build without
// MPI.
#pragma once
#include <memory>
#include <string>

#include "bench/contender.hpp"
#include "plait/bootstrap.hpp"

namespace plait::bench {

/// MPI from here to the end of `main`, if MPI's launcher has started this process. With
/// MPI_THREAD_SERIALIZED: a stream's thread calls MPI for the peer while this thread waits, so
/// calls never overlap, and MPI is not slowed down by locks.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// This process's number in MPI_COMM_WORLD, or 0 if MPI's launcher has not started it.
  int rank() const;
  /// All processes that were started together, over MPI or not. Collective.
  std::unique_ptr<Bootstrap> make_world() const;
  /// Ends this process, and over MPI all others.
  [[noreturn]] void abort(int status) const;

 private:
  bool begun_ = false;
};

/// The first line or item of the MPI library's version string: "Open MPI v4.1.4". "none" in a build
/// without MPI.
std::string mpi_version();

/// `peer:mpi` on the host target. Its calls run in the order of the stream, on the thread that
/// serves it. If `on_stream` is false, they run on the calling thread, as a program calls MPI. MPI
/// must have been initialised with MPI_THREAD_SERIALIZED at least, and no other thread may call MPI
/// before the stream is empty. Collective. Null if the target or MPI does not fit, or if the ranks
/// have not met over MPI; `why_not` gets the reason. If `counted`, it is `peer:mpi-v`: MPI's calls
/// with a count per rank, for the collectives of `counted_calls`.
std::unique_ptr<Contender> make_mpi_peer(Communicator& comm, const Arena& arena, bool on_stream,
                                         bool counted, std::string& why_not);

}  // namespace plait::bench
