// Ranks that meet without MPI: by a unique id that the program hands from rank 0 to the others, or
// by the environment that a launcher sets.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"
#include "plait/language.hpp"

namespace plait {

/// Names a group of ranks that have nothing in common yet. The program makes one for each group,
/// and hands its bytes to all ranks by any means it has. The bytes hold a version, the address and
/// port at which rank 0 listens, and a random secret: any process that knows them can join, so keep
/// them from strangers.
struct UniqueId {
  static constexpr std::size_t size = 128;
  std::array<unsigned char, size> bytes{};

  /// A new id. From here on this process listens at the id's address, until rank 0 has met all
  /// ranks of it. So rank 0 must be in this process, or in a child that it forks. Local.
  ///
  /// The address is that of the interface `PLAIT_SOCKET_IFNAME`, else `NCCL_SOCKET_IFNAME`, else
  /// the first one that is up and not the loopback device, a bridge of containers or a virtual one;
  /// the loopback device if there is no other. If none is up, the ranks of one node can meet by the
  /// id all the same. Throws `Error(invalid_argument)` if no interface has the name,
  /// `Error(bootstrap)` if the system refuses a socket.
  static UniqueId create();

  bool operator==(const UniqueId&) const = default;
};

/// A group of `size` ranks that have the same `id`; this one is `rank`. Collective. An id serves
/// one group.
///
/// Ranks may be threads of one process, and processes of several nodes. `timeout` is as for
/// `make_mpi_bootstrap`. Throws
/// - `Error(invalid_argument)` on this rank alone: `id`, `rank` or `size` is invalid, there are
///   more ranks than this process may have open files, or this is rank 0 and another process made
///   the id.
/// - `Error(mismatch)` on all ranks if they pass different sizes, or two pass the same rank.
/// - `Error(bootstrap)` on all ranks, with the rank's name, if one does not come within `timeout`.
///
/// A connection that does not know the secret is closed, and counts for nothing.
std::unique_ptr<Bootstrap> make_socket_bootstrap(
    const UniqueId& id, int rank, int size,
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

/// The processes that a launcher has started together, as the environment says: `torchrun`
/// (`MASTER_ADDR`, `MASTER_PORT`, `RANK`, `WORLD_SIZE`), Slurm's `srun`, Open MPI's `mpirun`, and
/// launchers that speak PMI-1. Without any of them a group of this process alone. docs/launchers.md
/// says which variables count, and when a program that has loaded libplait-mpi gets the processes
/// of MPI_COMM_WORLD. Collective; every process may call it several times.
std::unique_ptr<Bootstrap> make_world_bootstrap(
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

/// `Communicator::create` over `make_socket_bootstrap(id, rank, size, options.timeout)`.
Communicator make_communicator(const UniqueId& id, int rank, int size,
                               const CommunicatorOptions& options = {});
/// `Communicator::create` over `make_world_bootstrap(options.timeout)`.
Communicator make_world_communicator(const CommunicatorOptions& options = {});

}  // namespace plait
