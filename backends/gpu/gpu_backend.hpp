// A device of this process, driven through the runtime that `Runtime` lists (cuda/runtime.hpp,
// hip/runtime.hpp). For `GpuBackend` it also has what differs beyond names:
//   static DeviceInfo describe(int ordinal);
//   static std::vector<int> links_between(const std::string& id, std::span<const std::string> ids);
//   static std::shared_ptr<ReservedRange> make_range(int ranks, std::size_t bytes, int ordinal);
//   static DmaBuf export_dma_buf(void* address, std::size_t bytes);
//   static MemoryOffer offer(void* pointer, std::size_t bytes, int ordinal, UniqueFd& descriptor);
//   static std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
//                                                 std::span<UniqueFd> descriptors, int ordinal);
//   static std::uint64_t memory_number(const void* pointer);
#pragma once
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "backends/backend.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/gpu/beside_captures.hpp"
#include "backends/gpu/gpu_kernels.hpp"
#include "backends/gpu/registered_range.hpp"
#include "backends/gpu/runtime_call.hpp"
#include "backends/host/memory_limits.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"

namespace plait::gpu {

/// The answer of a query.
template <class Call, class Status>
bool is_ready(const Call& query, Status status) {
  if (status != StatusTraits<Status>::not_ready) return query.check_status(status), true;
  StatusTraits<Status>::forget();  // a later check by other code must not find it
  return false;
}

template <class Runtime>
class GpuEvent final : public DeviceEvent {
 public:
  using Stream = typename Runtime::Stream;

  explicit GpuEvent(bool timed) {
    Runtime::event_create(&event_, timed ? Runtime::event_default : Runtime::event_disable_timing);
  }
  /// The user's own.
  explicit GpuEvent(typename Runtime::Event event) : event_(event), is_owned_(false) {}
  ~GpuEvent() override {
    if (is_owned_) static_cast<void>(Runtime::event_destroy.status(event_));
  }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  void record(NativeStream stream) override {
    Runtime::event_record(event_, static_cast<Stream>(stream));
  }
  bool done() override {
    const BesideCaptures<Runtime> beside;
    return is_ready(Runtime::event_query, Runtime::event_query.status(event_));
  }
  void synchronize() override { Runtime::event_synchronize(event_); }
  void wait_in(NativeStream stream) override {
    Runtime::stream_wait_event(static_cast<Stream>(stream), event_, 0);
  }
  double milliseconds_since(const DeviceEvent& earlier) const override {
    float milliseconds = 0;
    Runtime::event_elapsed_time(&milliseconds, dynamic_cast<const GpuEvent&>(earlier).event_,
                                event_);
    return milliseconds;
  }
  void* native() noexcept override { return event_; }

 private:
  typename Runtime::Event event_ = nullptr;
  bool is_owned_ = true;
};

template <class Runtime>
class GpuGraph final : public Graph {
 public:
  explicit GpuGraph(typename Runtime::Graph graph) {
    const auto status = Runtime::graph_instantiate.status(&executable_, graph, 0);
    static_cast<void>(Runtime::graph_destroy.status(graph));
    Runtime::graph_instantiate.check_status(status);
  }
  ~GpuGraph() override { static_cast<void>(Runtime::graph_exec_destroy.status(executable_)); }
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;
  void launch(NativeStream stream) override {
    Runtime::graph_launch(executable_, static_cast<typename Runtime::Stream>(stream));
  }

 private:
  typename Runtime::GraphExec executable_ = nullptr;
};

template <class Runtime>
class GpuBackend final : public Backend {
 public:
  using Stream = typename Runtime::Stream;
  using Kernel = typename Runtime::Kernel;

  /// Makes the device current.
  explicit GpuBackend(int ordinal)
      : info_(Runtime::describe(ordinal)), use_(device_use(info_.backend, info_.ordinal)) {
    Runtime::set_device(info_.ordinal);
  }

  const DeviceInfo& info() const noexcept override { return info_; }
  std::vector<int> links_to(std::span<const std::string> ids) const override {
    return Runtime::links_between(info_.id, ids);
  }
  DeviceUse& use() noexcept override { return *use_; }
  int bind() override {
    int current = 0;
    Runtime::get_device(&current);
    if (current != info_.ordinal) Runtime::set_device(info_.ordinal);
    return current;
  }
  void restore(int previous) noexcept override {
    if (previous != info_.ordinal) static_cast<void>(Runtime::set_device.status(previous));
  }

  void enter() override { Runtime::set_device(info_.ordinal); }

