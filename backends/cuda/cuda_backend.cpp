// The CUDA target: one device of this process.
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

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

/// Whether a GPU reaches its peers through an NVLink switch, which keeps a 128-byte write whole;
/// PCIe does not. Where GPUs are linked directly, some pairs may communicate over PCIe, so such
/// GPUs count as having no switch. The driver's management library answers, because the runtime
/// knows only pairs of GPUs that this process sees. False if there is no such library.
bool behind_nvswitch(const char* pci_id) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  using Device = void*;
  constexpr int success = 0, a_switch = 2;  // NVML_SUCCESS, NVML_NVLINK_DEVICE_TYPE_SWITCH
  constexpr unsigned links = 18;            // NVML_NVLINK_MAX_LINKS
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto shutdown = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
  const auto find = reinterpret_cast<int (*)(const char*, Device*)>(
      dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto link_state = reinterpret_cast<int (*)(Device, unsigned, unsigned*)>(
      dlsym(library, "nvmlDeviceGetNvLinkState"));
  const auto other_end = reinterpret_cast<int (*)(Device, unsigned, int*)>(
      dlsym(library, "nvmlDeviceGetNvLinkRemoteDeviceType"));
  bool found = false;
  if (init != nullptr && shutdown != nullptr && find != nullptr && link_state != nullptr &&
      other_end != nullptr && init() == success) {
    Device device = nullptr;
    if (find(pci_id, &device) == success)
      for (unsigned link = 0; link < links && !found; ++link) {
        unsigned active = 0;
        int type = -1;
        found = link_state(device, link, &active) == success && active != 0 &&
                other_end(device, link, &type) == success && type == a_switch;
      }
    shutdown();
  }
  dlclose(library);
  return found;
}

/// Asked once per process and device: the answer takes milliseconds, and every communicator opens a
/// device.
bool is_behind_nvswitch(const std::string& pci_id) {
  static std::mutex mutex;
  static std::map<std::string, bool> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(pci_id);
  return found != known.end()
             ? found->second
             : known.emplace(pci_id, behind_nvswitch(pci_id.c_str())).first->second;
}

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
  static constexpr auto make_range = cuda::make_range;
  static constexpr auto export_dma_buf = cuda::export_dma_buf;
};

const BackendRegistration registration(gpu::backend_entry<CudaDevice>());

}  // namespace
}  // namespace plait::cuda
