#include "bench/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "bootstrap/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {

Allocate symmetric_memory(Communicator& comm) {
  return [&comm](std::size_t bytes) {
    const auto window = comm.allocate_bytes(bytes);
    return Allocation{window->local(), nullptr, window};
  };
}

Allocate ordinary_memory(Communicator& comm) {
  return [&comm](std::size_t bytes) {
    Backend& backend = backend_of(comm);
    std::shared_ptr<void> owner;
    agree(comm.bootstrap(), "allocating ordinary memory", [&] {
      backend.bind();
      owner = std::shared_ptr<void>(backend.allocate(bytes),
                                    [&backend](void* pointer) { backend.deallocate(pointer); });
    });
    return Allocation{static_cast<std::byte*>(owner.get()), owner};
  };
}

Allocate attached_memory(Communicator& comm) {
  if (comm.backend_kind() != BackendKind::host)
    return [&comm, ordinary = ordinary_memory(comm)](std::size_t bytes) {
      Allocation memory = ordinary(bytes);
      memory.window = comm.attach(memory.data, bytes);
      return memory;
    };
  return [&comm](std::size_t bytes) {
    struct File {
      std::shared_ptr<ReservedRange> range;
      UniqueFd descriptor;  // by which it is found
    };
    const auto file = std::make_shared<File>();
    static std::atomic<std::uint64_t> token = 0;  // those of communicators are random
    file->range = backend_of(comm).reserve(1, bytes, ++token);
    file->descriptor = file->range->create_local(0);
    std::byte* const data = file->range->address(0);
    return Allocation{data, file, comm.attach(data, bytes)};
  };
}

std::size_t available_host_memory() {
  std::size_t available = std::numeric_limits<std::size_t>::max();
  std::ifstream machine("/proc/meminfo");
  for (std::string line; std::getline(machine, line);)
    if (std::size_t kilobytes = 0; std::sscanf(line.c_str(), "MemAvailable: %zu", &kilobytes) == 1)
      available = 1024 * kilobytes;
  // Either version of control groups. The memory in use is not subtracted, because it includes
  // caches, which the kernel frees when needed.
  for (const char* const limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (std::size_t bytes = 0; std::ifstream(limit) >> bytes)
      available = std::min(available, bytes);
  return available;
}

}  // namespace plait::bench
