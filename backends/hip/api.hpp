// HIP's runtime interface, on AMD GPUs or on NVIDIA's.
#pragma once
#if defined(__HIP_PLATFORM_NVIDIA__)
#include "backends/hip/nvidia/cuda13.h"
#else
#include <hip/hip_runtime_api.h>
#endif
