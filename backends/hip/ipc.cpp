#include "backends/hip/ipc.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "backends/hip/runtime.hpp"
#include "plait/error.hpp"

namespace plait::hip {
namespace {

using HandleBytes = std::array<unsigned char, sizeof(hipIpcMemHandle_t)>;

/// The allocations that this process has open. Never destroyed, because windows may outlive other
/// statics.
class Cache {
 public:
  static Cache& instance() {
    static auto* cache = new Cache;
    return *cache;
  }

  std::byte* acquire(const hipIpcMemHandle_t& handle, int ordinal) {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[key(handle, ordinal)];
    if (entry.users == 0) {
      const CurrentDevice device(ordinal);
      void* base = nullptr;
      try {
        Runtime::open_ipc_handle(&base, handle, hipIpcMemLazyEnablePeerAccess);
      } catch (...) {
        entries_.erase(key(handle, ordinal));
        throw;
      }
      entry.base = static_cast<std::byte*>(base);
    }
    ++entry.users;
    return entry.base;
  }

  void release(const hipIpcMemHandle_t& handle, int ordinal) noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(key(handle, ordinal));
    if (--it->second.users != 0) return;
    const CurrentDevice device(ordinal);
    static_cast<void>(Runtime::close_ipc_handle.status(it->second.base));
    entries_.erase(it);
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::byte* base = nullptr;
    std::size_t users = 0;
  };
  using Key = std::pair<int, HandleBytes>;

  static Key key(const hipIpcMemHandle_t& handle, int ordinal) {
    HandleBytes bytes;
    std::memcpy(bytes.data(), &handle, sizeof handle);
    return {ordinal, bytes};
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace

CurrentDevice::CurrentDevice(int ordinal) noexcept : ordinal_(ordinal) {
  static_cast<void>(Runtime::get_device.status(&previous_));
  if (previous_ != ordinal_) static_cast<void>(Runtime::set_device.status(ordinal_));
}
CurrentDevice::~CurrentDevice() {
  if (previous_ != ordinal_) static_cast<void>(Runtime::set_device.status(previous_));
}

Allocation Allocation::of(const void* pointer) {
  hipDeviceptr_t base{};
  std::size_t size = 0;
#if defined(__HIP_PLATFORM_NVIDIA__)
  // HIP's function would link this library to the driver.
  using Function = decltype(&cuMemGetAddressRange);
  static const Function get_address_range = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess ||
        entry == nullptr)
      throw Error(ErrorCode::backend, "the CUDA driver has no cuMemGetAddressRange");
    return reinterpret_cast<Function>(entry);
  }();
  if (get_address_range(&base, &size, reinterpret_cast<hipDeviceptr_t>(pointer)) != CUDA_SUCCESS)
    throw Error(ErrorCode::backend, "cuMemGetAddressRange: not device memory of this process");
  return {reinterpret_cast<std::byte*>(base), size};
#else
  gpu::check(hipMemGetAddressRange(&base, &size, const_cast<void*>(pointer)),
             "hipMemGetAddressRange");
  return {static_cast<std::byte*>(base), size};
#endif
}

IpcAddress IpcAddress::of(const void* pointer) {
  std::byte* const base = Allocation::of(pointer).base;
  IpcAddress address{};
  Runtime::get_ipc_handle(&address.handle, base);
  address.offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - base);
  return address;
}

std::shared_ptr<std::byte> open_ipc(const IpcAddress& address, int ordinal) {
  std::byte* base = nullptr;
  try {
    base = Cache::instance().acquire(address.handle, ordinal);
  } catch (const Error& error) {
    // One call both maps and gives access, so every failure but a lack of memory counts as a lack
    // of access.
    if (error.code() != ErrorCode::backend) throw;
    throw Error(
        ErrorCode::no_peer_access,
        fmt::format("device {} can't reach another process's memory: {}", ordinal, error.what()));
  }
  return {base + address.offset, [handle = address.handle, ordinal](std::byte*) {
            Cache::instance().release(handle, ordinal);
          }};
}

void enable_peer_access(int ordinal, int peer_ordinal) {
  if (peer_ordinal == ordinal) return;
  int possible = 0;
  Runtime::can_access_peer(&possible, ordinal, peer_ordinal);
  if (possible == 0)
    throw Error(ErrorCode::no_peer_access,
                fmt::format("device {} can't reach that of device {}", ordinal, peer_ordinal));
  const hipError_t status = Runtime::enable_peer_access.status(peer_ordinal, 0);
  if (status == hipErrorPeerAccessAlreadyEnabled) gpu::StatusTraits<hipError_t>::forget();
  else Runtime::enable_peer_access.check_status(status);
}

std::size_t open_ipc_count() { return Cache::instance().size(); }

}  // namespace plait::hip
