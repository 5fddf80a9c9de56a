// What an algorithm is: one object, registered once, found by name. Nothing outside its folder
// knows it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/contract/registration.hpp"
#include "algorithms/contract/side_stream.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "backends/backend.hpp"
#include "backends/device/launch_types.hpp"
#include "backends/device/pack.hpp"
#include "plait/call.hpp"
#include "plait/types.hpp"

namespace plait {

/// What all ranks know of the group and its links: the weakest of its devices. Equal on every rank,
/// so that choices made from it are.
struct Topology : DeviceFacts {
  BackendKind backend = BackendKind::host;
  int ranks = 1;
  std::string architecture{};     // of every device, "mixed" if they differ
  std::size_t scratch_limit = 0;  // bytes a rank of which algorithms take shares:
                                  // PLAIT_SCRATCH_BYTES, or a little less (scratch_within)
  std::size_t base_limit = 0;     // bytes a rank that are committed at creation, the rest by calls
                                  // that need it; 0: all at creation
};

/// Yes, or a printable reason why not.
class Support {
 public:
  Support() = default;
  static Support no(std::string reason) {
    Support support;
    support.reason_ = std::move(reason);
    return support;
  }
  explicit operator bool() const noexcept { return reason_.empty(); }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

/// Memory an algorithm keeps for the life of a communicator. All of it starts zeroed; nobody else
/// touches it.
struct Resources {
  std::size_t scratch_bytes = 0;  // symmetric: peers write here
  std::size_t signals = 0;        // symmetric 32-bit words: flags and counters that peers write
  std::size_t counters = 0;  // 32-bit words of this rank alone: epochs, private copies of counters
  friend bool operator==(const Resources&, const Resources&) = default;
};

/// Memory that several algorithms use one after the other: all that give the same name are granted
/// the same. They keep it in one form, and ask for the same amount.
struct SharedResources {
  std::string_view name;  // empty: none
  Resources resources;
};

/// The memory that was asked for.
struct Grant {
  WindowView scratch;
  WindowView signals;
  std::uint32_t* counters = nullptr;
};

/// An algorithm's own memory, and what it shares.
struct AlgorithmGrant {
  Grant own, shared;
  std::optional<Grant> reserved;  // `Algorithm::shared_once_reserved`
};

/// The pointers of one rank's call, and its peer. Deliberately apart from `Call`: what may differ
/// between ranks can't influence a choice.
struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
  int peer = -1;  // of send_recv, where one of the two pointers is null: this end of the message
  WindowView send_window,
      recv_window;  // of symmetric buffers: peer_ptr(r) is rank r's send and recv, in kernels
  const SymmetricRange *send_range = nullptr, *recv_range = nullptr;
  std::size_t send_offset = 0, recv_offset = 0;  // in the ranges

  // Rank r's buffers of a symmetric call, for copies: `peer_ptr` may look into device memory.
  const std::byte* peer_send(int rank, std::size_t offset) const {
    return send_range->address(rank) + send_offset + offset;
  }
  std::byte* peer_recv(int rank, std::size_t offset) const {
    return recv_range->address(rank) + recv_offset + offset;
  }
};

/// The kernels that a communicator has launched last, so that a small call does not search the
/// table of all.
class KernelCache {
 public:
  /// As Backend::find_kernel.
  KernelHandle find(const Backend& backend, std::string_view family, DataType type) {
    const std::size_t ends = family.empty() ? 0
                                            : static_cast<unsigned char>(family.front()) +
                                                  static_cast<unsigned char>(family.back());
    Entry& entry =
        entries_[(family.size() * 7 + ends * 3 + static_cast<std::size_t>(type)) % entries_.size()];
    if (entry.kernel == nullptr || entry.type != type || entry.family != family)
      entry = {std::string(family), type, backend.find_kernel(family, type)};
    return entry.kernel;
  }

 private:
  struct Entry {
    std::string family;
    DataType type{};
    KernelHandle kernel = nullptr;
  };
  std::array<Entry, 32> entries_;
};

/// What launches of a communicator have in common.
struct LaunchSetting {
  Backend& backend;
  KernelCache& kernels;
  const Topology& topology;
  int rank;
  std::int64_t process;
  WorkMemory& work;
  Statistics& statistics;
};

/// Everything an algorithm needs to launch on one rank.
class LaunchContext {
 public:
  LaunchContext(const LaunchSetting& setting, NativeStream stream, bool captured, SideStream& side,
                const AlgorithmGrant& grant, const Watch& watch)
      : setting_(setting),
        stream_(stream),
        captured_(captured),
        side_(side),
        grant_(grant),
        watch_(watch) {}

  int rank() const noexcept { return setting_.rank; }
  int ranks() const noexcept { return setting_.topology.ranks; }
  /// Number of this rank's process.
  std::int64_t process() const noexcept { return setting_.process; }
  const Topology& topology() const noexcept { return setting_.topology; }
  const Grant& grant() const noexcept { return grant_.own; }
  const Grant& shared() const noexcept { return grant_.shared; }
  /// What `shared_once_reserved` asks for; null before.
  const Grant* reserved() const noexcept { return grant_.reserved ? &*grant_.reserved : nullptr; }

  /// Launches the kernel of `family` (an algorithm's folder) for `type` on the call's stream.
  template <class Args>
  void launch(std::string_view family, DataType type, LaunchShape shape, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= max_kernel_args);
    launch_bytes(family, type, shape, &args, sizeof(Args));
  }

