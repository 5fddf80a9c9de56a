// The host-side interface of a target: memory, streams, events, graphs, launches. One object per
// rank and device.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "core/unique_fd.hpp"
#include "plait/types.hpp"

namespace plait {

/// What choices depend on. A target fills it in for a device; what a communicator may rely on is
/// the weakest of its ranks' (`weaker`).
struct DeviceFacts {
  unsigned units = 1;          // multiprocessors; blocks that run at once on the host
  unsigned block_threads = 1;  // threads a block that kernels should use unless they know better
  unsigned max_block_threads = 1;
  bool wide_packets = false;  // whether it has WidePackets (backends/device/device.hpp)
  int line_threads = 0;       // that move a Line to a peer and back in one access
                              // (backends/device/device.hpp); 0 if none can
  int bulk_threads = 0;       // that start a bulk copy together (BulkStaging of
                              // backends/device/device.hpp); 0 if there are none
  bool peer_access = true;    // whether it reaches the memory of other devices; if not, symmetric
                              // memory lies in host memory
  bool indexed_arguments =
      false;  // whether kernels may index their arguments (backends/device/device.hpp)
  bool peer_reads = false;  // whether kernels may read ordinary memory of the other ranks'
                            // processes (backends/device/device.hpp)
  // Model of the links, for estimates; measured on the machines that docs/tuning.md names.
  double launch_us = 0;  // from one kernel to the next in a graph
  double hop_us = 0;     // a packet, one way, until it has been read
  double signal_us = 0;  // a block's signal, one way: release, flight, acquire, and the threads of
                         // both blocks brought together
  double link_bandwidth = 0;    // bytes a microsecond out of one device, all peers together
  double push_bandwidth = 0;    // the same for stores alone; loads are slower on most links
  double packet_bandwidth = 0;  // the same for flagged packets, flags included
  double copy_us =
      0;  // what a large copy to a peer takes beyond its bytes, in a row of them on one stream
  double copy_bandwidth = 0;  // of such copies, to one peer at a time while all devices copy
  friend bool operator==(const DeviceFacts&, const DeviceFacts&) = default;
};

/// What the ranks of a communicator tell each other of their processes, for targets that run in
/// them.
struct ProcessFacts {
  std::int64_t process = 0;  // its number
  std::uint64_t address = 0,
                value = 0;  // a word of its memory, by which others try whether they can read that
  std::array<std::uint64_t, 16> processors{};  // those that it may run on, a bit each
  std::uint64_t quota = 0;  // as many processors it may keep busy; 0: all of them
};

/// What two devices have in common: of each fact the weaker.
DeviceFacts weaker(const DeviceFacts& a, const DeviceFacts& b);

/// Which device it is, and what.
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
/// default stream; on the host, that of the thread that passes it (`Backend::resolve`).
using NativeStream = void*;

/// A point in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(NativeStream stream) = 0;
  virtual bool done() = 0;
  virtual void synchronize() = 0;
  /// Makes `stream` wait for the last record, without the host waiting.
  virtual void wait_in(NativeStream stream) = 0;
  /// Milliseconds from `earlier` to this event; both must be done.
  virtual double milliseconds_since(const Event& earlier) const = 0;
};

/// Captured work. Launching it again needs no planning; parameters are those of the capture.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(NativeStream stream) = 0;
};

/// When the memory of a symmetric allocation is set aside: all of it when it is made, or each page
/// when it is first touched.
enum class Commit { at_once, on_touch };

/// One limit of the host memory that symmetric allocations take. Ranks that share it have the same
/// `id`.
struct MemoryLimit {
  std::uint64_t id;
  std::size_t left;            // bytes
  std::array<char, 112> name;  // for messages, ended by a zero
};

