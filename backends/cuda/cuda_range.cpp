#include "backends/cuda/cuda_range.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/runtime.hpp"
#include "backends/gpu/beside_captures.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::cuda {
namespace {

constexpr auto handle_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Whether network cards can reach memory that cuMemCreate makes for them.
bool network_reaches(int ordinal) {
  CUdevice device = 0;
  int capable = 0;
  check(driver().device(&device, ordinal), "cuDeviceGet");
  check(driver().device_attribute(
            &capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device),
        "cuDeviceGetAttribute");
  return capable != 0;
}

CUmemAllocationProp properties_of(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  properties.requestedHandleTypes = handle_type;
  properties.allocFlags.gpuDirectRDMACapable = network_reaches(ordinal) ? 1 : 0;
  return properties;
}

std::size_t range_granularity(int ordinal) {
  const CUmemAllocationProp properties = properties_of(ordinal);
  std::size_t granularity = 0;
  check(driver().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "cuMemGetAllocationGranularity");
  return granularity;
}

std::size_t rounded(std::size_t bytes, std::size_t granularity) {
  return (bytes + granularity - 1) / granularity * granularity;
}

/// Physical memory, mapped into a range. The mapping keeps the memory alive, so its handle is
/// released at once.
class CudaRange final : public ReservedRange {
 public:
  CudaRange(int ranks, std::size_t bytes, std::size_t granularity, int ordinal)
      : ordinal_(ordinal),
        stride_(rounded(bytes, granularity)),
        is_mapped_(static_cast<std::size_t>(ranks)) {
    check(driver().address_reserve(&base_, size(), 0, 0, 0), "cuMemAddressReserve");
  }
  ~CudaRange() override {
    for (std::size_t rank = 0; rank < is_mapped_.size(); ++rank)
      if (is_mapped_[rank]) driver().unmap(base_ + rank * stride_, stride_);
    driver().address_free(base_, size());
  }
  CudaRange(const CudaRange&) = delete;
  CudaRange& operator=(const CudaRange&) = delete;

  std::byte* address(int rank) const noexcept override {
    return reinterpret_cast<std::byte*>(address_of(rank));
  }
  WindowView view(int rank) const noexcept override {
    return {.own = address(rank),
            .stride = static_cast<std::ptrdiff_t>(stride_),
            .distances = nullptr,
            .rank = rank};
  }

  UniqueFd create_local(int rank) override {
    const gpu::BesideCaptures<Runtime> beside;
    const CUmemAllocationProp properties = properties_of(ordinal_);
    Handle memory;
    check(driver().create(&memory.value, stride_, &properties, 0), "cuMemCreate");
    int descriptor = -1;
    check(driver().export_handle(&descriptor, memory.value, handle_type, 0),
          "cuMemExportToShareableHandle");
    UniqueFd owned = StandardFdsTaken::own(descriptor);
    map(rank, memory.value);
    give_access(rank);
    gpu::zero<Runtime>(address(rank), stride_);
    return owned;
  }

  /// The driver keeps what it has done for a device as long as one mapping there needs it.
  void expect_peers(int rank) override {
    const gpu::BesideCaptures<Runtime> beside;
    int devices = 0;
    gpu::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    for (int device = 0; device < devices; ++device) {
      int reaches = 0;
      if (device == ordinal_ ||
          cudaDeviceCanAccessPeer(&reaches, device, ordinal_) != cudaSuccess || reaches == 0)
        continue;
      CUmemAccessDesc access{};
      access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      static_cast<void>(driver().set_access(address_of(rank), stride_, &access, 1));
    }
  }

  void import_peer(int rank, UniqueFd descriptor) override {
    const gpu::BesideCaptures<Runtime> beside;
    Handle memory;
    void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor.get()));
    check(driver().import_handle(&memory.value, handle, handle_type),
          "cuMemImportFromShareableHandle");
    map(rank, memory.value);
    try {
      give_access(rank);
    } catch (const Error& error) {  // only this step depends on the link between the devices
      if (error.code() != ErrorCode::backend) throw;
      throw Error(ErrorCode::no_peer_access,
                  fmt::format("device {} can't reach it: {}", ordinal_, error.what()));
    }
  }

 private:
  struct Handle {
    CUmemGenericAllocationHandle value = 0;
    Handle() = default;
    ~Handle() {
      if (value != 0) driver().release(value);
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
  };

  std::size_t size() const { return stride_ * is_mapped_.size(); }
  CUdeviceptr address_of(int rank) const {
    return base_ + static_cast<std::size_t>(rank) * stride_;
  }

  void map(int rank, CUmemGenericAllocationHandle memory) {
    check(driver().map(address_of(rank), stride_, 0, memory, 0), "cuMemMap");
    is_mapped_[static_cast<std::size_t>(rank)] = true;
  }
  void give_access(int rank) {
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal_};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check(driver().set_access(address_of(rank), stride_, &access, 1), "cuMemSetAccess");
  }

  int ordinal_;
  CUdeviceptr base_ = 0;
  std::size_t stride_;
  std::vector<bool> is_mapped_;  // of each rank's copy
};

}  // namespace

std::shared_ptr<ReservedRange> make_range(int ranks, std::size_t bytes, int ordinal) {
  return std::make_shared<CudaRange>(ranks, bytes, range_granularity(ordinal), ordinal);
}

DmaBuf export_dma_buf(void* address, std::size_t bytes) {
  const gpu::BesideCaptures<Runtime> beside;
  const StandardFdsTaken taken;
  int descriptor = -1;
  const CUresult status =
      driver().handle_for_range(&descriptor, reinterpret_cast<CUdeviceptr>(address), bytes,
                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (status != CUDA_SUCCESS) return {};
  return {.descriptor = StandardFdsTaken::own(descriptor)};
}

}  // namespace plait::cuda
