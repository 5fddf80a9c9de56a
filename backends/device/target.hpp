// The only place that asks which compiler is running.
//
//   PLAIT_DEVICE            a function of kernels that the host may call, too
//   PLAIT_ELEMENT           the same for elements and packs: called in the innermost loops
//   PLAIT_WORD              a function that only kernels call
//   PLAIT_COLD              (after PLAIT_WORD) a rarely called function: kept out of the hot code
//   PLAIT_KERNEL_PARAMETER  a kernel parameter whose address may be taken without a copy, for
//                           compilers that need to be told
//   PLAIT_CALLS_HOST        (before a PLAIT_DEVICE function, and before its `template`) it calls
//                           words of a target, which only the host or only a device may call
//   PLAIT_INLINED           (behind the parameters of a lambda) it is inlined, like PLAIT_DEVICE
//   PLAIT_UNROLL, PLAIT_NO_UNROLL
#pragma once  // SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)
#define PLAIT_DEVICE __host__ __device__ __forceinline__
#define PLAIT_ELEMENT PLAIT_DEVICE
#define PLAIT_WORD __device__
#define PLAIT_COLD __noinline__
#define PLAIT_KERNEL_PARAMETER __grid_constant__
#if defined(__NVCC__)
#define PLAIT_CALLS_HOST _Pragma("nv_exec_check_disable")
#else
#define PLAIT_CALLS_HOST
#endif
#if defined(__CUDA_ARCH__)
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_NO_UNROLL _Pragma("unroll 1")
#else  // the host's half of a file, which g++ compiles
#define PLAIT_UNROLL
#define PLAIT_NO_UNROLL
#endif
#elif defined(__HIP__)
// Everything is inlined, because a call needs a stack, and on AMD GPUs a stack is in memory.
#define PLAIT_DEVICE __host__ __device__ inline __attribute__((always_inline))
#define PLAIT_ELEMENT PLAIT_DEVICE
#define PLAIT_WORD __device__ inline __attribute__((always_inline))
#define PLAIT_COLD
#define PLAIT_INLINED __attribute__((always_inline))
#define PLAIT_KERNEL_PARAMETER
#define PLAIT_CALLS_HOST
#define PLAIT_UNROLL _Pragma("unroll")
#define PLAIT_NO_UNROLL _Pragma("unroll 1")
#else
#define PLAIT_DEVICE inline
#define PLAIT_CALLS_HOST
// cmake/PlaitKernels.cmake defines it, because g++ would call the words of sums once per pack.
#if defined(PLAIT_INLINE_KERNELS)
#define PLAIT_ELEMENT inline __attribute__((always_inline))
#else
#define PLAIT_ELEMENT inline
#endif
#define PLAIT_UNROLL  // the loops over lanes are left to the vectoriser
#define PLAIT_NO_UNROLL
#endif
#if !defined(PLAIT_INLINED)
#define PLAIT_INLINED
#endif
