// NCCL's functions for memory.
#include <map>
#include <mutex>

#include "interop/nccl/comm.hpp"
#include "interop/nccl/config.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::nccl {
namespace {

/// The memory of ncclMemAlloc: a device's memory that other processes can map. It belongs to no
/// communicator.
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
    Allocation made{backend, backend->reserve(1, bytes, ++tokens_), {}};
    made.descriptor = made.range->create_local(0);
    made.range->expect_peers(0);
    void* const pointer = made.range->address(0);
    owners_.emplace(pointer, std::move(made));
    return pointer;
  }
  /// False if it is no such memory.
  bool free(void* pointer) {
    std::unique_lock lock(mutex_);
    auto owner = owners_.extract(pointer);
    lock.unlock();  // freeing waits for the device
    if (owner.empty()) return false;
    Allocation& memory = owner.mapped();
    const DeviceScope device(*memory.backend);
    memory.backend->synchronize_device();
    memory.range.reset();
    return true;
  }

 private:
  struct Allocation {
    std::shared_ptr<Backend> backend;
    std::shared_ptr<ReservedRange> range;
    UniqueFd descriptor;  // by which the host finds the memory's file
  };
  std::mutex mutex_;
  std::uint64_t tokens_ = 0;                          // those of communicators are random
  std::map<int, std::shared_ptr<Backend>> backends_;  // by device
  std::map<void*, Allocation> owners_;
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
    // It is local, so no other rank could agree to use the memory. The handle only has to be
    // something.
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
