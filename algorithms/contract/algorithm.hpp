// The contract of an algorithm: one object, registered once, found by name. Nothing outside its
// folder knows it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
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

#include "algorithms/contract/kernel_cache.hpp"
#include "algorithms/contract/launch_record.hpp"
#include "algorithms/contract/registration.hpp"
#include "algorithms/contract/side_stream.hpp"
#include "algorithms/contract/static_name.hpp"
#include "algorithms/contract/topology.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "backends/backend.hpp"
#include "backends/device/channel_words.hpp"
#include "backends/device/launch_types.hpp"
#include "backends/device/pack.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"
#include "plait/types.hpp"

namespace plait {

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

/// Memory that an algorithm keeps for the life of a communicator. It starts zeroed, and nothing
/// else touches it.
struct Resources {
  std::size_t scratch_bytes = 0;  // symmetric: peers write here
  std::size_t signals = 0;        // symmetric 32-bit words: flags and counters that peers write
  std::size_t counters = 0;       // private 32-bit words: epochs, copies of counters
  friend bool operator==(const Resources&, const Resources&) = default;
};

/// Memory that several algorithms use one after the other: all that give the same name get the same
/// memory. They ask for the same amount, and leave it in a form that each of them understands.
struct SharedResources {
  std::string_view name;  // empty: none
  Resources resources;
};

/// The memory that an algorithm has asked for.
struct Grant {
  WindowView scratch;
  WindowView signals;
  std::uint32_t* counters = nullptr;
};

/// The memory that belongs to an algorithm alone, and the memory that it shares.
struct AlgorithmGrant {
  Grant own;
  std::optional<Grant> shared;
  std::optional<Grant> reserved;  // `Algorithm::shared_once_reserved`
};

/// A kernel of the program's own and its arguments, which begin with a `KernelSetting` that the
/// launch fills in.
struct OwnKernel {
  KernelHandle kernel = nullptr;
  std::vector<std::byte> args;
};

/// The pointers of one rank's call, and its peer. They are not in `Call`, so that facts which may
/// differ between ranks can't influence a choice.
struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
  int peer = -1;  // of a send_recv; it is one end of a message, so `send` or `recv` is null
  WindowView send_window, recv_window;  // of symmetric buffers, for kernels: peer_ptr(r) is rank
                                        // r's buffer
  const SymmetricRange *send_range = nullptr, *recv_range = nullptr;
  std::size_t send_offset = 0, recv_offset = 0;  // in the ranges
  /// Of a call that one rank makes alone. Bytes then go from `send` to `recv`, wherever these are.
  struct OneSided {
    enum class Kind : std::uint8_t { none, put, get, signal, await } kind = Kind::none;
    std::uint32_t signals = 0;        // sent by this call, or awaited
    std::int32_t reader_handle = -1;  // of a process whose memory is read by system calls
    /// The peer is on another node. Its memory has no address here, but a place in a window.
    bool is_elsewhere = false;
    std::uint64_t window = 0, offset = 0;
  } one_sided{};
  const OwnKernel* own_kernel = nullptr;

  // Rank r's buffers of a symmetric call, for copies. `peer_ptr` is no help there, because it may
  // read device memory.
  const std::byte* peer_send(int rank, std::size_t offset) const {
    return send_range->address(rank) + send_offset + offset;
  }
  std::byte* peer_recv(int rank, std::size_t offset) const {
    return recv_range->address(rank) + recv_offset + offset;
  }
};

/// The further memory of ranks on several nodes. Pointers are valid on the device.
struct NodeSetting {
  ChunkNote* notes = nullptr;  // of the channels between nodes
  /// The slots in device memory of the channels between nodes; null without.
  WindowView device_slots;
  std::uint32_t* signals = nullptr;  // of one-sided calls from ranks of other nodes, by rank
  /// The memory of the channels among the ranks of this node: `node_channel_memory`.
  Grant channels;
  int node = 0, local_rank = 0, local_ranks = 1;
  const std::int32_t* ranks_here = nullptr;
  /// The rank of rail q on node m, at m * rails + q.
  const std::int32_t* owners = nullptr;
};

/// The part of a `LaunchContext` that is the same for all calls of a communicator.
struct LaunchSetting {
  Backend& backend;
  KernelCache& kernels;
  const Topology& topology;
  int rank;
  std::int64_t process;
  WorkMemory& work;
  Statistics& statistics;
  const NodeSetting* nodes = nullptr;  // null on one node
  /// 0, 1, 2, ..., in device memory: the owners where each rank of one node counts as a node.
  const std::int32_t* ranks_in_order = nullptr;
  LaunchRecord* record = nullptr;  // null: what the call launches is not kept
  /// Copies on the default stream go to another one. There, a copy between memories of two devices
  /// that a program has allocated waits for both default streams, and for kernels that wait for it.
  bool copies_aside = false;
};

