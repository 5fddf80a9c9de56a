// The host-side interface of a target: memory, streams, events, graphs, launches. One object per
// rank and device.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "core/dma_buf.hpp"
#include "core/float_environment.hpp"
#include "core/unique_fd.hpp"
#include "plait/types.hpp"

namespace plait {

/// The facts that choices depend on. A target fills them in for a device; a communicator relies on
/// the weakest of its ranks' facts (`weaker`).
struct DeviceFacts {
  unsigned units = 1;  // multiprocessors; on the host, blocks that run at once
  // Threads per block: the default of kernels that have no better number, and the maximum.
  unsigned block_threads = 1;
  unsigned max_block_threads = 1;
  // Abilities of the device; backends/device/device.hpp explains most of them.
  int line_threads = 0;     // threads that move a Line in one access; 0: no lines
  bool peer_access = true;  // reaches other devices' memory; if not, symmetric memory is the host's
  bool indexed_arguments = false;  // kernels may index their arguments
  bool peer_reads = false;         // kernels may read ordinary memory of the other ranks' processes
  // Model of the links, for estimates; fitted to the machines that docs/tuning.md names, by
  // tools/fit_model.py. Bandwidths are in bytes per microsecond.
  double launch_us = 0;  // of a call in a graph, besides its hops
  double hop_us = 0;     // a packet, one way, until it has been read
  /// A block's signal, one way: release, flight, acquire, and the barriers of both blocks.
  double signal_us = 0;
  double link_bandwidth = 0;    // out of one device to all peers together
  double push_bandwidth = 0;    // the same for stores alone; loads are slower on most links
  double packet_bandwidth = 0;  // the same for flagged packets, flags included
  /// Time of a large copy to a peer beyond that of its bytes, in a row of copies on one stream.
  double copy_us = 0;
  double copy_bandwidth = 0;  // of such copies, to one peer at a time while all devices copy
  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

/// Facts about a rank's process that the ranks of a communicator exchange, for targets that run in
/// these processes.
struct ProcessFacts {
  std::int64_t process = 0;  // its number
  /// A word of its memory and the word's value. The other ranks use it to test whether they can
  /// read the memory of this process.
  std::uint64_t address = 0, value = 0;
  std::array<std::uint64_t, 16> processors{};  // one bit per processor that it may run on
  std::uint64_t quota = 0;                     // processors that it may keep busy; 0: all of them
};

/// The facts that hold for both devices: the weaker value of each.
DeviceFacts weaker(const DeviceFacts& a, const DeviceFacts& b);

/// Identity and facts of a device.
struct DeviceInfo {
  BackendKind backend = BackendKind::host;
  int ordinal = 0;
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90", "x86_64"
  std::string id;            // unique in the node: PCI address, or "host"
  std::size_t memory = 0;    // bytes
  DeviceFacts facts{};
};

/// A stream of the target (cudaStream_t, hipStream_t, HostStream*), not owned. Null is the device's
/// default stream; on the host, it is the default stream of the calling thread
/// (`Backend::resolve`).
using NativeStream = void*;

/// A point in a stream.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual void record(NativeStream stream) = 0;
  virtual bool done() = 0;
  /// The same for a caller that asks until it is: the work runs without a thread that waits for it.
  virtual bool test() { return done(); }
  virtual void synchronize() = 0;
  /// Makes `stream` wait for the last record; the host does not wait.
  virtual void wait_in(NativeStream stream) = 0;
  /// Milliseconds from `earlier` to this event; both must be done.
  virtual double milliseconds_since(const DeviceEvent& earlier) const = 0;
  /// The runtime's own event (cudaEvent_t, hipEvent_t); on the host a number of this object.
  virtual void* native() noexcept { return this; }
};

/// Captured work. Launching it again needs no planning; its parameters are those of the capture.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(NativeStream stream) = 0;
};

/// When the memory of a symmetric allocation is committed: all of it at creation, or each page when
/// it is first touched.
enum class Commit { at_once, on_touch };

/// One limit of the host memory that symmetric allocations use. Ranks that share a limit see the
/// same `id`.
struct MemoryLimit {
  std::uint64_t id;
  std::size_t left;            // bytes
  std::array<char, 112> name;  // for messages, ended by a zero
};

