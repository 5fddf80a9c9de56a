// The host target: ranks are processes or threads, memory is shared through nameless files, and
// kernels run on CPU threads.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "backends/backend.hpp"
#include "backends/host/host_device.hpp"
#include "backends/host/host_kernels.hpp"
#include "backends/host/host_pool.hpp"
#include "backends/host/host_range.hpp"
#include "backends/host/host_stream.hpp"
#include "backends/host/memory_limits.hpp"
#include "backends/host/processes.hpp"
#include "backends/host/program_memory.hpp"
#include "plait/error.hpp"

namespace plait {
template <>
KernelTable<host::HostKernel>& KernelTable<host::HostKernel>::instance() {
  static KernelTable table;
  return table;
}
}  // namespace plait

namespace plait::host {
namespace {

class HostGraph final : public Graph {
 public:
  HostGraph(std::shared_ptr<HostDevice> device, std::shared_ptr<TaskList> list)
      : device_(std::move(device)), list_(std::move(list)) {}
  void launch(NativeStream stream) override {
    device_->at(stream).push([list = list_](HostStream& running) {
      for (const Task& task : *list) task(running);
    });
  }

 private:
  std::shared_ptr<HostDevice> device_;
  std::shared_ptr<TaskList> list_;
};

/// A point in a stream: the number of tasks before it, which costs the stream nothing. An event
/// that is recorded during a capture is a task instead, so every replay records it anew. A timed
/// event is both.
class HostEvent final : public DeviceEvent {
 public:
  HostEvent(std::shared_ptr<HostDevice> device, bool timed)
      : device_(std::move(device)), timed_(timed) {}
  void record(NativeStream native) override {
    HostStream& stream = device_->at(native);
    const bool captured = stream.is_capturing();
    if (captured) ++captured_;
    if (captured || timed_)
      stream.push([state = state_, number = captured_](HostStream&) { state->reach(number); });
    if (captured) {
      progress_.reset();
    } else {
      if (progress_ != stream.progress()) progress_ = stream.progress();
      point_ = stream.end();
    }
  }
  bool done() override {
    if (progress_) return progress_->done() >= point_;
    const std::lock_guard lock(state_->mutex);
    return state_->reached >= captured_;
  }
  bool test() override { return progress_ ? progress_->test(point_) : done(); }
  void synchronize() override {
    if (progress_) progress_->wait_for(point_);
    else state_->wait_for(captured_);
  }
  void wait_in(NativeStream native) override {
    HostStream& stream = device_->at(native);
    if (!progress_)
      return stream.push(
          [state = state_, number = captured_](HostStream&) { state->wait_for(number); });
    if (done() || (progress_ == stream.progress() && !stream.is_capturing())) return;
    stream.push([progress = progress_, point = point_](HostStream&) { progress->wait_for(point); });
  }
  double milliseconds_since(const DeviceEvent& earlier) const override {
    const auto& other = dynamic_cast<const HostEvent&>(earlier);
    const std::scoped_lock lock(state_->mutex, other.state_->mutex);
    return std::chrono::duration<double, std::milli>(state_->time - other.state_->time).count();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t reached = 0;
    std::chrono::steady_clock::time_point time;

    void reach(std::uint64_t number) {
      const std::lock_guard lock(mutex);
      reached = std::max(reached, number);
      time = std::chrono::steady_clock::now();
      changed.notify_all();
    }
    void wait_for(std::uint64_t number) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return reached >= number; });
    }
  };

  std::shared_ptr<HostDevice> device_;
  bool timed_;
  /// Null: the last record was captured, or there was none.
  std::shared_ptr<StreamProgress> progress_;
  std::uint64_t point_ = 0;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::uint64_t captured_ = 0;
};

constexpr std::size_t cache_line = 64;
/// Bytes of private memory from which on the system commits page by page.
constexpr std::size_t least_mapped = std::size_t{1} << 20;