/// The services with which an algorithm enqueues one call on one rank.
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
  /// The number of this rank's process.
  std::int64_t process() const noexcept { return setting_.process; }
  const Topology& topology() const noexcept { return setting_.topology; }
  /// Null where all ranks are on one node.
  const NodeSetting* nodes() const noexcept { return setting_.nodes; }
  /// Null where there are several nodes.
  const std::int32_t* ranks_in_order() const noexcept { return setting_.ranks_in_order; }
  const Grant& grant() const noexcept { return grant_.own; }
  /// The memory of `Algorithm::shared`. Throws if the algorithm has not asked for any: one that
  /// passes its calls on to another must pass on its resources, too.
  const Grant& shared() const {
    if (grant_.shared) return *grant_.shared;
    throw Error(ErrorCode::invalid_argument,
                "the algorithm uses shared memory that its shared() did not ask for");
  }
  /// The memory of `Algorithm::shared_once_reserved`; null before Communicator::reserve.
  const Grant* reserved() const noexcept { return grant_.reserved ? &*grant_.reserved : nullptr; }

  /// Launches the kernel of `family` (the name of an algorithm's folder) for `type` on the call's
  /// stream.
  template <class Args>
  void launch(StaticName family, DataType type, LaunchShape shape, const Args& args) {
    launch_bytes(family, KernelUse::single, type, shape, bytes_of(args));
  }
  /// Launches the family's kernel for many messages or calls. `unused`: bytes at the end of `args`
  /// that the kernel does not read, so no target need copy them.
  template <class Args>
  void launch_batch(StaticName family, DataType type, LaunchShape shape, const Args& args,
                    std::size_t unused = 0) {
    launch_bytes(family, KernelUse::batch, type, shape, bytes_of(args), unused);
  }

  /// Launches a kernel of the program's own.
  void launch_own(KernelHandle kernel, LaunchShape shape, std::span<const std::byte> args) {
    launch_kernel(kernel, shape, args, 0);
  }

  /// The most bytes of work that one launch can have.
  std::size_t most_work() const noexcept { return setting_.work.most_bytes(); }
  /// Copies `work` to where the kernel of the next launch can read it, at a multiple of 16 bytes.
  /// Returns the address; null if the copy is in `few`, a part of the launch's arguments, because
  /// it fits there and kernels can index arguments. `messages`: the number of messages in it.
  const std::byte* place(std::span<const std::byte> work, std::span<std::byte> few,
                         std::size_t messages) {
    if (!setting_.topology.indexed_arguments) few = {};
    const std::byte* const elsewhere = setting_.work.place(work, few, messages, captured_);
    if (setting_.record != nullptr) {
      if (elsewhere != nullptr) setting_.record->spoil();
      else setting_.record->add_items(messages);
    }
    return elsewhere;
  }

  /// Copies between this rank's and peers' memory on the call's stream, by copy engines where the
  /// target has them. A copy does not check whether the communicator is broken: it runs even if a
  /// wait before it has given up.
  void copy(void* to, const void* from, std::size_t bytes) {
    if (setting_.record != nullptr) setting_.record->spoil();
    if (bytes == 0) return;
    const bool aside = setting_.copies_aside && stream_ == nullptr;
    setting_.backend.copy(to, from, bytes, aside ? side_.fork(stream_) : stream_);
    if (aside) side_.join(stream_);
  }

  /// Calls both functions, which launch and copy through this context. The work of `beside` runs
  /// beside the work of `main`, after everything before; work that the call enqueues later waits
  /// for both. Targets may run the two one after the other, `beside` first, so on no rank may
  /// anything in `beside` wait for work of `main`.
  template <class Beside, class Main>
  void at_once(Beside beside, Main main) {
    if (setting_.record != nullptr) setting_.record->spoil();
    const NativeStream stream = std::exchange(stream_, side_.fork(stream_));
    beside();
    stream_ = stream;
    main();
    side_.join(stream_);
  }

 private:
  template <class Args>
  static std::span<const std::byte> bytes_of(const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= max_kernel_args);
    static_assert(alignof(Args) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "LaunchRecord keeps them");
    return std::as_bytes(std::span(&args, 1));
  }
  void launch_bytes(StaticName family, KernelUse use, DataType type, LaunchShape shape,
                    std::span<const std::byte> args, std::size_t unused = 0);
  void launch_kernel(KernelHandle kernel, LaunchShape shape, std::span<const std::byte> args,
                     std::size_t unused);

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
  /// For send_recv, each message's own algorithm, all of one family; otherwise the one whose
  /// `enqueue_batch` is called.
  const Algorithm* algorithm;
  LaunchShape shape;  // for send_recv only
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual StaticName name() const = 0;
  /// Algorithms of one collective and family share their memory and, for send_recv, their launches.
  virtual StaticName family() const { return name(); }
  virtual Collective collective() const = 0;
  /// One line for tables: how data moves.
  virtual std::string_view summary() const = 0;
  virtual Support supports(const Call& call, const Topology& topology) const = 0;
  /// Whether it works with ranks on several nodes: ranks reach each other through channels alone,
  /// which proxies serve between nodes.
  virtual bool spans_nodes() const { return false; }
  virtual Resources resources(const Topology&) const { return {}; }
  virtual SharedResources shared(const Topology&) const { return {}; }
  /// The memory used instead of `shared` after Communicator::reserve, if `Topology::base_limit`
  /// left less before. For messages, because their two ends have no other moment from which both
  /// are sure to have the memory.
  virtual SharedResources shared_once_reserved(const Topology&) const { return {}; }
  /// Launch shapes worth trying for this call, the best guess first. Never empty for a supported
  /// call.
  virtual std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const = 0;
  /// The nearest shape that the algorithm can run. Every shape, also a user's, goes through this
  /// before `enqueue`.
  virtual LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const {
    return shape;
  }
  /// Latency-bandwidth estimate in microseconds. Infinite: the algorithm runs only when named.
  virtual double estimate(const Call& call, const Topology& topology) const = 0;
  /// For an algorithm whose stages run at once: what they are, and how the call is cut for them, in
  /// one line. Empty for others.
  virtual std::string stages(const Call&, LaunchShape, const Topology&) const { return {}; }
  /// Enqueues the call, without allocation on the device, communication on the host or
  /// synchronisation, so that it can be captured in a graph.
  virtual void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
                       LaunchContext& context) const = 0;

  /// Whether the algorithm has `enqueue_batch`. If so, it takes every call that `supports` accepts.
  virtual bool batches(const Topology&) const { return false; }
  /// Enqueues several calls of one type, operation and scale in as few launches as possible, under
  /// the rules of `enqueue`. The calls touch disjoint memory: their order does not matter, but is
  /// the same on all ranks. For send_recv this is the only way to enqueue; there, `calls` are ends
  /// of messages of any types, and differ between ranks. The messages from one rank to another are
  /// in the same order on both.
  virtual void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const;

  /// Whether the algorithm reduces floats in rank order: each result has the bits of `Reducer`'s
  /// `start` with the term of rank 0, `add` with those of ranks 1, 2, ..., and `finish`. All such
  /// algorithms give equal results, wherever an element lies, so the policy `reproducible` chooses
  /// among them. Asked of reductions of floats that `supports` accepts. An algorithm that says
  /// nothing is left out.
  virtual bool reduces_in_rank_order(const Call&, const Topology&) const { return false; }
  /// The same for the policy `reproducible_tree`: whether the algorithm adds as `add_in_tree` does
  /// (backends/device/pack.hpp) if `call.sum_order` says so.
  virtual bool reduces_in_tree(const Call&, const Topology&) const { return false; }
  /// Whether results are rounded to fewer bits than their type has. Such an algorithm has an
  /// infinite estimate, and `plait-bench --algorithms all` leaves it out.
  virtual bool is_lossy() const { return false; }
};

