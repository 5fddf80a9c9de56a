// The one place that asks which compiler is running.
#pragma once
#if defined(__CUDACC__) || defined(__HIPCC__) || defined(__HIP__)
#define PLAIT_DEVICE __host__ __device__ inline
#define PLAIT_UNROLL _Pragma("unroll")
#else
#define PLAIT_DEVICE inline
#define PLAIT_UNROLL  // the loops over lanes are left to the vectoriser
#endif
