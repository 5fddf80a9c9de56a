// The HIP target: one device of this process.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "backends/gpu/gpu_backend.hpp"
#include "backends/hip/hip_range.hpp"
#include "backends/hip/program_memory.hpp"
#include "backends/hip/rocm_smi.hpp"
#include "backends/hip/roctx.hpp"
#include "backends/hip/runtime.hpp"

namespace plait {
template <>
KernelTable<hip::Target::Kernel>& KernelTable<hip::Target::Kernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::hip {
namespace {

#if defined(__HIP_PLATFORM_NVIDIA__)

std::string architecture_of(const hipDeviceProp_t& properties) {
  return fmt::format("sm_{}{}", properties.major, properties.minor);
}
void check_clock(int) {}
constexpr double link_bandwidth = 330e3, push_bandwidth = link_bandwidth * 1.07,
                 packet_bandwidth = link_bandwidth * 0.75,
                 copy_bandwidth = 392e3;  // H200, as on the CUDA target

#else

/// "gfx942:sramecc+:xnack-" without its features.
std::string architecture_of(const hipDeviceProp_t& properties) {
  const std::string name = properties.gcnArchName;
  return name.substr(0, name.find(':'));
}

/// Deadlines in kernels rely on this rate (gcn.hpp).
void check_clock(int ordinal) {
  int kilohertz = 0;
  if (hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, ordinal) != hipSuccess ||
      kilohertz == 100'000)
    return;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("HIP device {}: its clock runs at {} kHz; Plait knows devices with 100000 kHz",
                  ordinal, kilohertz));
}

// Not measured. MI300X: 7 links of 64 GB/s per direction, of which 70 percent arrive (docs/amd.md
// has the sources). A copy to one peer at a time uses one of the links.
constexpr double link_bandwidth = 310e3, push_bandwidth = link_bandwidth,
                 packet_bandwidth = link_bandwidth * 0.5, copy_bandwidth = link_bandwidth / 7;

#endif

DeviceInfo describe(int ordinal) {
  hipDeviceProp_t properties{};
  gpu::check(hipGetDeviceProperties(&properties, ordinal), "hipGetDeviceProperties");
  char id[32] = {};
  gpu::check(hipDeviceGetPCIBusId(id, sizeof(id), ordinal), "hipDeviceGetPCIBusId");
  check_clock(ordinal);
  return {.backend = BackendKind::hip,
          .ordinal = ordinal,
          .name = properties.name,
          .architecture = architecture_of(properties),
          .id = id,
          .memory = properties.totalGlobalMem,
          .facts = {.units = static_cast<unsigned>(properties.multiProcessorCount),
                    .block_threads = gpu::max_threads,
                    .max_block_threads = gpu::max_threads,
                    .launch_us = 0.5,
                    .hop_us = 1.2,
                    .signal_us = 2.5,
                    .link_bandwidth = link_bandwidth,
                    .push_bandwidth = push_bandwidth,
                    .packet_bandwidth = packet_bandwidth,
                    .copy_us = 7.5,
                    .copy_bandwidth = copy_bandwidth}};
}

struct HipDevice : Runtime {
  static constexpr auto describe = hip::describe;
  static constexpr auto links_between = hip::links_between;
  static constexpr auto make_range = hip::make_range;
  static constexpr auto export_dma_buf = hip::export_dma_buf;
  static constexpr auto offer = hip::offer;
  static constexpr auto attach = hip::attach;
  static constexpr auto memory_number = hip::memory_number;
  static constexpr auto shows_profiler_ranges = hip::shows_profiler_ranges;
  static constexpr auto begin_profiler_range = hip::begin_profiler_range;
  static constexpr auto end_profiler_range = hip::end_profiler_range;
};

const BackendRegistration registration(gpu::backend_entry<HipDevice>());

}  // namespace
}  // namespace plait::hip
