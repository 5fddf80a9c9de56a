// The one place that asks which compiler is running.
#pragma once
#if defined(__CUDACC__) || defined(__HIP__)
#if defined(__CUDACC__)
#define PLAIT_DEVICE __host__ __device__ inline
#else
#define PLAIT_DEVICE __host__ __device__ inline __attribute__((always_inline))  // a call would need a stack: scratch memory
#endif
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_NO_UNROLL _Pragma("unroll 1")
#else
#define PLAIT_DEVICE inline
#define PLAIT_UNROLL  // the loops over lanes are left to the vectoriser
#endif

#if defined(__CUDACC__)
#define PLAIT_COLD __noinline__                   // out of the way of the code that matters
#define PLAIT_KERNEL_PARAMETER __grid_constant__  // may be pointed to without a copy
#elif defined(__HIP__)
#define PLAIT_COLD
#define PLAIT_KERNEL_PARAMETER
#endif
