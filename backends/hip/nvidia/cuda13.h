// HIP's interface on NVIDIA GPUs. Its headers were written for CUDA 12 and older and use a few
// things that CUDA 13 changed. The functions among these return "not supported" here, and Plait
// calls none of them.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

// Fields that CUDA 13 dropped, which the headers copy.
struct PlaitCuda12DeviceProp : cudaDeviceProp {
  int clockRate, computeMode, deviceOverlap, kernelExecTimeoutEnabled, memoryClockRate,
      singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
};
#define cudaDeviceProp PlaitCuda12DeviceProp
#define cudaDevAttrCooperativeMultiDeviceLaunch cudaDevAttrCooperativeLaunch

// Functions whose parameters changed.
#undef cuCtxCreate
#define cuCtxCreate(...) CUDA_ERROR_NOT_SUPPORTED
#define cudaMemAdvise(...) cudaErrorNotSupported
#define cudaMemPrefetchAsync(...) cudaErrorNotSupported
#define cudaLaunchCooperativeKernelMultiDevice(...) cudaErrorNotSupported
#define cudaGraphExecUpdate(...) cudaErrorNotSupported
#define cudaGraphAddDependencies(...) cudaErrorNotSupported
#define cudaGraphRemoveDependencies(...) cudaErrorNotSupported
#define cudaGraphGetEdges(...) cudaErrorNotSupported
#define cudaGraphNodeGetDependencies(...) cudaErrorNotSupported
#define cudaGraphNodeGetDependentNodes(...) cudaErrorNotSupported
#define cudaStreamUpdateCaptureDependencies(...) cudaErrorNotSupported
#define cudaStreamGetCaptureInfo_v2(...) cudaErrorNotSupported
#define cuStreamGetCaptureInfo_v2(...) CUDA_ERROR_NOT_SUPPORTED

// The headers declare half of the runtime's functions only where nvcc compiles. Host code needs
// them too.
#if defined(__CUDACC__)
#include <hip/hip_runtime_api.h>
#else
#define __CUDACC__ 1
#include <hip/hip_runtime_api.h>
#undef __CUDACC__
#endif
