// Symmetric memory of GPUs that can't reach each other's: in host memory, which each of them
// reaches over its own bus.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "backends/gpu/beside.hpp"
#include "backends/host/host_range.hpp"
#include "plait/error.hpp"

namespace plait::gpu {

/// Every rank has a mapping of its own, pinned for its device alone, also where ranks are threads
/// of one process: letting go of it waits for that device, and must not wait for one whose kernel
/// may be waiting for this rank. The device knows it by the host's addresses. Signals and packets
/// work in it as they do between devices: neither needs more of memory than that loads and stores
/// of 8 aligned bytes are whole, and that what was released at system scope is seen by who acquires
/// it.
template <class Runtime>
class RegisteredRange final : public host::HostRange {
 public:
  RegisteredRange(int ranks, std::size_t bytes) : HostRange(ranks, bytes, Commit::at_once) {}
  ~RegisteredRange() override {
    for (const int rank : registered_)
      static_cast<void>(Runtime::host_unregister.status(address(rank)));
  }

 private:
  void mapped(int rank) override {
    const BesideCaptures<Runtime> beside;
    Runtime::host_register(address(rank), stride(), Runtime::register_mapped);
    registered_.push_back(rank);
    void* device = nullptr;
    Runtime::host_device_pointer(&device, address(rank), 0);
    if (device != address(rank))
      throw Error(
          ErrorCode::unsupported,
          fmt::format(
              "{} gives host memory another address on the device than on the host: its devices "
              "must reach each other's memory",
              Runtime::label));
  }

  std::vector<int> registered_;
};

}  // namespace plait::gpu
