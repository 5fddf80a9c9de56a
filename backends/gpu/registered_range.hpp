// Symmetric memory of GPUs that can't reach each other's memory: host memory, which each GPU
// reaches over its own bus.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "backends/gpu/beside_captures.hpp"
#include "backends/host/host_range.hpp"
#include "plait/error.hpp"

namespace plait::gpu {

/// Every rank has its own mapping, pinned for its device only, even if ranks are threads of one
/// process: unpinning waits for that device, and must not wait for the device of another rank,
/// whose kernel may be waiting for this rank. The device uses the host's addresses.
///
/// Signals and packets work in host memory as they do between devices. They need only two
/// properties: loads and stores of 8 aligned bytes are single-copy atomic, and a thread that
/// acquires a value at system scope sees everything that was released with it.
template <class Runtime>
class RegisteredRange final : public host::HostRange {
 public:
  RegisteredRange(int ranks, std::size_t bytes) : HostRange(ranks, bytes, Commit::at_once) {}
  ~RegisteredRange() override {
    for (std::byte* const place : registered_)
      static_cast<void>(Runtime::host_unregister.status(place));
  }

 private:
  void mapped(std::byte* place, std::size_t bytes) override {
    const BesideCaptures<Runtime> beside;
    Runtime::host_register(place, bytes, Runtime::register_mapped);
    registered_.push_back(place);
    void* device = nullptr;
    Runtime::host_device_pointer(&device, place, 0);
    if (device != place)
      throw Error(
          ErrorCode::unsupported,
          fmt::format(
              "{} gives host memory another address on the device than on the host: its devices "
              "must reach each other's memory",
              Runtime::label));
  }

  std::vector<std::byte*> registered_;
};

}  // namespace plait::gpu
