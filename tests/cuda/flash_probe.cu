// The kernel of flash for one type, so that flash_ptx_test.sh can read its PTX. Never run.
#include "algorithms/all_reduce/flash/kernel.hpp"
#include "backends/cuda/instantiate.cuh"

template cudaError_t plait::gpu::launch<plait::cuda::KernelTarget, plait::flash::Kernel<float>,
                                        plait::flash::Args>(plait::LaunchShape, bool, const void*,
                                                            const plait::Watch&, cudaStream_t);
