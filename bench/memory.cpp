#include "bench/memory.hpp"

#include "symm_mem/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait::bench {

Allocate symmetric_memory(Communicator& comm) {
  return [&comm](std::size_t bytes) {
    const auto window = comm.allocate_bytes(bytes);
    return Allocation{window->local(), window};
  };
}

Allocate ordinary_memory(Communicator& comm) {
  return [&comm](std::size_t bytes) {
    Backend& backend = comm.backend();
    std::shared_ptr<void> owner;
    agree(comm.bootstrap(), "allocating ordinary memory", [&] {
      backend.bind();
      owner = std::shared_ptr<void>(backend.allocate(bytes), [&backend](void* pointer) { backend.deallocate(pointer); });
    });
    return Allocation{static_cast<std::byte*>(owner.get()), owner};
  };
}

}  // namespace plait::bench