/// A symmetric allocation: the memory of every rank, mapped into this process.
/// Unmaps everything when destroyed; the memory itself lives until the last rank has unmapped it.
class SymmetricRange {
 public:
  virtual ~SymmetricRange() = default;
  /// Where rank `rank`'s copy lies, once it was created or imported.
  virtual std::byte* address(int rank) const noexcept = 0;
  /// What kernels of rank `rank` of this process get.
  virtual WindowView view(int rank) const noexcept = 0;
  /// Creates the memory of this rank, zeroed, and returns the descriptor that peers import: theirs
  /// keeps the memory alive.
  virtual UniqueFd create_local(int rank) = 0;
  /// Maps a peer's memory. Throws `Error(no_peer_access)` if this device can't reach it.
  virtual void import_peer(int rank, UniqueFd descriptor) = 0;
  /// Whether pages are committed when they are touched, by this rank or a peer.
  virtual bool commits_on_touch() const noexcept { return false; }
  /// How many bytes of rank `rank`'s copy are committed now; only where `commits_on_touch`.
  virtual std::size_t committed(int) const { return 0; }
};

/// What all objects of this process for one device know of each other.
struct DeviceUse {
  std::atomic<int> communicators = 0;  // that live on the device
};
/// The same for the same device, as long as somebody holds it.
std::shared_ptr<DeviceUse> device_use(BackendKind kind, int ordinal);

/// A kernel that is compiled into this process for one target, ready to launch. Opaque; never
/// freed.
using KernelHandle = const void*;

/// One copy of several.
struct CopySpan {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// All methods but `info`, `use`, `queue`, `resolve`, `is_of_a_thread`, `names_one_stream`, `bind`
/// and `restore` want this device to be the thread's current one: see DeviceScope.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual DeviceUse& use() noexcept = 0;
  /// Another object for the same device, with the same streams. `use_host_memory` of one is not
  /// that of the other.
  virtual std::unique_ptr<Backend> again() const;
  /// Once for a communicator, before the facts are asked for: each rank's `process_facts` reach
  /// all. By then its ranks are known to be on one node.
  virtual ProcessFacts process_facts() const { return {}; }
  virtual void meet(std::span<const ProcessFacts>) {}
  /// Makes this device the calling thread's current one, and returns which was; `restore` makes
  /// that current again. See DeviceScope.
  virtual int bind() = 0;
  virtual void restore(int previous) noexcept = 0;

