// The CUDA target: one device of this process.
#include <fmt/format.h>

#include <memory>

#include "backends/cuda/cuda_range.hpp"
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
  // Measured: H200 through NVSwitch, docs/tuning.md. A100 is scaled by its links, 12 of 25 GB/s against 18.
  const bool a100 = properties.major == 8 && properties.minor == 0;
  const double bandwidth = properties.major >= 9 ? 330e3 : a100 ? 220e3 : 20e3;
  // Copies to one peer at a time, through a switch, while all devices copy. Where that was not measured, they gain nothing.
  const double copy_bandwidth = properties.major >= 9 ? 392e3 : bandwidth;
  return {.backend = BackendKind::cuda,
          .ordinal = ordinal,
          .name = properties.name,
          .architecture = fmt::format("sm_{}{}", properties.major, properties.minor),
          .id = id,
          .units = static_cast<unsigned>(properties.multiProcessorCount),
          .block_threads = gpu::max_threads,
          .max_block_threads = gpu::max_threads,
          .memory = properties.totalGlobalMem,
          .wide_packets = true,
          .launch_us = properties.major >= 9 ? 0.2 : 0.5,  // early starts (instantiate.cuh) are for sm_90 and newer
          .hop_us = 1.2,
          .signal_us = 2.5,
          .link_bandwidth = bandwidth,
          .push_bandwidth = bandwidth * 1.07,
          .packet_bandwidth = bandwidth * 0.75,
          .copy_us = 7.5,
          .copy_bandwidth = copy_bandwidth};
}

class CudaBackend final : public gpu::GpuBackend<Runtime> {
 public:
  explicit CudaBackend(int ordinal) : GpuBackend(describe(ordinal)) {}

  std::size_t granularity() const noexcept override { return range_granularity(info().ordinal); }
  std::shared_ptr<SymmetricRange> reserve(int ranks, std::size_t bytes, std::uint64_t) override {
    return make_range(ranks, bytes, info().ordinal);
  }
};

const BackendRegistration registration(gpu::backend_entry<Runtime, CudaBackend>());

}  // namespace
}  // namespace plait::cuda
