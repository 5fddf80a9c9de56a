#include "backends/hip/program_memory.hpp"

#include <cstring>

#include "backends/gpu/program_memory.hpp"
#include "backends/hip/ipc.hpp"
#include "backends/hip/runtime.hpp"

namespace plait::hip {

MemoryOffer offer(void* pointer, std::size_t bytes, int ordinal, UniqueFd&) {
  static_assert(sizeof(hipIpcMemHandle_t) <= sizeof(MemoryOffer::handle));
  const gpu::BesideCaptures<Runtime> beside;
  hipPointerAttribute_t known{};
  gpu::MemoryFacts facts;
  if (hipPointerGetAttributes(&known, pointer) != hipSuccess) {
    gpu::StatusTraits<hipError_t>::forget();  // memory that the runtime does not know
  } else {
    facts = {.is_device = known.type == hipMemoryTypeDevice,
             .is_managed = known.isManaged != 0 || known.type == hipMemoryTypeManaged,
             .ordinal = known.device};
    if (facts.is_device) {
      const Allocation all = Allocation::of(pointer);
      facts.base = reinterpret_cast<std::uintptr_t>(all.base);
      facts.bytes = all.bytes;
    }
  }
  MemoryOffer offer = gpu::offer_of(facts, pointer, bytes, ordinal);
  const IpcAddress address = IpcAddress::of(pointer);
  std::memcpy(offer.handle.data(), &address.handle, sizeof address.handle);
  return offer;
}

std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd>, int ordinal) {
  return gpu::attach_each<Runtime>(rank, offers, [&](std::size_t peer) -> std::shared_ptr<void> {
    const MemoryOffer& offer = offers[peer];
    if (offer.process == process_number()) {
      enable_peer_access(ordinal, offer.ordinal);
      return nullptr;
    }
    IpcAddress address{.handle = {}, .offset = 0};
    std::memcpy(&address.handle, offer.handle.data(), sizeof address.handle);
    return open_ipc(address, ordinal);
  });
}

std::uint64_t memory_number([[maybe_unused]] const void* pointer) {
  std::uint64_t number = 0;
#if !defined(__HIP_PLATFORM_NVIDIA__)
  if (hipPointerGetAttribute(&number, HIP_POINTER_ATTRIBUTE_BUFFER_ID,
                             const_cast<void*>(pointer)) != hipSuccess) {
    gpu::StatusTraits<hipError_t>::forget();
    return 0;
  }
#endif
  return number;
}

}  // namespace plait::hip