  // Memory. Addresses are valid on this device; pinned memory also on the host, at the same
  // address.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;  // zeroed
  virtual void deallocate_pinned(void* pointer) noexcept = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes,
                    NativeStream stream) = 0;  // any mix of host and device
  virtual void fill(void* to, unsigned char value, std::size_t bytes, NativeStream stream) = 0;
  /// Fills device memory with zeros and waits for that alone: not for kernels, and also while a
  /// stream is captured.
  virtual void zero(void* to, std::size_t bytes) = 0;
  /// Copies 8-byte words of device memory that kernels may be writing just now to pinned memory,
  /// each word as it was at some moment, and waits for that. `stream` is kept for this alone, so
  /// kernels that spin on other streams don't matter; nor do captures, also by this thread.
  virtual void peek(std::span<const CopySpan> spans, NativeStream stream) = 0;
  /// A range for `ranks` ranks and `bytes` bytes each (rounded up to pages). `token` is the same on
  /// all ranks and never used twice: ranks that are threads of one process share one range on the
  /// host target, so that race checkers see one address for one byte. `commit`: a wish. Device and
  /// pinned memory is always committed at once, and so is all memory where the system would refuse
  /// a page only when it is touched.
  virtual std::shared_ptr<SymmetricRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                                  Commit commit = Commit::at_once) = 0;
  /// Whether `reserve` fulfils the wish for memory that is committed as it is touched.
  virtual bool commits_on_touch() const { return false; }
  /// What limits the memory of `reserve`: where committing too much ends processes instead of
  /// failing. Empty where it fails.
  virtual std::vector<MemoryLimit> memory_limits() const { return {}; }
  /// From now on `reserve` gives host memory, which all devices reach, and `info().facts` are those
  /// of such memory. What was reserved before stays as it is. Nothing changes on the host target,
  /// where all memory is like that.
  virtual void use_host_memory() = 0;

  // Streams and graphs.
  /// Where launches on `stream` queue up, for comparison alone: one may wait until those ahead of
  /// it in the same queue have ended. On a GPU that is all of the device, whatever the stream; on
  /// the host, where streams have threads of their own, only the stream.
  virtual const void* queue(NativeStream stream) noexcept = 0;
  /// What `stream` is for the calling thread: a handle that stands for the same stream in all
  /// threads. Null is a stream of the thread's own on the host, and stays null on GPUs, where the
  /// default stream is the device's. Idempotent.
  virtual NativeStream resolve(NativeStream stream) { return stream; }
  /// Whether a stream that was resolved is what null stands for in one thread, and not in all.
  virtual bool is_of_a_thread(NativeStream) const noexcept { return false; }
  /// Tells a stream, which must not be being captured (cudaStreamGetId refuses then), from earlier
  /// ones, whose handle it may have. Where the target has no such number, it is the handle; there a
  /// stream that is not Plait's own must be idle when it is destroyed.
  virtual std::uint64_t identity(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  /// False of a handle that stands for another stream in each thread.
  virtual bool names_one_stream(NativeStream stream) const noexcept = 0;
  /// False of a handle that stands for no stream, as after `destroy_stream`. Only the host target
  /// knows: a GPU's runtime looks after its own.
  virtual bool is_live(NativeStream) const noexcept { return true; }
  virtual NativeStream create_stream() = 0;
  virtual void destroy_stream(NativeStream stream) noexcept = 0;
  virtual void synchronize(NativeStream stream) = 0;
  virtual void synchronize_device() = 0;
  virtual bool is_capturing(NativeStream stream) = 0;
  /// Whether a stream that waits for an event of a captured one is captured with it, until the
  /// capture ends.
  virtual bool captures_spread() const noexcept = 0;
  /// Where captures spread, of a stream that is being captured: tells its capture from others, also
  /// from earlier ones.
  virtual std::uint64_t capture(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  /// `timed`: whether `milliseconds_since` will be asked of it.
  virtual std::unique_ptr<Event> create_event(bool timed = true) = 0;
  virtual void begin_capture(NativeStream stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(NativeStream stream) = 0;
  /// Runs `function` on a host thread when the stream reaches it; it must not call this interface.
  /// GPU targets throw Error(unsupported) while the stream is captured.
  virtual void host_call(NativeStream stream, std::function<void()> function) = 0;

  // Kernels.
  /// The kernel of `family` (an algorithm's name) for `type`, or null.
  virtual KernelHandle find_kernel(std::string_view family, DataType type) const = 0;
  /// `args` is copied; at most `max_kernel_args` bytes.
  virtual void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
                      const Watch& watch, NativeStream stream) = 0;
  /// The part of the device that `launch` with the same arguments takes while all of its blocks
  /// run: more than 1, and they don't run all at once. 0 where launches do not take places from
  /// each other.
  virtual double share(KernelHandle kernel, LaunchShape shape, const void* args) = 0;
  /// Loads every kernel onto the device, so that no launch allocates while another kernel spins.
  virtual void load_kernels() = 0;
};

/// Held by a communicator for its life.
class CommunicatorOnDevice {
 public:
  explicit CommunicatorOnDevice(Backend& backend) : use_(backend.use()) { ++use_.communicators; }
  ~CommunicatorOnDevice() { --use_.communicators; }
  CommunicatorOnDevice(const CommunicatorOnDevice&) = delete;
  CommunicatorOnDevice& operator=(const CommunicatorOnDevice&) = delete;

 private:
  DeviceUse& use_;
};

/// Held at every public entry: a caller's current device is not ours to change.
class DeviceScope {
 public:
  explicit DeviceScope(Backend& backend) : backend_(backend), previous_(backend.bind()) {}
  ~DeviceScope() { backend_.restore(previous_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Backend& backend_;
  int previous_;
};

/// Devices of a target in this process; 0 if the target is not built in or has no device or driver.
int device_count(BackendKind kind);
/// Why `device_count` is 0, in one sentence; empty if it is not.
std::string why_no_device(BackendKind kind);
bool is_built(BackendKind kind);
std::unique_ptr<Backend> open_backend(BackendKind kind, int ordinal);

// What each target's folder provides to the functions of devices above; a target that is not built
// in registers none.
struct BackendEntry {
  BackendKind kind;
  int (*device_count)();
  std::string (*why_no_device)();
  std::unique_ptr<Backend> (*open)(int ordinal);
};
class BackendRegistration {
 public:
  explicit BackendRegistration(const BackendEntry& entry);
};

}  // namespace plait
