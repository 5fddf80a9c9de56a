// How many calls libplait-pmpi has served, how many it has passed on, and why.
#pragma once
#include <chrono>
#include <cstdint>

namespace plait::pmpi {

/// The functions of MPI that are looked at: NAME.
// clang-format off
#define PLAIT_PMPI_FUNCTIONS(X)                                                               \
  X(Allreduce) X(Reduce) X(Bcast) X(Allgather) X(Allgatherv) X(Gather) X(Gatherv) X(Scatter)  \
  X(Scatterv) X(Alltoall) X(Alltoallv) X(Reduce_scatter) X(Reduce_scatter_block) X(Scan)      \
  X(Exscan) X(Barrier)
// clang-format on

enum class Function : std::uint8_t {
#define PLAIT_NAME(NAME) NAME,
  PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)
#undef PLAIT_NAME
};

/// Why a call was passed on to MPI. Each is a fact that is the same on all ranks of its
/// communicator.
enum class Why : std::uint8_t {
  served,
  turned_off,         // PLAIT_PMPI=off on a rank
  one_rank,           // nothing to do for Plait
  intercommunicator,  // or no communicator
  type_or_operation,  // of a reduction: an operation of the program, a type that Plait lacks
  failed,             // an error was reported
};

/// A call: counted where it ends.
class Tally {
 public:
  explicit Tally(Function function) noexcept : function_(function) {}
  void was(Why why) noexcept;

 private:
  const Function function_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Logs what was counted on this rank, if the log shows that (PLAIT_LOG=info).
void report() noexcept;

}  // namespace plait::pmpi