/// Whether the algorithm can serve the call on these ranks: `supports`, and the rules for all
/// algorithms.
inline Support can_serve(const Algorithm& algorithm, const Call& call, const Topology& topology) {
  if (topology.nodes > 1 && !algorithm.spans_nodes())
    return Support::no("all ranks must be on one node");
  return algorithm.supports(call, topology);
}

/// The algorithms of this process, in order of name, then of collective. Those of the library and
/// the program are registered before `main`. The first call of `find` or `all` loads plug-ins,
/// which register theirs; these functions throw if that has failed
/// (algorithms/contract/plugins.hpp).
class Registry {
 public:
  static Registry& instance();
  /// Throws Error(invalid_argument) if the collective has an algorithm of that name. Algorithms of
  /// different collectives may share a name.
  void add(std::unique_ptr<Algorithm> algorithm);
  const Algorithm* find(std::string_view name,
                        Collective collective = Collective::all_reduce) const;
  std::span<const std::unique_ptr<Algorithm>> all() const;
  /// The file of the program or plug-in that registered the algorithm; empty for the library's own.
  const std::string& file_of(const Algorithm& algorithm) const { return files_.at(&algorithm); }
  /// Whether the algorithm is known to be the library's own. In a program that the library is
  /// linked into, none is.
  bool is_own(const Algorithm& algorithm) const;
  /// Whether any algorithm comes from this file.
  bool has_from(std::string_view file) const;
  std::size_t size() const noexcept { return algorithms_.size(); }
  /// Those of calls that one rank makes alone, and of the program's own kernels. No call may choose
  /// them, so no list has them.
  std::unique_ptr<const Algorithm> one_sided, own_kernels, own_rows;

 private:
  const Algorithm* known(std::string_view name, Collective collective) const;

  std::vector<std::unique_ptr<Algorithm>> algorithms_;
  std::map<const Algorithm*, std::string> files_;
};

/// Registers an algorithm: `const AlgorithmRegistration<Ring> registration;` in its .cpp.
template <class A>
struct AlgorithmRegistration {
  AlgorithmRegistration() {
    plait_register(PLAIT_VERSION, [] { Registry::instance().add(std::make_unique<A>()); });
  }
};

/// Registers an algorithm of several collectives: `A(collective)` for each in the array.
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
