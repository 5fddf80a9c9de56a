// Memory of other processes, opened by their IPC handles.
#pragma once
#include <cstddef>
#include <memory>

#include "backends/hip/api.hpp"

namespace plait::hip {

/// Makes a device the thread's current one until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) noexcept;
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0, ordinal_;
};

/// The allocation that contains an address.
struct Allocation {
  std::byte* base;
  std::size_t bytes;
  /// Throws Error(backend) unless it is device memory of this process.
  static Allocation of(const void* pointer);
};

/// A place in an allocation: a handle stands for a whole allocation, but a pointer may point
/// anywhere in it.
struct IpcAddress {
  hipIpcMemHandle_t handle;
  std::size_t offset;

  /// The address of device memory of this process. Throws Error(backend) for any other memory.
  static IpcAddress of(const void* pointer);
};

/// Maps an allocation of another process for device `ordinal` until its last user is gone. Opening
/// takes milliseconds, and a runtime may refuse to open a handle twice, so a process opens each
/// handle once per device. Thread-safe. Throws Error(no_peer_access) if the device can't reach the
/// memory, Error(out_of_memory) if there is no memory to map it. The exporting process can't open
/// its own handle and uses the pointer instead.
std::shared_ptr<std::byte> open_ipc(const IpcAddress& address, int ordinal);

/// Lets device `ordinal` use the memory of another device of this process. Throws
/// Error(no_peer_access) if it can't.
void enable_peer_access(int ordinal, int peer_ordinal);

/// Number of allocations that this process has open now.
std::size_t open_ipc_count();

}  // namespace plait::hip