class HostBackend final : public Backend {
 public:
  explicit HostBackend(int ordinal) : device_(host_device(ordinal)) {
    struct sysinfo system {};
    sysinfo(&system);
    info_ = {
      .backend = BackendKind::host,
      .ordinal = ordinal,
      .name = "CPU",
      .architecture =
#if defined(__x86_64__)
          "x86_64",
#elif defined(__aarch64__)
          "aarch64",
#else
          "cpu",
#endif
      .id = "host",
      .memory = std::size_t{system.totalram} * system.mem_unit,
      .facts = {.units = settings().workers,
                .block_threads = settings().block_threads,
                .max_block_threads = 64,
                .line_threads = 1,
                .indexed_arguments = true,
                .launch_us = 0.1,
                .hop_us = 0.2,
                .signal_us = 0.26,
                .link_bandwidth = 16e3,
                .push_bandwidth = 4.5e3,  // slots take the data through memory once more
                .packet_bandwidth = 1.2e3,
                .copy_us = 0.2,
                .copy_bandwidth = 11e3},
    };
  }

  const DeviceInfo& info() const noexcept override { return info_; }
  DeviceUse& use() noexcept override { return device_->use(); }
  std::unique_ptr<Backend> again() const override {
    auto other = std::make_unique<HostBackend>(info_.ordinal);
    other->spins_ = spins_;  // the ranks of this communicator still compete for the cores
    return other;
  }
  ProcessFacts process_facts() const override { return host::process_facts(); }
  void meet(std::span<const ProcessFacts> processes) override {
    info_.facts.peer_reads = settings().peer_reads && can_read(processes);
    spins_ = settings().spins.value_or(
        std::min(spins_, spins_for(processes, settings().workers * settings().block_threads)));
  }
  int bind() override { return 0; }
  void restore(int) noexcept override {}

