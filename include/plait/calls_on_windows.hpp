// The communicator's calls for memory of the program's own.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "plait/call.hpp"
#include "plait/stream.hpp"

namespace plait {

class CommunicatorState;
class Window;
struct KernelLaunch;
struct PeerWindow;

/// Which calls take the algorithms that need symmetric memory.
enum class WindowUse {
  all_calls,
  one_sided,  // for collectives and messages the memory is ordinary, so any place of it will do
};

/// Base class of `Communicator`, which has the rules.
class CallsOnWindows {
 public:
  /// Makes memory of the program symmetric, as if it had been allocated here: calls on it take the
  /// algorithms that need no copy. Collective. Each rank passes its own memory, which may have
  /// another address and size, and lie elsewhere in its allocation. For calls, an offset counts
  /// from `pointer`. docs/symmetric-memory.md says which memory can be attached.
  /// Takes some 0.2 ms, on GPUs 18 ms more per gigabyte, and may wait for the device.
  ///
  /// Throws the same `Error` on all ranks, and nothing is attached: `invalid_argument` if one rank
  /// passes null, no bytes, an address that is no multiple of 16, bytes that overlap symmetric
  /// memory of this communicator, or memory that the others can't reach, with the reason;
  /// `mismatch` if ranks pass different uses; `unsupported` if the system lets no process read
  /// another's; `no_peer_access`, `out_of_memory` and `bootstrap` as `allocate`.
  ///
  /// The memory stays the caller's. It must stay allocated until `detach` has returned. If a call's
  /// own memory was freed all the same, the call is `Error(invalid_argument)`.
  std::shared_ptr<Window> attach(void* pointer, std::size_t bytes,
                                 WindowUse use = WindowUse::all_calls);
  /// The memory is ordinary again. Collective: all ranks pass the windows of one `attach`. Waits
  /// for the devices of all ranks, so it ends no call's memory; when it returns, no rank has the
  /// memory mapped, and it may be freed.
  /// Only a window that calls of a captured graph use stays mapped until the communicator ends, so
  /// a replay finds the memory that was captured.
  ///
  /// Throws the same `Error` on all ranks: `invalid_argument` for a window that is null, was
  /// detached or allocated, or belongs to another communicator, and within a group that has calls
  /// of this communicator; `mismatch` if ranks pass windows of different calls; `backend` if a
  /// device is lost or captures a stream, and the window stays attached. A window that is destroyed
  /// instead is unmapped on this rank alone.
  void detach(const std::shared_ptr<Window>& window);

  // Calls that one rank makes alone, as NVSHMEM and NCCL's ncclPutSignal have them. Like all calls
  // they are asynchronous, ordered on `stream`, may be captured and grouped, and have the deadline;
  // no other rank makes a call for them. `window` was allocated or attached by this communicator. A
  // peer that is `proc_null`: nothing happens. `Error(invalid_argument)` for a window that is null,
  // stale or another communicator's, for bytes beyond the end of the peer's memory or of the window
  // that this rank's own bytes begin in, for a peer that is no rank, and for this rank's own memory
  // if source and target overlap. If a peer on another node has ended its window by the time that
  // it is reached, the communicator breaks on both with `invalid_argument`. On GPUs its process
  // must have the driver's lock for that: docs/algorithms/one_sided.md says which calls keep it.

  /// Copies `bytes` bytes from `source`, memory of this rank's device, to `offset` in rank `peer`'s
  /// memory of the window. With `signals`, rank `peer` can await them: it then sees the bytes, and
  /// all that this rank's stream did before. `Error(unsupported)` if the peer's memory can't be
  /// written, as ordinary memory of another process of this node on the host.
  void put(const std::shared_ptr<Window>& window, int peer, std::size_t offset, const void* source,
           std::size_t bytes, bool signals = false, StreamRef stream = {},
           const CallOptions& options = {});
  /// Copies `bytes` bytes from `offset` in rank `peer`'s memory of the window to `target`.
  void get(const std::shared_ptr<Window>& window, int peer, std::size_t offset, void* target,
           std::size_t bytes, StreamRef stream = {}, const CallOptions& options = {});
  /// Adds one to the signals that rank `peer` can await from this rank.
  void signal(int peer, StreamRef stream = {}, const CallOptions& options = {});
  /// Later work on the stream waits until rank `peer` has sent `signals` more signals than were
  /// awaited before. From 1 to 2^31 - 1. If they don't come, the error names the peer,
  /// like that of any call. In a group all puts, gets and signals come before the waits.
  void wait_signal(int peer, std::uint32_t signals = 1, StreamRef stream = {},
                   const CallOptions& options = {});

  /// Where rank `rank`'s memory of the window begins in this rank's address space, for kernels; on
  /// the host, for any code. Local. `Error(invalid_argument)` as for `put`, `Error(unsupported)` if
  /// this rank can't load and store it.
  void* peer(const std::shared_ptr<Window>& window, int rank) const;

  // The insides of plait/kernel.hpp.
  PeerWindow view(const std::shared_ptr<Window>& window) const;
  void launch(const KernelLaunch& launch, StreamRef stream);

 protected:
  CallsOnWindows() = default;
  ~CallsOnWindows() = default;
  CallsOnWindows(const CallsOnWindows&) = default;
  CallsOnWindows& operator=(const CallsOnWindows&) = default;

 private:
  CommunicatorState& state(std::string_view call) const;
  void check_reached(std::string_view what, const std::shared_ptr<Window>& window,
                     std::optional<int> rank) const;
};

}  // namespace plait