/// Symmetric memory: that of every rank, mapped into this process. The destructor unmaps
/// everything.
class SymmetricRange {
 public:
  virtual ~SymmetricRange() = default;
  /// Address of rank `rank`'s copy, once it was created or imported.
  virtual std::byte* address(int rank) const noexcept = 0;
  /// The view that kernels of rank `rank`, a rank of this process, get.
  virtual WindowView view(int rank) const noexcept = 0;
  /// Whether a page is committed when this rank or a peer touches it.
  virtual bool commits_on_touch() const noexcept { return false; }
  /// Bytes of rank `rank`'s copy that are committed now. Call it only where `commits_on_touch`.
  virtual std::size_t committed(int) const { return 0; }
};

/// Symmetric memory that the ranks allocate. It lives until the last rank has unmapped it.
class ReservedRange : public SymmetricRange {
 public:
  /// Creates this rank's memory, zeroed, and returns the descriptor that peers import. The peers'
  /// descriptors keep the memory alive.
  virtual UniqueFd create_local(int rank) = 0;
  /// Lets the devices that can reach this rank's memory get ready for it. Then a peer maps it in
  /// 0.05 ms, instead of 9.5 ms per GB (H200, driver 580.159, 2026-11-29).
  virtual void expect_peers(int /*rank*/) {}
  /// Maps a peer's memory. Throws `Error(no_peer_access)` if this device can't reach it. Messages
  /// don't name the peer.
  virtual void import_peer(int rank, UniqueFd descriptor) = 0;
};

/// The program's own memory, as its rank offers it to the others of its node, as bytes.
struct MemoryOffer {
  /// How other processes reach it: as a file, or memory of a device, whose descriptor goes beside
  /// the offer; by a handle of the device's runtime; by a descriptor and a handle; as a file that
  /// nobody can open any more, but that they may have mapped, too; or only by system calls that
  /// read and write another process's memory.
  enum class Way : std::uint32_t { descriptor, handle, both, mapped_file, system_calls };
  Way way{};
  std::int32_t ordinal = 0;              // its device
  std::uint64_t process = 0;             // that it belongs to; 0: not of this node
  std::uint64_t address = 0, bytes = 0;  // in that process
  std::uint64_t offset = 0, mapped = 0;  // of it in what others map, and the bytes of that
  std::uint64_t place = 0;               // of that in a file
  std::array<std::byte, 64> handle{};

  bool has_descriptor() const { return way == Way::descriptor || way == Way::both; }
};

/// State that all objects of this process for one device share.
struct DeviceUse {
  std::atomic<int> communicators = 0;  // living on the device
};
/// Returns the same object for the same device while any caller still holds it.
std::shared_ptr<DeviceUse> device_use(BackendKind kind, int ordinal);

/// A kernel that is compiled into this process for one target, ready to launch. Opaque; never
/// freed.
using KernelHandle = const void*;

/// One of the copies of `Backend::peek`.
struct CopySpan {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// All methods except `info`, `links_to`, `use`, `queue`, `resolve`, `is_per_thread`,
/// `names_one_stream`, `bind` and `restore` require that this device is the calling thread's
/// current one: see DeviceScope.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual DeviceUse& use() noexcept = 0;
  /// Another object for the same device, with the same streams. `use_host_memory` affects only the
  /// object that it is called on.
  virtual std::unique_ptr<Backend> again() const;
  /// Called once per communicator, before its facts are used: `meet` gets the `process_facts` of
  /// all ranks of this rank's node.
  virtual ProcessFacts process_facts() const { return {}; }
  virtual void meet(std::span<const ProcessFacts>) {}
  /// How many direct links (NVLink, XGMI) this device has to each of these devices of its node, by
  /// `DeviceInfo::id`. If both are behind a switch, they are all links to it. -1: unknown.
  virtual std::vector<int> links_to(std::span<const std::string> ids) const {
    return std::vector<int>(ids.size(), -1);
  }
  /// Makes this device the calling thread's current one and returns the previous one, which
  /// `restore` makes current again. See DeviceScope.
  virtual int bind() = 0;
  virtual void restore(int previous) noexcept = 0;
  /// Makes the device, and with it the driver's context, current in a thread of the library, for as
  /// long as that lives. `bind` does not: a new thread has device 0, but no context yet.
  virtual void enter() {}