  /// The most bytes of work that one launch can have.
  std::size_t most_work() const noexcept { return setting_.work.most_bytes(); }
  /// Where the kernel of the next launch finds a copy of `work`, at a multiple of 16 bytes: null if
  /// it was copied to `few`, a part of the launch's arguments, because it fits there and kernels
  /// can index that. `messages`: how many it is for.
  const std::byte* place(std::span<const std::byte> work, std::span<std::byte> few,
                         std::size_t messages) {
    if (!setting_.topology.indexed_arguments) few = {};
    return setting_.work.place(work, few, messages, captured_);
  }

  /// Copies between own and peers' memory on the call's stream, by the copy engines where the
  /// target has them. A copy does not look whether the communicator is broken: it runs also after a
  /// wait before it has given up.
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes != 0) setting_.backend.copy(to, from, bytes, stream_);
  }

  /// Both functions launch and copy through this context: what `beside` enqueues runs beside what
  /// `main` enqueues, after everything before, and the call goes on when both are done. Targets may
  /// run them one after the other, `beside` first, so nothing in `beside` may wait, on any rank,
  /// for what `main` enqueues.
  template <class Beside, class Main>
  void at_once(Beside beside, Main main) {
    const NativeStream stream = std::exchange(stream_, side_.fork(stream_));
    beside();
    stream_ = stream;
    main();
    side_.join(stream_);
  }

 private:
  void launch_bytes(std::string_view family, DataType type, LaunchShape shape, const void* args,
                    std::size_t bytes);

  const LaunchSetting& setting_;
  NativeStream stream_;
  bool captured_;
  SideStream& side_;
  const AlgorithmGrant& grant_;
  const Watch& watch_;
};

class Algorithm;

/// A call that shares launches with others.
struct BatchedCall {
  const Call* call;
  const Buffers* buffers;
  const Algorithm* algorithm;  // of send_recv: each message's own, all of one family; else the one
                               // that is called
  LaunchShape shape;           // of send_recv
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual std::string_view name() const = 0;
  /// Algorithms of one collective that give the same share their memory and, if they are
  /// send_recv's, launches.
  virtual std::string_view family() const { return name(); }
  virtual Collective collective() const = 0;
  /// One line for tables: what moves where.
  virtual std::string_view summary() const = 0;
  virtual Support supports(const Call& call, const Topology& topology) const = 0;
  virtual Resources resources(const Topology& topology) const = 0;
  virtual SharedResources shared(const Topology&) const { return {}; }
  /// What it uses instead of `shared` after Communicator::reserve, where that is more than there
  /// was before (`Topology::base_limit`). For messages, whose ends find no other moment from which
  /// both have it.
  virtual SharedResources shared_once_reserved(const Topology&) const { return {}; }
  /// Launch shapes worth trying for this call, the best guess first; never empty for a call that is
  /// supported.
  virtual std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const = 0;
  /// What it makes of a shape, of its own or of the user's: only such ones are enqueued.
  virtual LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const {
    return shape;
  }
  /// Latency-bandwidth prior, microseconds. Infinite: it is taken only by who names it.
  virtual double estimate(const Call& call, const Topology& topology) const = 0;
  /// Enqueues the call. No allocation on the device, no communication on the host, no
  /// synchronisation: safe in a graph.
  virtual void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
                       LaunchContext& context) const = 0;

  /// Whether `enqueue_batch` is there. Then it serves all calls that `supports` likes.
  virtual bool batches(const Topology&) const { return false; }
  /// Enqueues several calls of one type, operation and scale, in as few launches as possible. They
  /// are disjoint: the order doesn't matter, but must be the same on all ranks. As `enqueue`
  /// otherwise. Algorithms of send_recv have this alone: `calls` are ends of messages, of any
  /// types, and ranks have different ones. The messages from one rank to another are in the same
  /// order on both.
  virtual void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const;
};

/// The algorithms of this process, in order of name, then of collective. They are registered before
/// `main` and, once somebody asks for them, by plug-ins (algorithms/contract/plugins.hpp): the
/// first one to ask gets the errors of those.
class Registry {
 public:
  static Registry& instance();
  /// Throws Error(invalid_argument) if the collective has an algorithm of that name. Algorithms of
  /// several collectives may share one.
  void add(std::unique_ptr<Algorithm> algorithm);
  const Algorithm* find(std::string_view name,
                        Collective collective = Collective::all_reduce) const;
  std::span<const std::unique_ptr<Algorithm>> all() const;
  /// The program's or plug-in's file that it comes from; empty for the library's own.
  const std::string& file_of(const Algorithm& algorithm) const { return files_.at(&algorithm); }
  /// Whether some come from that file.
  bool has_from(std::string_view file) const;
  std::size_t size() const noexcept { return algorithms_.size(); }

 private:
  const Algorithm* known(std::string_view name, Collective collective) const;

  std::vector<std::unique_ptr<Algorithm>> algorithms_;
  std::map<const Algorithm*, std::string> files_;
};

/// `static const AlgorithmRegistration<Ring> registration;` in the algorithm's own .cpp is all it
/// takes.
template <class A>
struct AlgorithmRegistration {
  AlgorithmRegistration() {
    plait_register(PLAIT_VERSION, [] { Registry::instance().add(std::make_unique<A>()); });
  }
};

/// The same for an algorithm of several collectives: `A(collective)` for each of the array.
template <class A, const auto& Collectives>
struct FamilyRegistration {
  FamilyRegistration() {
    plait_register(PLAIT_VERSION, [] {
      for (const Collective collective : Collectives)
        Registry::instance().add(std::make_unique<A>(collective));
    });
  }
};

}  // namespace plait
