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

/// Where memory lies in its allocation: a handle is for a whole allocation, a pointer may be
/// anywhere in it.
struct IpcAddress {
  hipIpcMemHandle_t handle;
  std::size_t offset;

  /// Of device memory of this process. Throws Error(backend) for any other.
  static IpcAddress of(const void* pointer);
};

/// An allocation of another process, mapped for the device `ordinal` until the last user of it is
/// gone: opening takes milliseconds, and a runtime may refuse to open a handle twice, so a process
/// opens each once for a device. Thread-safe. Throws Error(no_peer_access) if the device can't
/// reach the memory, Error(out_of_memory) if it can't be mapped for want of memory. In the process
/// that exported it a handle can't be opened: use the pointer.
std::shared_ptr<std::byte> open_ipc(const IpcAddress& address, int ordinal);

/// Allocations that this process has open now.
std::size_t open_ipc_count();

}  // namespace plait::hip