  void* allocate(std::size_t bytes) override { return allocate_zeroed(bytes); }
  /// Lines that nothing else uses. The system commits the pages of large ones when they are
  /// touched.
  void* allocate_zeroed(std::size_t bytes) override {
    const std::size_t whole = bytes + 2 * cache_line;
    void* memory = nullptr;
    if (whole < least_mapped) {
      memory = std::aligned_alloc(cache_line, (whole + cache_line - 1) / cache_line * cache_line);
      if (memory != nullptr) std::memset(memory, 0, whole);
    } else {
      memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) memory = nullptr;
    }
    if (memory == nullptr)
      throw Error(ErrorCode::out_of_memory, fmt::format("out of memory: {} bytes", bytes));
    *static_cast<std::size_t*>(memory) = whole;
    return static_cast<std::byte*>(memory) + cache_line;
  }
  void deallocate(void* pointer) noexcept override {
    if (pointer == nullptr) return;
    void* const memory = static_cast<std::byte*>(pointer) - cache_line;
    const std::size_t whole = *static_cast<std::size_t*>(memory);
    if (whole < least_mapped) std::free(memory);
    else munmap(memory, whole);
  }
  void* allocate_pinned(std::size_t bytes) override { return allocate_zeroed(bytes); }
  void deallocate_pinned(void* pointer) noexcept override { deallocate(pointer); }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    if (bytes != 0) at(stream).push([=](HostStream&) { std::memmove(to, from, bytes); });
  }
  void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) override {
    if (bytes != 0) at(stream).push([=](HostStream&) { std::memset(to, value, bytes); });
  }
  void zero(void* to, std::size_t bytes) override { std::memset(to, 0, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void peek(std::span<const CopySpan> spans, NativeStream) override {
    for (const CopySpan& span : spans)
      for (std::size_t i = 0; i < span.bytes / sizeof(std::uint64_t); ++i)
        static_cast<std::uint64_t*>(span.to)[i] =
            std::atomic_ref(
                const_cast<std::uint64_t*>(static_cast<const std::uint64_t*>(span.from))[i])
                .load(std::memory_order_relaxed);
  }
  std::vector<MemoryLimit> memory_limits() const override { return host::memory_limits(); }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit commit) override {
    return shared_range(ranks, bytes, token, commit);
  }
  MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor) override {
    return host::offer(pointer, bytes, descriptor);
  }
  bool can_map(const MemoryOffer& offer) const override { return host::can_map(offer); }
  std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                         std::span<UniqueFd> descriptors) override {
    return host::attach(rank, offers, descriptors);
  }
  std::uint64_t memory_number(const void* pointer, std::size_t bytes) override {
    return host::memory_number(pointer, bytes);
  }
  bool commits_on_touch() const override { return !accounts_strictly(); }
  void use_host_memory() noexcept override {}

  const void* queue(NativeStream stream) noexcept override { return &at(stream); }
  NativeStream resolve(NativeStream stream) override { return device_->resolve(stream); }
  bool is_per_thread(NativeStream stream) const noexcept override {
    return HostDevice::is_default(stream);
  }
  bool names_one_stream(NativeStream) const noexcept override { return true; }
  bool is_live(NativeStream stream) const noexcept override { return host::is_live(stream); }
  NativeStream create_stream() override { return device_->create_stream(); }
  void destroy_stream(NativeStream stream) noexcept override { device_->destroy_stream(stream); }
  void synchronize(NativeStream stream) override { device_->synchronize(stream); }
  bool is_done(NativeStream stream) override { return at(stream).test(); }
  void synchronize_device() override { device_->finish(); }
  bool is_capturing(NativeStream stream) override { return at(stream).is_capturing(); }
  /// A capture is the list of one stream's tasks.
  bool captures_spread() const noexcept override { return false; }
  std::unique_ptr<DeviceEvent> create_event(bool timed) override {
    return std::make_unique<HostEvent>(device_, timed);
  }
  void begin_capture(NativeStream stream) override { at(stream).begin_capture(); }
  std::unique_ptr<Graph> end_capture(NativeStream stream) override {
    return std::make_unique<HostGraph>(device_, at(stream).end_capture());
  }
  void host_call(NativeStream stream, std::function<void()> function) override {
    at(stream).push(
        [function = std::move(function)](HostStream& running) { running.call(function); });
  }

  KernelHandle find_kernel(std::string_view family, DataType type) const override {
    return KernelTable<HostKernel>::instance().find(family, type);
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    Launch launch{*static_cast<const HostKernel*>(kernel), shape, watch};
    launch.watch.spins = spins_;
    at(stream).push(launch, args, bytes);
  }
  bool launch_and_wait(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
                       const Watch& watch, NativeStream stream) override {
    return at(stream).run([&](HostStream& running) {
      alignas(Launch) std::byte memory[sizeof(Launch) + max_kernel_args];
      Launch* const launch =
          new (memory) Launch{*static_cast<const HostKernel*>(kernel), shape, watch};
      launch->watch.spins = spins_;
      std::memcpy(launch->args(), args, bytes);
      running.pool().run(*launch);
    });
  }
  /// Launches take no places from each other, because each stream has its own threads.
  double share(KernelHandle, LaunchShape, const void*) override { return 0; }
  void load_kernels() override {}  // the process contains them
  void load(KernelHandle) override {}

 private:
  HostStream& at(NativeStream stream) { return device_->at(stream); }

  DeviceInfo info_;
  std::shared_ptr<HostDevice> device_;
  unsigned spins_ = 1000;
};

const BackendRegistration registration({.kind = BackendKind::host,
                                        .device_count = [] { return 1; },
                                        .why_no_device = [] { return std::string(); },
                                        .open = [](int ordinal) -> std::unique_ptr<Backend> {
                                          return std::make_unique<HostBackend>(ordinal);
                                        }});

}  // namespace
}  // namespace plait::host
