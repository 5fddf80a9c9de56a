// The communicator's calls for memory of the program's own.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>

namespace plait {

class Window;

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
  /// from `pointer`. docs/symmetric-memory.md says which memory can be attached. Takes a
  /// millisecond, and may wait for the device.
  ///
  /// Throws the same `Error` on all ranks, and nothing is attached: `invalid_argument` if one rank
  /// passes null, no bytes, an address that is no multiple of 16, bytes that overlap symmetric
  /// memory of this communicator, or memory that the others can't reach, with the reason;
  /// `unsupported` if the system lets no process read another's; `no_peer_access`, `out_of_memory`
  /// and `bootstrap` as `allocate`.
  ///
  /// The memory stays the caller's. It must stay allocated until `detach` has returned. If a call's
  /// own memory was freed all the same, the call is `Error(invalid_argument)`.
  std::shared_ptr<Window> attach(void* pointer, std::size_t bytes,
                                 WindowUse use = WindowUse::all_calls);
  /// The memory is ordinary again. Collective: all ranks pass the windows of one `attach`. Waits
  /// for this rank's device; when it returns, no rank has the memory mapped, so it may be freed.
  /// Only a window that calls of a captured graph use stays mapped until the communicator ends, so
  /// a replay finds the memory that was captured.
  ///
  /// Throws the same `Error` on all ranks: `invalid_argument` for a window that is null, was
  /// detached or allocated, or belongs to another communicator, and within a group that has calls
  /// of this communicator; `mismatch` if ranks pass windows of different calls. A window that is
  /// destroyed instead is unmapped on this rank alone.
  void detach(const std::shared_ptr<Window>& window);

 protected:
  CallsOnWindows() = default;
  ~CallsOnWindows() = default;
  CallsOnWindows(const CallsOnWindows&) = default;
  CallsOnWindows& operator=(const CallsOnWindows&) = default;
};

}  // namespace plait