  // Memory. Addresses are valid on this device. Pinned memory is also valid on the host, at the
  // same address.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;
  virtual void* allocate_zeroed(std::size_t bytes) {
    void* const memory = allocate(bytes);
    zero(memory, bytes);
    return memory;
  }
  virtual void* allocate_pinned(std::size_t bytes) = 0;  // zeroed
  virtual void deallocate_pinned(void* pointer) noexcept = 0;
  /// Copies between any mix of host and device.
  virtual void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) = 0;
  virtual void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) = 0;
  /// Fills device memory with zeros and waits only for that, not for kernels. Works while a stream
  /// is captured, too.
  virtual void zero(void* to, std::size_t bytes) = 0;
  /// Copies from the host's memory in the same manner.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  /// Copies 8-byte words of device memory, which kernels may be writing at the same time, to pinned
  /// memory and waits for the copies. Each word is as it was at some moment. `stream` is used for
  /// nothing else, so neither kernels that spin on other streams nor captures, even by this thread,
  /// matter.
  virtual void peek(std::span<const CopySpan> spans, NativeStream stream) = 0;
  /// A range for `ranks` ranks and `bytes` bytes per rank (rounded up to pages). `token` is equal
  /// on all ranks and never used twice. On the host target, ranks that are threads of one process
  /// share one range, so race checkers see one address per byte. `commit` is only a wish: device
  /// and pinned memory is always committed at once, and so is all memory on systems that could
  /// refuse a page when it is touched.
  virtual std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                                 Commit commit = Commit::at_once) = 0;
  /// Describes memory of the program. Sets `descriptor` if the offer has one. Throws
  /// Error(invalid_argument) with the reason if other ranks can't reach it.
  virtual MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor);
  /// Whether another process's offer can be mapped here.
  virtual bool can_map(const MemoryOffer& offer) const {
    return offer.way != MemoryOffer::Way::system_calls;
  }
  /// Maps what the ranks of this node offer; `rank` is this one. `descriptors`: of those that have
  /// one. All offers can be mapped, or are of this process.
  virtual std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                                 std::span<UniqueFd> descriptors);
  /// A number that the memory has as long as it is allocated; 0 if it is not. Later memory at the
  /// same addresses has another one. Takes a fraction of a microsecond.
  virtual std::uint64_t memory_number(const void*, std::size_t) { return 0; }
  /// Whether `reserve` honours `Commit::on_touch`.
  virtual bool commits_on_touch() const { return false; }
  /// The limits of the memory of `reserve`, where the system ends processes that commit too much.
  /// Empty where committing too much fails.
  virtual std::vector<MemoryLimit> memory_limits() const { return {}; }
  /// A part of this process's memory of a range on the device, for the driver of a network card. No
  /// descriptor if the target or the device can't export it.
  virtual DmaBuf export_dma_buf(void*, std::size_t) { return {}; }
  /// From now on `reserve` returns host memory, which all devices reach, and `info().facts`
  /// describe such memory. Earlier ranges stay as they are. Has no effect on the host target, where
  /// all memory is of this kind.
  virtual void use_host_memory() = 0;

  // Streams and graphs.
  /// Identifies the queue of launches on `stream`; compare it only. A launch may have to wait until
  /// the launches ahead of it in the same queue have ended. On a GPU all streams of the device
  /// share one queue; on the host, where each stream has its own threads, each stream is one.
  virtual const void* queue(NativeStream stream) noexcept = 0;
  /// A handle that names, in all threads, the stream that `stream` names in the calling thread. On
  /// the host, null names the thread's default stream. On GPUs null stays null, because the default
  /// stream belongs to the device. Idempotent.
  virtual NativeStream resolve(NativeStream stream) { return stream; }
  /// Whether a resolved stream is one thread's default stream: null names it in that thread only.
  virtual bool is_per_thread(NativeStream) const noexcept { return false; }
  /// A number that distinguishes a stream from earlier streams, which may have had the same handle.
  /// The stream must not be being captured, because cudaStreamGetId refuses that. Where the target
  /// has no such number, this is the handle; there, a stream that is not Plait's own must be idle
  /// when it is destroyed.
  virtual std::uint64_t identity(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  /// False if the handle stands for a different stream in each thread.
  virtual bool names_one_stream(NativeStream stream) const noexcept = 0;
  /// False if the handle stands for no stream, as after `destroy_stream`. Only the host target
  /// knows; a GPU's runtime checks its own handles.
  virtual bool is_live(NativeStream) const noexcept { return true; }
  virtual NativeStream create_stream() = 0;
  virtual void destroy_stream(NativeStream stream) noexcept = 0;
  virtual void synchronize(NativeStream stream) = 0;
  /// Whether all work of the stream has run, for a caller that asks until it has. Never waits.
  /// Throws what `synchronize` would. The stream must not be being captured.
  virtual bool is_done(NativeStream stream) = 0;
  virtual void synchronize_device() = 0;
  virtual bool is_capturing(NativeStream stream) = 0;
  /// Whether a stream that waits for a captured stream's event joins that capture until it ends.
  virtual bool captures_spread() const noexcept = 0;
  /// Where captures spread: a number that distinguishes the capture of `stream`, which must be
  /// being captured, from other captures, also earlier ones.
  virtual std::uint64_t capture(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  /// `timed`: `milliseconds_since` will be called on the event.
  virtual std::unique_ptr<DeviceEvent> create_event(bool timed = true) = 0;
  /// An event of the runtime's, not owned. Null where events are only Plait's.
  virtual std::unique_ptr<DeviceEvent> borrow_event(void*) { return nullptr; }
  virtual void begin_capture(NativeStream stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(NativeStream stream) = 0;
  /// Runs `function` on a host thread when the stream reaches it. `function` must not call this
  /// interface. GPU targets throw Error(unsupported) while the stream is captured.
  virtual void host_call(NativeStream stream, std::function<void()> function) = 0;

  // Kernels.
  /// The kernel of `family` (an algorithm's name) for `type`, or null.
  virtual KernelHandle find_kernel(std::string_view family, DataType type) const = 0;
  /// `args` is copied; at most `max_kernel_args` bytes. They may be fewer than the kernel's
  /// arguments have, if it does not read the rest; the memory has the whole size.
  virtual void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
                      const Watch& watch, NativeStream stream) = 0;
  /// The same and `synchronize`, if they are quicker together, on an idle stream. False: neither.
  virtual bool launch_and_wait(KernelHandle /*kernel*/, LaunchShape /*shape*/, const void* /*args*/,
                               std::size_t /*bytes*/, const Watch& /*watch*/, NativeStream) {
    return false;
  }
  /// The share of the device that a launch with these arguments occupies while all of its blocks
  /// run. If it is more than 1, the blocks can't all run at once. 0 where launches do not take
  /// places from each other.
  virtual double share(KernelHandle kernel, LaunchShape shape, const void* args) = 0;
  /// Loads every kernel onto the device, so no launch allocates while another kernel spins.
  virtual void load_kernels() = 0;
  /// The same for one, which may have come later.
  virtual void load(KernelHandle kernel) = 0;

  // Ranges in the profiler of the device's vendor. They nest per thread.
  /// Whether a profiler may see them. If not, the two below are not called.
  virtual bool shows_profiler_ranges() { return false; }
  virtual void begin_profiler_range(const char* /*name*/) {}
  virtual void end_profiler_range() noexcept {}
};

/// A communicator holds one for its lifetime.
class CommunicatorOnDevice {
 public:
  explicit CommunicatorOnDevice(Backend& backend) : use_(backend.use()) { ++use_.communicators; }
  ~CommunicatorOnDevice() { --use_.communicators; }
  CommunicatorOnDevice(const CommunicatorOnDevice&) = delete;
  CommunicatorOnDevice& operator=(const CommunicatorOnDevice&) = delete;

 private:
  DeviceUse& use_;
};

/// Every public entry holds one, because the caller's current device must not change, nor its
/// floating-point exception flags, of which a GPU's driver raises some. The host has no driver, and
/// its launches guard themselves.
class DeviceScope {
 public:
  explicit DeviceScope(Backend& backend) : backend_(backend) {
    if (backend.info().backend != BackendKind::host) defaults_.emplace();
    previous_ = backend.bind();
  }
  ~DeviceScope() { backend_.restore(previous_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Backend& backend_;
  std::optional<FloatEnvironment> defaults_;
  int previous_ = 0;
};

/// Number of devices of a target in this process; 0 if the target is not built in or has no device
/// or driver.
int device_count(BackendKind kind);
/// Why `device_count` is 0, in one sentence; empty if it is not 0.
std::string why_no_device(BackendKind kind);
/// The calling thread's current device, which is 0 on a target that has no such thing. Makes no
/// device's context.
int current_device(BackendKind kind);
bool is_built(BackendKind kind);
std::unique_ptr<Backend> open_backend(BackendKind kind, int ordinal);

// Each target's folder registers its functions for devices here; a target that is not built in
// registers none.
struct BackendEntry {
  BackendKind kind;
  int (*device_count)();
  std::string (*why_no_device)();
  std::unique_ptr<Backend> (*open)(int ordinal);
  int (*current_device)() = [] { return 0; };
};
class BackendRegistration {
 public:
  explicit BackendRegistration(const BackendEntry& entry);
};

}  // namespace plait
