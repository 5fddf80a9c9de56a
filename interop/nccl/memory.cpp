// NCCL's functions for memory.
#include <map>
#include <mutex>

#include "interop/nccl/comm.hpp"
#include "interop/nccl/config.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::nccl {
namespace {

/// The memory of ncclMemAlloc. It belongs to no communicator, so it is ordinary memory of a device.
class Memory {
 public:
  static Memory& instance() {
    // Never destroyed, because a device's runtime may be gone earlier.
    static auto* const memory = new Memory;
    return *memory;
  }

  void* allocate(std::size_t bytes) {
    const Place place = place_of_thread();
    const std::scoped_lock lock(mutex_);
    auto& backend = backends_[place.device];
    if (backend == nullptr) backend = open_backend(place.kind, std::max(place.device, 0));
    const DeviceScope device(*backend);
    void* const pointer = backend->allocate(bytes);
    owners_.emplace(pointer, backend);
    return pointer;
  }
  /// False if it is no such memory.
  bool free(void* pointer) {
    std::unique_lock lock(mutex_);
    const auto owner = owners_.extract(pointer);
    lock.unlock();  // freeing waits for the device
    if (owner.empty()) return false;
    const DeviceScope device(*owner.mapped());
    owner.mapped()->deallocate(pointer);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Backend>> backends_;  // by device
  std::map<void*, std::shared_ptr<Backend>> owners_;
};

}  // namespace
}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclMemAlloc(void** pointer, std::size_t bytes) {
  constexpr const char* call = "ncclMemAlloc";
  return guarded(call, [&] {
    greet();
    void*& result = needed(call, pointer, "ptr");
    result = nullptr;
    if (bytes != 0) result = Memory::instance().allocate(bytes);
  });
}

Result plait::nccl::ncclMemFree(void* pointer) {
  constexpr const char* call = "ncclMemFree";
  return guarded(call, [&] {
    if (pointer != nullptr && !Memory::instance().free(pointer))
      refuse(call, fmt::format("{} is no memory of ncclMemAlloc, or is free already", pointer));
  });
}

Result plait::nccl::ncclCommRegister(const CommHandle comm, void* buffer, std::size_t bytes,
                                     void** handle) {
  constexpr const char* call = "ncclCommRegister";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    static_cast<void>((*own)->look(call));
    void*& result = needed(call, handle, "handle");
    static_cast<void>(needed(call, static_cast<std::byte*>(buffer), "buff"));
    if (bytes == 0) refuse(call, "size is 0");
    // Plait gains nothing by a registration. The handle only has to be something.
    result = buffer;
  });
}

Result plait::nccl::ncclCommDeregister(const CommHandle comm, void* handle) {
  constexpr const char* call = "ncclCommDeregister";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    static_cast<void>(handle);
  });
}
