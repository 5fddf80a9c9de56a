// The environment variables that launchers set for the processes that they start.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace plait::detail {

struct Launched {
  std::string launcher;  // "torchrun", for errors
  int rank = 0, size = 1;
  /// True if all ranks are on this node.
  bool is_local = true;
  /// Equal on all ranks, and different from that of other jobs of this user.
  std::string job;
  /// Where rank 0 is to listen if ranks are on several nodes. Empty if the launcher does not say.
  std::string host;
  std::uint16_t port = 0;
};

/// Looks for torchrun, Open MPI's mpirun and Slurm, in this order: the innermost of nested
/// launchers comes first. None if this process was started without them. Throws
/// Error(invalid_argument), which names a variable, if variables contradict each other.
std::optional<Launched> find_launcher();

/// For a process that no launcher seems to have started. Throws Error(invalid_argument) if
/// variables say that it is one of several and others are missing, which it names.
///
/// Some variables say nothing: MASTER_ADDR and MASTER_PORT alone, which shells export for other
/// programs, and Slurm's in a batch script or a shell of salloc, where no step has started the
/// process.
void refuse_incomplete_launchers(const char* call);

/// Warns, once per process, if this process may not read its environment, and a launcher's
/// variables are in it.
void warn_of_hidden_launcher(const char* call);

/// The first name of Slurm's list of nodes: "node07" of "node[07-09,11],other".
std::string first_node(const std::string& list);

}  // namespace plait::detail