  void* allocate(std::size_t bytes) override {
    const BesideCaptures<Runtime> beside;
    void* pointer = nullptr;
    Runtime::allocate(&pointer, bytes);
    return pointer;
  }
  void deallocate(void* pointer) noexcept override {
    const BesideCaptures<Runtime> beside;
    static_cast<void>(Runtime::free.status(pointer));
  }
  void* allocate_pinned(std::size_t bytes) override {
    const BesideCaptures<Runtime> beside;
    void* pointer = nullptr;
    Runtime::host_allocate(&pointer, bytes, Runtime::host_portable_and_mapped);
    std::memset(pointer, 0, bytes);
    return pointer;
  }
  void deallocate_pinned(void* pointer) noexcept override {
    static_cast<void>(Runtime::host_free.status(pointer));
  }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    Runtime::copy(to, from, bytes, Runtime::copy_any, at(stream));
  }
  void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) override {
    Runtime::fill(to, value, bytes, at(stream));
  }
  void zero(void* to, std::size_t bytes) override { gpu::zero<Runtime>(to, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override {
    on_own_stream<Runtime>(
        [&](Stream stream) { Runtime::copy(to, from, bytes, Runtime::copy_any, stream); });
  }
  void peek(std::span<const CopySpan> spans, NativeStream stream) override {
    const BesideCaptures<Runtime> beside;
    for (const CopySpan& span : spans) copy(span.to, span.from, span.bytes, stream);
    synchronize(stream);
  }

  std::vector<MemoryLimit> memory_limits() const override {
    return info_.facts.peer_access ? std::vector<MemoryLimit>() : host::memory_limits();
  }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t,
                                         Commit) override {
    if (info_.facts.peer_access) return Runtime::make_range(ranks, bytes, info_.ordinal);
    return std::make_shared<RegisteredRange<Runtime>>(ranks, bytes);
  }
  MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor) override {
    if (info_.facts.peer_access) return Runtime::offer(pointer, bytes, info_.ordinal, descriptor);
    throw Error(ErrorCode::unsupported,
                "no memory can be attached where devices do not reach each other's memory");
  }
  std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                         std::span<UniqueFd> descriptors) override {
    return Runtime::attach(rank, offers, descriptors, info_.ordinal);
  }
  std::uint64_t memory_number(const void* pointer, std::size_t) override {
    return Runtime::memory_number(pointer);
  }
  DmaBuf export_dma_buf(void* address, std::size_t bytes) override {
    return Runtime::export_dma_buf(address, bytes);
  }
  void use_host_memory() override {
    DeviceFacts& facts = info_.facts;
    facts.peer_access = false;
    // A bus may split wide accesses.
    facts.line_threads = 0;
    // Measured on H200 with fifth-generation PCIe: docs/tuning.md.
    facts.hop_us = 2;
    facts.signal_us = 4;
    facts.link_bandwidth = 40e3;
    facts.push_bandwidth = 28e3;
    facts.packet_bandwidth = 16e3;
    facts.copy_bandwidth = 16e3;  // not used: copy_engine needs peer access
  }

  const void* queue(NativeStream) noexcept override { return use_.get(); }
  bool names_one_stream(NativeStream stream) const noexcept override {
    return stream != Runtime::stream_per_thread();
  }
  NativeStream create_stream() override {
    Stream stream = nullptr;
    Runtime::stream_create(&stream, Runtime::stream_non_blocking);
    return stream;
  }
  void destroy_stream(NativeStream stream) noexcept override {
    // The next stream may get the same handle.
    if constexpr (!Runtime::identifies_streams) {
      static_cast<void>(Runtime::stream_synchronize.status(at(stream)));
    }
    static_cast<void>(Runtime::stream_destroy.status(at(stream)));
  }
  std::uint64_t identity(NativeStream stream) override {
    if constexpr (Runtime::identifies_streams) {
      unsigned long long number = 0;
      Runtime::stream_number(at(stream), &number);
      return number;
    } else {
      return Backend::identity(stream);
    }
  }
  void synchronize(NativeStream stream) override { Runtime::stream_synchronize(at(stream)); }
  bool is_done(NativeStream stream) override {
    const BesideCaptures<Runtime> beside;
    return is_ready(Runtime::stream_query, Runtime::stream_query.status(at(stream)));
  }
  void synchronize_device() override { Runtime::device_synchronize(); }
  bool is_capturing(NativeStream stream) override {
    auto status = Runtime::not_capturing;
    Runtime::stream_is_capturing(at(stream), &status);
    return status != Runtime::not_capturing;
  }
  bool captures_spread() const noexcept override { return true; }
  std::uint64_t capture(NativeStream stream) override {
    auto status = Runtime::not_capturing;
    unsigned long long number = 0;
    Runtime::stream_capture(at(stream), &status, &number);
    return number;
  }
  std::unique_ptr<DeviceEvent> create_event(bool timed) override {
    return std::make_unique<GpuEvent<Runtime>>(timed);
  }
  std::unique_ptr<DeviceEvent> borrow_event(void* native) override {
    return std::make_unique<GpuEvent<Runtime>>(static_cast<typename Runtime::Event>(native));
  }
  /// Relaxed, because one thread may capture the streams of several devices and make the graph of
  /// one before it has ended the next capture.
  void begin_capture(NativeStream stream) override {
    Runtime::stream_begin_capture(at(stream), Runtime::capture_relaxed);
  }
  std::unique_ptr<Graph> end_capture(NativeStream stream) override {
    typename Runtime::Graph graph = nullptr;
    Runtime::stream_end_capture(at(stream), &graph);
    return std::make_unique<GpuGraph<Runtime>>(graph);
  }
  void host_call(NativeStream stream, std::function<void()> function) override {
    // A graph would run the function again after it was destroyed.
    if (is_capturing(stream))
      throw Error(ErrorCode::unsupported, "calls of host functions can't be captured on GPUs");
    const auto run = [](void* pointer) {
      const std::unique_ptr<std::function<void()>> owned(
          static_cast<std::function<void()>*>(pointer));
      (*owned)();
    };
    auto owned = std::make_unique<std::function<void()>>(std::move(function));
    Runtime::launch_host_function(at(stream), run, owned.get());
    static_cast<void>(owned.release());  // `run` owns it now
  }

  KernelHandle find_kernel(std::string_view family, DataType type) const override {
    return KernelTable<Kernel>::instance().find(family, type);
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t,
              const Watch& watch, NativeStream stream) override {
    check(static_cast<const Kernel*>(kernel)->launch(shape, may_start_early(), args, watch,
                                                     at(stream)),
          "kernel launch");
  }
  double share(KernelHandle kernel, LaunchShape shape, const void* args) override {
    int per_multiprocessor = 0;
    check(static_cast<const Kernel*>(kernel)->blocks_per_multiprocessor(&per_multiprocessor,
                                                                        shape.threads, args),
          "blocks of a kernel that fit on a multiprocessor");
    if (per_multiprocessor == 0) return std::numeric_limits<double>::infinity();
    return static_cast<double>(shape.blocks) /
           (static_cast<double>(per_multiprocessor) * info_.facts.units);
  }
  void load_kernels() override {
    KernelTable<Kernel>::instance().for_each([](const auto& key, const Kernel& kernel) {
      check(kernel.load(),
            fmt::format("loading kernel {} for {}", key.first, name_of(key.second)).c_str());
    });
  }
  void load(KernelHandle kernel) override {
    const BesideCaptures<Runtime> beside;
    check(static_cast<const Kernel*>(kernel)->load(), "loading a kernel");
  }

  bool shows_profiler_ranges() override { return Runtime::shows_profiler_ranges(); }
  void begin_profiler_range(const char* name) override { Runtime::begin_profiler_range(name); }
  void end_profiler_range() noexcept override { Runtime::end_profiler_range(); }

 private:
  static Stream at(NativeStream stream) { return static_cast<Stream>(stream); }
  /// A kernel that was started early waits for the kernel ahead of it and already occupies places.
  /// A kernel of another communicator may need these places, and the kernel ahead may wait, through
  /// other ranks, for that one's end (docs/invariants.md, 1).
  bool may_start_early() const noexcept {
    return use_->communicators.load(std::memory_order_relaxed) <= 1;
  }

  DeviceInfo info_;
  std::shared_ptr<DeviceUse> use_;
};

