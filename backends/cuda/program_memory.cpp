#include "backends/cuda/program_memory.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/runtime.hpp"
#include "backends/gpu/program_memory.hpp"
#include "core/standard_fds.hpp"

namespace plait::cuda {
namespace {

using Way = MemoryOffer::Way;
constexpr auto descriptor_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto pool_descriptor_type = cudaMemHandleTypePosixFileDescriptor;

CUdeviceptr at(std::uint64_t address) { return static_cast<CUdeviceptr>(address); }
void* pointer_at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// What the driver knows of an address. All zero for memory that it does not know.
struct PointerFacts {
  std::uint64_t type = 0, managed = 0, ordinal = 0, base = 0, bytes = 0, legacy_ipc = 0,
                handle_types = 0, pool = 0;

  explicit PointerFacts(std::uint64_t address) {
    std::array attributes{
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,          CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,           CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    std::array<void*, attributes.size()> values{&type,  &managed,    &ordinal,      &base,
                                                &bytes, &legacy_ipc, &handle_types, &pool};
    check(driver().pointer_attributes(attributes.size(), attributes.data(), values.data(),
                                      at(address)),
          "cuPointerGetAttributes");
  }
  CUmemoryPool memory_pool() const { return reinterpret_cast<CUmemoryPool>(pool); }
};

[[noreturn]] void refuse(const void* pointer, const char* why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} can't be attached: {}", pointer, why));
}

/// Lets this rank's device use memory of a pool.
void allow(cudaMemPool_t pool, int ordinal) {
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = ordinal;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  gpu::check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess");
}

/// Physical memory, mapped wherever there is room.
std::shared_ptr<void> map(const MemoryOffer& offer, const UniqueFd& descriptor, int ordinal) {
  CUmemGenericAllocationHandle memory = 0;
  void* const handle = pointer_at(static_cast<std::uint64_t>(descriptor.get()));
  check(driver().import_handle(&memory, handle, descriptor_type), "cuMemImportFromShareableHandle");
  const std::shared_ptr<void> imported(nullptr, [memory](void*) { driver().release(memory); });
  CUdeviceptr base = 0;
  const std::size_t bytes = offer.mapped;
  check(driver().address_reserve(&base, bytes, 0, 0, 0), "cuMemAddressReserve");
  const std::shared_ptr<void> reserved(
      pointer_at(base), [base, bytes](void*) { driver().address_free(base, bytes); });
  check(driver().map(base, bytes, 0, memory, 0), "cuMemMap");
  std::shared_ptr<void> mapped(pointer_at(base),
                               [base, bytes, reserved](void*) { driver().unmap(base, bytes); });
  CUmemAccessDesc access{};
  access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver().set_access(base, bytes, &access, 1), "cuMemSetAccess");
  return mapped;
}

std::shared_ptr<void> open_ipc(const MemoryOffer& offer) {
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, offer.handle.data(), sizeof handle);
  void* base = nullptr;
  gpu::check(cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle");
  return {base, [](void* opened) { static_cast<void>(cudaIpcCloseMemHandle(opened)); }};
}

std::shared_ptr<void> import_pooled(const MemoryOffer& offer, const UniqueFd& descriptor,
                                    int ordinal) {
  cudaMemPool_t imported = nullptr;
  gpu::check(cudaMemPoolImportFromShareableHandle(
                 &imported, pointer_at(static_cast<std::uint64_t>(descriptor.get())),
                 pool_descriptor_type, 0),
             "cudaMemPoolImportFromShareableHandle");
  const std::shared_ptr<void> pool(imported, [](void* p) {
    static_cast<void>(cudaMemPoolDestroy(static_cast<cudaMemPool_t>(p)));
  });
  allow(imported, ordinal);
  cudaMemPoolPtrExportData data;
  std::memcpy(&data, offer.handle.data(), sizeof data);
  void* pointer = nullptr;
  gpu::check(cudaMemPoolImportPointer(&pointer, imported, &data), "cudaMemPoolImportPointer");
  return {pointer, [pool](void* p) { static_cast<void>(Runtime::free.status(p)); }};
}

/// Another rank's memory of this process, which has one address for all devices.
void reach(const MemoryOffer& offer, int ordinal) {
  if (offer.ordinal == ordinal) return;
  if (offer.way == Way::both) return allow(PointerFacts(offer.address).memory_pool(), ordinal);
  const cudaError_t status = cudaDeviceEnablePeerAccess(offer.ordinal, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) gpu::StatusTraits<cudaError_t>::forget();
  else gpu::check(status, "cudaDeviceEnablePeerAccess");
}

}  // namespace

