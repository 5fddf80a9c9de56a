// Memory that one rank alone uses: on its device, or pinned memory of the host.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

template <auto deallocate>
struct Deallocate {
  std::shared_ptr<Backend> backend;
  void operator()(void* memory) const noexcept { (backend.get()->*deallocate)(memory); }
};
template <class T>
using DeviceMemory = std::unique_ptr<T, Deallocate<&Backend::deallocate>>;
template <class T>
using PinnedMemory = std::unique_ptr<T, Deallocate<&Backend::deallocate_pinned>>;

/// `count` values, all of them zero, on the current device.
template <class T>
DeviceMemory<T> allocate_zeroed(const std::shared_ptr<Backend>& backend, std::size_t count) {
  return DeviceMemory<T>(static_cast<T*>(backend->allocate_zeroed(count * sizeof(T))),
                         Deallocate<&Backend::deallocate>{backend});
}
/// These values there.
template <class T>
DeviceMemory<T> on_device(const std::shared_ptr<Backend>& backend, const std::vector<T>& values) {
  DeviceMemory<T> memory(static_cast<T*>(backend->allocate(values.size() * sizeof(T))),
                         Deallocate<&Backend::deallocate>{backend});
  backend->write(memory.get(), values.data(), values.size() * sizeof(T));
  return memory;
}
/// Zeros in pinned memory.
template <class T>
PinnedMemory<T> allocate_pinned(const std::shared_ptr<Backend>& backend, std::size_t count) {
  return PinnedMemory<T>(static_cast<T*>(backend->allocate_pinned(count * sizeof(T))),
                         Deallocate<&Backend::deallocate_pinned>{backend});
}

}  // namespace plait
