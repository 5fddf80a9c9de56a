// How many calls libplait-pmpi has served, how many it has passed on, and why.
#pragma once
#include <chrono>
#include <cstdint>

namespace plait::pmpi {

/// The functions of MPI that are looked at: NAME, and its name where it doesn't block.
// clang-format off
#define PLAIT_PMPI_FUNCTIONS(X)                                                                 \
  X(Allreduce, Iallreduce) X(Reduce, Ireduce) X(Bcast, Ibcast) X(Allgather, Iallgather)         \
  X(Allgatherv, Iallgatherv) X(Gather, Igather) X(Gatherv, Igatherv) X(Scatter, Iscatter)       \
  X(Scatterv, Iscatterv) X(Alltoall, Ialltoall) X(Alltoallv, Ialltoallv)                        \
  X(Reduce_scatter, Ireduce_scatter) X(Reduce_scatter_block, Ireduce_scatter_block)             \
  X(Scan, Iscan) X(Exscan, Iexscan) X(Barrier, Ibarrier)
// clang-format on

enum class Function : std::uint8_t {
#define PLAIT_NAME(NAME, INAME) NAME,
  PLAIT_PMPI_FUNCTIONS(PLAIT_NAME)
#undef PLAIT_NAME
};
enum class Form : std::uint8_t { blocking, nonblocking, persistent };

/// Why a call was passed on to MPI. Each is a fact that is the same on all ranks of its
/// communicator.
enum class Why : std::uint8_t {
  served,
  turned_off,  // PLAIT_PMPI=off on a rank
  one_rank,    // nothing to do for Plait
  intercommunicator,
  no_communicator,    // none that may wait has come since the first that doesn't block
  type_or_operation,  // of a reduction: an operation of the program, a type that Plait lacks
  failed,             // an error was reported
};

/// A call: counted where it ends, or where it has begun if it doesn't block. Persistent ones count
/// when they are made, and at each start.
class Tally {
 public:
  Tally(Function function, Form form) noexcept : function_(function), form_(form) {
    if (counts()) start_ = std::chrono::steady_clock::now();
  }
  void was(Why why) noexcept {
    if (counts()) count(why);
  }

 private:
  /// Only if `report` will show it: the clock takes a tenth of a small call.
  static bool counts() noexcept;
  void count(Why why) noexcept;

  const Function function_;
  const Form form_;
  std::chrono::steady_clock::time_point start_{};
};

/// Logs what was counted on this rank, if the log shows that (PLAIT_LOG=info).
void report() noexcept;

}  // namespace plait::pmpi
