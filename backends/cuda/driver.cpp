#include "backends/cuda/driver.hpp"

#include <fmt/format.h>

#include "backends/cuda/runtime.hpp"
#include "plait/error.hpp"

namespace plait::cuda {
namespace {

template <class Function>
void find(Function& function, const char* name) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found{};
  gpu::check(cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess || pointer == nullptr)
    throw Error(
        ErrorCode::backend,
        fmt::format("the CUDA driver has no {}: Plait needs a driver for CUDA 12 or newer", name));
  function = reinterpret_cast<Function>(pointer);
}

}  // namespace

const Driver& driver() {
  static const Driver functions = [] {
    Driver d{};
    find(d.address_reserve, "cuMemAddressReserve");
    find(d.address_free, "cuMemAddressFree");
    find(d.create, "cuMemCreate");
    find(d.release, "cuMemRelease");
    find(d.map, "cuMemMap");
    find(d.unmap, "cuMemUnmap");
    find(d.set_access, "cuMemSetAccess");
    find(d.export_handle, "cuMemExportToShareableHandle");
    find(d.import_handle, "cuMemImportFromShareableHandle");
    find(d.granularity, "cuMemGetAllocationGranularity");
    find(d.handle_for_range, "cuMemGetHandleForAddressRange");
    find(d.retain, "cuMemRetainAllocationHandle");
    find(d.pointer_attributes, "cuPointerGetAttributes");
    find(d.pointer_attribute, "cuPointerGetAttribute");
    find(d.device, "cuDeviceGet");
    find(d.device_attribute, "cuDeviceGetAttribute");
    find(d.error_string, "cuGetErrorString");
    return d;
  }();
  return functions;
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver().error_string(status, &text);
  throw Error(status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::out_of_memory : ErrorCode::backend,
              fmt::format("{}: {} (CUresult {})", call, text == nullptr ? "unknown error" : text,
                          static_cast<int>(status)));
}

}  // namespace plait::cuda
