// The one place that asks which compiler is running.
//
//   PLAIT_DEVICE            a function of kernels, which the host may call too
//   PLAIT_WORD              a function that only kernels call
//   PLAIT_COLD              (after PLAIT_WORD) one that is rarely called: out of the way of the
//   code that matters PLAIT_KERNEL_PARAMETER  a parameter of a kernel that may be pointed to
//   without a copy, where the compiler wants to be told PLAIT_UNROLL, PLAIT_NO_UNROLL
#pragma once
#if defined(__CUDACC__)
#define PLAIT_DEVICE __host__ __device__ __forceinline__
#define PLAIT_WORD __device__
#define PLAIT_COLD __noinline__
#define PLAIT_KERNEL_PARAMETER __grid_constant__
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_NO_UNROLL _Pragma("unroll 1")
#elif defined(__HIP__)
// All inlined: a call needs a stack, and on AMD GPUs that is memory.
#define PLAIT_DEVICE __host__ __device__ inline __attribute__((always_inline))
#define PLAIT_WORD __device__ inline __attribute__((always_inline))
#define PLAIT_COLD
#define PLAIT_KERNEL_PARAMETER
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_NO_UNROLL _Pragma("unroll 1")
#else
// cmake/PlaitKernels.cmake asks for it: g++ would call the words of sums once per pack.
#if defined(PLAIT_INLINE_KERNELS)
#define PLAIT_DEVICE inline __attribute__((always_inline))
#else
#define PLAIT_DEVICE inline
#endif
#define PLAIT_UNROLL  // the loops over lanes are left to the vectoriser
#endif
