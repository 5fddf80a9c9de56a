// The functions of the CUDA driver API that the runtime lacks, found at run time because
// libplait.so must load on a machine without a driver.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace plait::cuda {

struct Driver {
  decltype(&cuMemAddressReserve) address_reserve;
  decltype(&cuMemAddressFree) address_free;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemImportFromShareableHandle) import_handle;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemGetHandleForAddressRange) handle_for_range;
  decltype(&cuMemRetainAllocationHandle) retain;
  decltype(&cuPointerGetAttributes) pointer_attributes;
  decltype(&cuPointerGetAttribute) pointer_attribute;
  decltype(&cuDeviceGet) device;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuGetErrorString) error_string;
};

/// Looks the functions up on the first call. Throws Error(backend) if the driver lacks one.
const Driver& driver();

/// Throws an Error that names the call: `out_of_memory` for lack of memory, `backend` for any other
/// failure.
void check(CUresult status, const char* call);

}  // namespace plait::cuda
