// The CUDA target: one device of this process.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_kernels.hpp"
#include "backends/cuda/cuda_range.hpp"
#include "backends/cuda/driver.hpp"
#include "plait/error.hpp"

namespace plait {
template <>
KernelTable<cuda::CudaKernel>& KernelTable<cuda::CudaKernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::cuda {
namespace {

cudaStream_t at(NativeStream stream) { return static_cast<cudaStream_t>(stream); }

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(bool timed) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(NativeStream stream) override { check(cudaEventRecord(event_, at(stream)), "cudaEventRecord"); }
  bool done() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  void synchronize() override { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  void wait_in(NativeStream stream) override { check(cudaStreamWaitEvent(at(stream), event_, 0), "cudaStreamWaitEvent"); }
  double milliseconds_since(const Event& earlier) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(earlier).event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(NativeStream stream) override { check(cudaGraphLaunch(executable_, at(stream)), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

DeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  char id[32] = {};
  check(cudaDeviceGetPCIBusId(id, sizeof(id), ordinal), "cudaDeviceGetPCIBusId");
  // Measured: H200 through NVSwitch, docs/tuning.md. A100 is scaled by its links, 12 of 25 GB/s against 18.
  const double bandwidth = properties.major >= 9 ? 330e3 : properties.major == 8 && properties.minor == 0 ? 220e3 : 20e3;
  return {.backend = BackendKind::cuda,
          .ordinal = ordinal,
          .name = properties.name,
          .architecture = fmt::format("sm_{}{}", properties.major, properties.minor),
          .id = id,
          .units = static_cast<unsigned>(properties.multiProcessorCount),
          .block_threads = max_threads,
          .max_block_threads = max_threads,
          .memory = properties.totalGlobalMem,
          .launch_us = 0.5,
          .hop_us = 1.2,
          .signal_us = 2.5,
          .link_bandwidth = bandwidth,
          .packet_bandwidth = bandwidth * 0.6};
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int ordinal) : info_(describe(ordinal)) { check(cudaSetDevice(ordinal), "cudaSetDevice"); }

  const DeviceInfo& info() const noexcept override { return info_; }
  int bind() override {
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    if (current != info_.ordinal) check(cudaSetDevice(info_.ordinal), "cudaSetDevice");
    return current;
  }
  void restore(int previous) noexcept override {
    if (previous != info_.ordinal) cudaSetDevice(previous);
  }

  void* allocate(std::size_t bytes) override {
    void* pointer = nullptr;
    check(cudaMalloc(&pointer, bytes), "cudaMalloc");
    return pointer;
  }
  void deallocate(void* pointer) noexcept override { cudaFree(pointer); }
  void* allocate_pinned(std::size_t bytes) override {
    void* pointer = nullptr;
    check(cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
    std::memset(pointer, 0, bytes);
    return pointer;
  }
  void deallocate_pinned(void* pointer) noexcept override { cudaFreeHost(pointer); }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, at(stream)), "cudaMemcpyAsync");
  }
  void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) override {
    check(cudaMemsetAsync(to, value, bytes, at(stream)), "cudaMemsetAsync");
  }
  std::size_t granularity() const noexcept override { return range_granularity(info_.ordinal); }
  std::shared_ptr<SymmetricRange> reserve(int ranks, std::size_t bytes, std::uint64_t) override {
    return make_range(ranks, bytes, info_.ordinal);
  }

  NativeStream create_stream() override {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
  }
  void destroy_stream(NativeStream stream) noexcept override { cudaStreamDestroy(at(stream)); }
  void synchronize(NativeStream stream) override { check(cudaStreamSynchronize(at(stream)), "cudaStreamSynchronize"); }
  void synchronize_device() override { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
  bool is_capturing(NativeStream stream) override {
    cudaStreamCaptureStatus status{};
    check(cudaStreamIsCapturing(at(stream), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }
  std::unique_ptr<Event> create_event(bool timed) override { return std::make_unique<CudaEvent>(timed); }
  void begin_capture(NativeStream stream) override {
    check(cudaStreamBeginCapture(at(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  std::unique_ptr<Graph> end_capture(NativeStream stream) override {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(at(stream), &graph), "cudaStreamEndCapture");
    return std::make_unique<CudaGraph>(graph);
  }
  void host_call(NativeStream stream, std::function<void()> function) override {
    const auto run = [](void* pointer) { (*static_cast<std::function<void()>*>(pointer))(); };
    const std::lock_guard lock(mutex_);
    // Kept for ever: a captured call may run at any time.
    auto* kept = host_calls_.emplace_back(std::make_unique<std::function<void()>>(std::move(function))).get();
    check(cudaLaunchHostFunc(at(stream), run, kept), "cudaLaunchHostFunc");
  }

  KernelHandle find_kernel(std::string_view family, DataType type) const override {
    return KernelTable<CudaKernel>::instance().find(family, type);
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t, const Watch& watch, NativeStream stream) override {
    check(static_cast<const CudaKernel*>(kernel)->launch(shape, args, watch, at(stream)), "kernel launch");
  }
  void load_kernels() override {
    KernelTable<CudaKernel>::instance().for_each([](const auto& key, const CudaKernel& kernel) {
      check(kernel.load(), fmt::format("loading kernel {} for {}", key.first, name_of(key.second)).c_str());
    });
  }

 private:
  DeviceInfo info_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::function<void()>>> host_calls_;
};

struct Devices {
  int count = 0;
  std::string why_none;
};

const Devices& devices() {
  static const Devices found = [] {
    Devices d;
    const cudaError_t status = cudaGetDeviceCount(&d.count);
    if (status != cudaSuccess) {
      d.count = 0;
      d.why_none = fmt::format("no CUDA device: {}", cudaGetErrorString(status));
      static_cast<void>(cudaGetLastError());
    } else if (d.count == 0) {
      d.why_none = "no CUDA device";
    }
    return d;
  }();
  return found;
}

const BackendRegistration registration({.kind = BackendKind::cuda,
                                        .device_count = [] { return devices().count; },
                                        .why_no_device = [] { return devices().why_none; },
                                        .open = [](int ordinal) -> std::unique_ptr<Backend> {
                                          return std::make_unique<CudaBackend>(ordinal);
                                        }});

}  // namespace
}  // namespace plait::cuda
