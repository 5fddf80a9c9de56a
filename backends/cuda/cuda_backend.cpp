// The CUDA target: one device of this process.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "backends/cuda/cuda_range.hpp"
#include "backends/cuda/nvml.hpp"
#include "backends/cuda/nvtx.hpp"
#include "backends/cuda/program_memory.hpp"
#include "backends/cuda/runtime.hpp"
#include "backends/gpu/gpu_backend.hpp"

namespace plait {
template <>
KernelTable<cuda::Target::Kernel>& KernelTable<cuda::Target::Kernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::cuda {
namespace {

DeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  gpu::check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  char id[32] = {};
  gpu::check(cudaDeviceGetPCIBusId(id, sizeof(id), ordinal), "cudaDeviceGetPCIBusId");
  // Fitted to the times of 2 H100 behind an NVSwitch: docs/tuning.md. The value for A100 is scaled
  // by its links: 12 of 25 GB/s against 18.
  const bool a100 = properties.major == 8 && properties.minor == 0;
  const double bandwidth = properties.major >= 9 ? 337e3 : a100 ? 220e3 : 20e3;
  // Copies to one peer at a time through a switch, while all devices copy. GPUs without a
  // measurement get the bandwidth of kernels, so copies promise no gain there.
  const double copy_bandwidth = properties.major >= 9 ? 362e3 : bandwidth;
  return {.backend = BackendKind::cuda,
          .ordinal = ordinal,
          .name = properties.name,
          .architecture = fmt::format("sm_{}{}", properties.major, properties.minor),
          .id = id,
          .memory = properties.totalGlobalMem,
          .facts = {.units = static_cast<unsigned>(properties.multiProcessorCount),
                    .block_threads = gpu::max_threads,
                    .max_block_threads = gpu::max_threads,
                    .line_threads = is_behind_nvswitch(id) ? 8 : 0,
                    .indexed_arguments = true,
                    // Early starts (instantiate.cuh) are for sm_90 and newer.
                    .launch_us = properties.major >= 9 ? 1.0 : 1.3,
                    .hop_us = 1.2,
                    .signal_us = 3.8,
                    .link_bandwidth = bandwidth,
                    .push_bandwidth = bandwidth * 1.07,
                    .packet_bandwidth = bandwidth * 0.84,
                    .copy_us = 7.5,
                    .copy_bandwidth = copy_bandwidth}};
}

struct CudaDevice : Runtime {
  static constexpr auto describe = cuda::describe;
  static constexpr auto links_between = cuda::links_between;
  static constexpr auto make_range = cuda::make_range;
  static constexpr auto export_dma_buf = cuda::export_dma_buf;
  static constexpr auto offer = cuda::offer;
  static constexpr auto attach = cuda::attach;
  static constexpr auto memory_number = cuda::memory_number;
  static constexpr auto shows_profiler_ranges = cuda::shows_profiler_ranges;
  static constexpr auto begin_profiler_range = cuda::begin_profiler_range;
  static constexpr auto end_profiler_range = cuda::end_profiler_range;
};

const BackendRegistration registration(gpu::backend_entry<CudaDevice>());

}  // namespace
}  // namespace plait::cuda