MemoryOffer offer(void* pointer, std::size_t bytes, int ordinal, UniqueFd& descriptor) {
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(MemoryOffer::handle) &&
                sizeof(cudaMemPoolPtrExportData) == sizeof(MemoryOffer::handle));
  const gpu::BesideCaptures<Runtime> beside;
  const PointerFacts facts(reinterpret_cast<std::uintptr_t>(pointer));
  MemoryOffer offer = gpu::offer_of({.is_device = facts.type == CU_MEMORYTYPE_DEVICE,
                                     .is_managed = facts.managed != 0,
                                     .ordinal = static_cast<int>(facts.ordinal),
                                     .base = facts.base,
                                     .bytes = facts.bytes},
                                    pointer, bytes, ordinal);
  int exported = -1;
  if (facts.pool != 0) {
    const cudaError_t status =
        cudaMemPoolExportToShareableHandle(&exported, facts.memory_pool(), pool_descriptor_type, 0);
    gpu::StatusTraits<cudaError_t>::forget();
    if (status != cudaSuccess) refuse(pointer, "its pool does not export to file descriptors");
    descriptor = StandardFdsTaken::own(exported);
    cudaMemPoolPtrExportData data;
    gpu::check(cudaMemPoolExportPointer(&data, pointer_at(facts.base)), "cudaMemPoolExportPointer");
    std::memcpy(offer.handle.data(), &data, sizeof data);
    offer.way = Way::both;
  } else if (facts.legacy_ipc != 0) {
    cudaIpcMemHandle_t handle;
    gpu::check(cudaIpcGetMemHandle(&handle, pointer_at(facts.base)), "cudaIpcGetMemHandle");
    std::memcpy(offer.handle.data(), &handle, sizeof handle);
  } else if ((facts.handle_types & descriptor_type) != 0) {
    CUmemGenericAllocationHandle memory = 0;
    check(driver().retain(&memory, pointer), "cuMemRetainAllocationHandle");
    const CUresult status = driver().export_handle(&exported, memory, descriptor_type, 0);
    driver().release(memory);
    check(status, "cuMemExportToShareableHandle");
    descriptor = StandardFdsTaken::own(exported);
    offer.way = Way::descriptor;
  } else {
    refuse(pointer, "it was made without a handle that other processes can open");
  }
  return offer;
}

std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd> descriptors, int ordinal) {
  return gpu::attach_each<Runtime>(rank, offers, [&](std::size_t peer) -> std::shared_ptr<void> {
    const MemoryOffer& offer = offers[peer];
    try {
      if (offer.way == Way::descriptor) return map(offer, descriptors[peer], ordinal);
      if (offer.process == process_number()) return reach(offer, ordinal), nullptr;
      return offer.way == Way::both ? import_pooled(offer, descriptors[peer], ordinal)
                                    : open_ipc(offer);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::backend) throw;
      throw Error(ErrorCode::no_peer_access,
                  fmt::format("device {} can't reach the memory of rank {}: {}", ordinal, peer,
                              error.what()));
    }
  });
}

std::uint64_t memory_number(const void* pointer) {
  unsigned long long number = 0;
  const CUresult status = driver().pointer_attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                                     reinterpret_cast<CUdeviceptr>(pointer));
  return status == CUDA_SUCCESS ? number : 0;
}

}  // namespace plait::cuda