/// The devices that this process can use, counted at the first question. `Runtime::label` names the
/// target in messages.
template <class Runtime>
class Devices {
 public:
  static int count() { return found().count; }
  static std::string why_none() { return found().reason; }

 private:
  struct Found {
    int count = 0;
    std::string reason;
  };
  /// A child made by fork can't use a runtime that its parent has initialised; CUDA's and HIP's
  /// runtime both say so.
  static const Found& found() {
    static const Origin asked;
    static const Found in_child{0, fmt::format("no {} device: this process was forked from one "
                                               "that has used them: exec, or fork before",
                                               Runtime::label)};
    static const Found result = [] {
      using Traits = StatusTraits<typename Runtime::Status>;
      Found f;
      const auto status = Runtime::get_device_count.status(&f.count);
      if (status != Traits::success) {
        Traits::forget();
        f = {0, fmt::format("no {} device: {}{}", Runtime::label, Traits::text(status),
                            Runtime::why_uncounted(status))};
      } else if (f.count == 0) {
        f.reason = fmt::format("no {} device", Runtime::label);
      }
      return f;
    }();
    if (result.count != 0 && !asked.is_here()) return in_child;
    return result;
  }
};

template <class Runtime>
BackendEntry backend_entry() {
  return {.kind = Runtime::kind,
          .device_count = Devices<Runtime>::count,
          .why_no_device = Devices<Runtime>::why_none,
          .open = [](int ordinal) -> std::unique_ptr<Backend> {
            return std::make_unique<GpuBackend<Runtime>>(ordinal);
          },
          .current_device =
              [] {
                int current = 0;
                Runtime::get_device(&current);
                return current;
              }};
}

}  // namespace plait::gpu
