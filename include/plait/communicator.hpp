// The communicator: collectives between ranks that each own one device.
#pragma once
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plait/bootstrap.hpp"
#include "plait/call.hpp"
#include "plait/error.hpp"
#include "plait/language.hpp"
#include "plait/progress.hpp"
#include "plait/statistics.hpp"
#include "plait/stream.hpp"
#include "plait/types.hpp"

namespace plait {

class Backend;
class CommunicatorState;
class DeviceGroupState;
class GroupMember;
class Window;

/// How to make a communicator. Equal on all ranks, but for `device`.
struct CommunicatorOptions {
  std::optional<BackendKind> backend{};  ///< none: PLAIT_BACKEND, else a GPU target if every rank
                                         ///< has a device of its own, else host
  int device = -1;  ///< -1: that of this thread's last communicator, else the local rank's. The
                    ///< host has 0 alone
  std::optional<std::chrono::nanoseconds>
      timeout{};  ///< none: PLAIT_TIMEOUT seconds, else 10 minutes; 0: no deadline
  /// The most memory of a rank that algorithms may have for scratch and signals, bytes. None:
  /// PLAIT_SCRATCH_BYTES, else 128 MB, on GPUs 128 MB per peer up to 384 MB, and 16 MB more for
  /// messages. Parts and duplicates take over their parent's. `Error(invalid_argument)` if the
  /// algorithms need more.
  std::optional<std::size_t> scratch_bytes{};
};

template <class T>
class Buffer;

/// A group of ranks. Creating and destroying it, and allocating from it, are collective; calls must
/// be made by all ranks in the same order.
///
/// A communicator is used by one thread at a time, different ones by different threads at once. A
/// call that finds another thread inside throws `Error(invalid_argument)` and is not made on this
/// rank, as any call with a bad argument is not: the other ranks wait for it. `abort`,
/// `async_error`, `progress`, `create_stream` and what a communicator is (`rank`, `size`,
/// `backend_kind`, `describe`, `explain`, `chosen`) are for any thread at any time. Which calls of
/// several threads wait for each other: see `StreamRef`. Over MPI, what is collective on the host
/// calls MPI on the calling thread: creating, splitting, duplicating, destroying, allocating,
/// reserving, and with PLAIT_CHECK=1 every collective. MPI's thread level holds for these, see
/// `make_mpi_bootstrap`; nothing else calls MPI. Of one that was moved from, every call throws
/// `Error(invalid_argument)`.
///
/// A communicator belongs to the process that created it. In a child made by fork every call but
/// `rank` and `size` throws `Error(invalid_argument)`, and the destructors of communicators,
/// buffers, streams, device groups and bootstraps, exit handlers as well, let go without a word:
/// neither the parent nor its peers notice. See docs/troubleshooting.md, "fork".
class Communicator {
 public:
  /// Over any bootstrap. Collective. The rank's device is the thread's current one afterwards; no
  /// other call changes that. Throws the same `Error` on all ranks if they disagree on settings,
  /// span several nodes or share a GPU. GPUs that can't reach each other's memory work by way of
  /// host memory, slower.
  static Communicator create(std::unique_ptr<Bootstrap> bootstrap,
                             const CommunicatorOptions& options = {});

  /// The ranks that pass the same `color` form a new communicator, ordered by `key`, then by rank,
  /// on the devices that they have here and with the same deadline. None for a negative colour.
  /// Collective. The parts live on their own and may be destroyed in any order, before or after
  /// this one; but an abort of this one, as long as it lives, aborts them as well. Symmetric memory
  /// is that of the communicator that allocated it: to another, also to a part or a duplicate, it
  /// is ordinary memory.
  std::optional<Communicator> split(int color, int key);
  /// The same ranks again: calls of the two on different streams do not wait for each other, in
  /// whatever order ranks enqueue them. On a GPU that holds for two communicators, and while calls
  /// take what is chosen for them (docs/invariants.md, 1). Collective, otherwise as `split`.
  Communicator duplicate();

  /// Waits for the calls under way. They end when a peer aborts or is lost, and after the deadline.
  ~Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;

  int rank() const;
  int size() const;
  BackendKind backend_kind() const;
  Bootstrap& bootstrap() const;
  /// "rank 1 of 4: cuda device 1, NVIDIA H200 (sm_90)".
  std::string describe() const;

  /// Symmetric memory for `count` elements on every rank: zeroed, reachable by all peers, used
  /// without copies by the algorithms that can. Collective; throws `Error(mismatch)` on all ranks
  /// if they pass different sizes, `Error(invalid_argument)` on all for a size that overflows,
  /// `Error(out_of_memory)` on all if one runs out, `Error(no_peer_access)` on all if one can't
  /// reach a peer's; `Error(bootstrap)` if a rank does not come within the deadline, or what has
  /// broken the communicator.
  template <class T>
  Buffer<T> allocate(std::size_t count);
  std::shared_ptr<Window> allocate_bytes(std::size_t bytes);

  /// Commits all scratch memory now. Where ranks are processes with GPUs, a communicator begins
  /// with at most 32 MB per rank, and the first call of an algorithm that needs more waits on the
  /// host until all ranks have made that call; a message never does. Programs that can't have such
  /// a wait, because ranks make these calls in an order of their own, or meet by other means
  /// between them, call this first. Large messages become faster by it. Collective.
  /// `Error(out_of_memory)` on all ranks if one runs out: then calls work as before.
  /// `Error(mismatch)` on all if a message has one end before this call and one after it; capture
  /// graphs with messages anew on both ranks or on none. Not in a group that has calls of this
  /// communicator. See docs/symmetric-memory.md.
  void reserve();

  /// Reduces `count` elements of all ranks, element by element, into `recv` on all ranks. `send`
  /// and `recv` are device pointers (host pointers on the host target), equal (in place) or
  /// disjoint, aligned to the element. All ranks pass the same count, type, operation and options,
  /// and either all or none pass symmetric memory, at the same offset. Asynchronous, ordered on
  /// `stream`, may be captured in a graph. All ranks receive the same bits. Throws `Error` on bad
  /// arguments before anything is enqueued; what fails later, as a launch that the runtime refuses,
  /// is thrown as well and breaks the communicator like `abort`, as the other ranks count on the
  /// call. Of one rank in place nothing is launched, unless `options` names an algorithm or a
  /// launch shape.
  void all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                  StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
                  StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::all_reduce, send.size(), recv.size(), recv.size())) return;
    all_reduce(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op,
               stream, options);
  }

  // The other collectives. What is said of `all_reduce` holds for them: all ranks pass the same
  // count, type, operation, root and options; asynchronous, ordered on `stream`, may be captured;
  // `Error` before anything is enqueued. A *block* is `count` elements, and n the number of ranks.
  // Where only the root has a buffer, the other ranks may pass anything for it. Buffers are
  // disjoint or in place, as said with each. Symmetric memory helps where every rank has the
  // buffer: ranks pass the same offset, all of them or none; the root in place, too.

  /// Reduces n blocks of every rank element by element; rank r receives block r of the result.
  /// `send`: n blocks; `recv`: one. In place: `recv` is block r of `send`; the rest of `send` stays
  /// as it is.
  void reduce_scatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                      StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void reduce_scatter(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
                      StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::reduce_scatter, send.size(), recv.size(), recv.size())) return;
    reduce_scatter(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op,
                   stream, options);
  }

  /// Every rank receives the blocks of all ranks, in their order. `send`: one block; `recv`: n. In
  /// place: `send` is block r of `recv`.
  void all_gather(const void* send, void* recv, std::size_t count, DataType type,
                  StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_gather(std::span<T> send, std::span<std::remove_const_t<T>> recv, StreamRef stream = {},
                  const CallOptions& options = {}) {
    if (!extents_fit(Collective::all_gather, send.size(), recv.size(), send.size())) return;
    all_gather(send.data(), recv.data(), send.size(), data_type_of<std::remove_const_t<T>>, stream,
               options);
  }

  /// Every rank, the root too, receives the root's block. `send`: one block, of the root alone;
  /// `recv`: one. In place: the same.
  void broadcast(const void* send, void* recv, std::size_t count, DataType type, int root,
                 StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void broadcast(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
                 StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::broadcast, send.size(), recv.size(), recv.size(), root)) return;
    broadcast(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, root,
              stream, options);
  }

  /// Reduces a block of every rank element by element, for the root. `send`: one block; `recv`:
  /// one, of the root alone. In place: the same.
  void reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op, int root,
              StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::reduce, send.size(), recv.size(), send.size(), root)) return;
    reduce(send.data(), recv.data(), send.size(), data_type_of<std::remove_const_t<T>>, op, root,
           stream, options);
  }

  /// Rank r receives block r of every rank, in the order of ranks. `send` and `recv`: n blocks
  /// each. In place: the same.
  void all_to_all(const void* send, void* recv, std::size_t count, DataType type,
                  StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_to_all(std::span<T> send, std::span<std::remove_const_t<T>> recv, StreamRef stream = {},
                  const CallOptions& options = {}) {
    const std::size_t count = send.size() / static_cast<std::size_t>(size());
    if (!extents_fit(Collective::all_to_all, send.size(), recv.size(), count)) return;
    all_to_all(send.data(), recv.data(), count, data_type_of<std::remove_const_t<T>>, stream,
               options);
  }

  /// The root receives the blocks of all ranks, in their order. `send`: one block; `recv`: n, of
  /// the root alone. In place: the root's `send` is its block of `recv`; in symmetric memory all
  /// ranks then pass that `send`, the root's block, and not each its own.
  void gather(const void* send, void* recv, std::size_t count, DataType type, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void gather(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
              StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::gather, send.size(), recv.size(), send.size(), root)) return;
    gather(send.data(), recv.data(), send.size(), data_type_of<std::remove_const_t<T>>, root,
           stream, options);
  }

  /// Rank r receives block r of the root. `send`: n blocks, of the root alone; `recv`: one. In
  /// place: the root's `recv` is its block of `send`; in symmetric memory all ranks then pass that
  /// `recv`, the root's block, and not each its own.
  void scatter(const void* send, void* recv, std::size_t count, DataType type, int root,
               StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void scatter(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
               StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::scatter, send.size(), recv.size(), recv.size(), root)) return;
    scatter(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, root,
            stream, options);
  }

  // Messages between two ranks. The i-th message that rank a sends to rank b is the i-th that b
  // receives from a: both pass the same count, type and options, or an error that breaks the
  // communicator says where they differ. Any memory; buffers of one call, or group, are disjoint.
  // Messages of no elements are not sent, and received by nobody. Otherwise as `all_reduce`.
  //
  // A message may wait on the stream until its peer has come as far, and everything behind it
  // waits, too: so a rank that sends to one that sends to it says `send_recv`, or puts both calls
  // in a group. Messages of a group all proceed at once, before its collectives, if both ends of
  // each are grouped alike; then no order of the calls in the group can block.

  /// `count` elements for rank `to`. With `to` the own rank, in a group with the `recv`.
  void send(const void* data, std::size_t count, DataType type, int to, StreamRef stream = {},
            const CallOptions& options = {});
  template <class T>
  void send(std::span<T> data, int to, StreamRef stream = {}, const CallOptions& options = {}) {
    send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>, to, stream, options);
  }

  /// `count` elements from rank `from`.
  void recv(void* data, std::size_t count, DataType type, int from, StreamRef stream = {},
            const CallOptions& options = {});
  template <class T>
  void recv(std::span<T> data, int from, StreamRef stream = {}, const CallOptions& options = {}) {
    recv(data.data(), data.size(), data_type_of<T>, from, stream, options);
  }

  /// Both at once; the peers and counts may differ. Where `recv` lies in symmetric memory, at the
  /// same offset on both ends of each message, the option `symmetric` lets messages go straight
  /// there: both ends pass it, and `Error(invalid_argument)` if `recv` does not have room there for
  /// as much as is sent, too.
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, DataType type, StreamRef stream = {},
                 const CallOptions& options = {});
  template <class T>
  void send_recv(std::span<T> send, int to, std::span<std::remove_const_t<T>> recv, int from,
                 StreamRef stream = {}, const CallOptions& options = {}) {
    send_recv(send.data(), send.size(), to, recv.data(), recv.size(), from,
              data_type_of<std::remove_const_t<T>>, stream, options);
  }

  /// What a rank sends to, or receives from, each rank: elements, and where they begin in the
  /// buffer, in elements. One of each a rank.
  struct BlocksOf {
    std::span<const std::size_t> counts, displacements;
  };
  /// A message from every rank to every rank, the own one too. What rank a sends to b is as long as
  /// what b receives from a; if it is not, also where one of them is 0, that breaks the
  /// communicator, as of other messages. Called by all ranks, those with nothing to send or
  /// receive, too. The counts are read before it returns.
  void all_to_all_v(const void* send, const BlocksOf& sent, void* recv, const BlocksOf& received,
                    DataType type, StreamRef stream = {}, const CallOptions& options = {});

  /// Any of the collectives, for programs that learn at run time which: bindings, benchmarks. Of
  /// `call`, `symmetric`, `in_place` and `parts` are found out here. Of messages, `send_recv` to
  /// the next rank, from the one before; ranks pass the same count, and, all of them or none, a
  /// `recv` in symmetric memory, at the same offset.
  void enqueue(const Call& call, const void* send, void* recv, StreamRef stream = {},
               const CallOptions& options = {});

  /// No rank's stream passes this point before all ranks' streams have reached it. Asynchronous
  /// like every call.
  void barrier(StreamRef stream = {});

  /// Waits until `stream` is empty. Throws the error that has broken the communicator, for instance
  /// `Error(timeout)`, which names the missing rank, if a call ran out of time. It also compares
  /// the ranks' calls: in each wait if waits are milliseconds apart, in a tight loop in every
  /// sixteenth. A monitor compares them every 50 ms. So `Error(mismatch)` may come from a later
  /// wait or call than the first after the difference.
  void synchronize(StreamRef stream = {});
  /// The error that broke this communicator, if any, after a comparison of the ranks' calls. Does
  /// not wait, except for some tenths of a second after a deadline. Once there is an error, every
  /// call throws it. May be called from any thread.
  std::optional<Error> async_error() const;
  /// Ends all calls under way, on all ranks, within a second: their results are undefined,
  /// `synchronize`, calls that wait on the host, such as `allocate`, and later calls throw
  /// `Error(aborted)` that names this rank and the reason. Local, and may be called from any
  /// thread, also while another is in a call; not from a signal handler, which had better set a
  /// flag for a thread. The device stays usable, also for a new communicator.
  void abort(std::string_view reason = {});

  /// How many launches each of this rank's blocks has started and completed, and when it last did.
  /// Local; for any thread, also while kernels run, wait for a peer or never end, and while a
  /// stream is being captured. Takes some tens of microseconds on a GPU, beside the kernels. Each
  /// number is right at some moment during the call, but not all at the same. A call on which a
  /// deadline or an abort fell counts as completed. Empty with PLAIT_PROGRESS=0. Throws
  /// `Error(backend)` if the device is lost. See docs/progress.md.
  Progress progress() const;
  /// What this rank has done so far.
  Statistics statistics() const;

  /// On the communicator's device. It may be used with every communicator on that device, and
  /// outlives this one.
  Stream create_stream();
  /// Copies `bytes` bytes between any two of this rank's device memory and host memory.
  /// Asynchronous, ordered on `stream`. Throws `Error(invalid_argument)` for a null pointer, for
  /// more bytes than a symmetric buffer has, and within a group that has calls of this
  /// communicator.
  void copy(void* to, const void* from, std::size_t bytes, StreamRef stream = {});

  /// Which algorithm a call would take, in which launch shape, by which rule, and why not the
  /// others: several lines. Local. Throws `Error` as the call would, of what it is told.
  std::string explain(const Call& call, const CallOptions& options = {}) const;
  /// Only its name.
  std::string chosen(const Call& call, const CallOptions& options = {}) const;
  /// Whether `pointer` lies, with `bytes` bytes after it, in symmetric memory of this communicator.
  /// Local.
  bool is_symmetric(const void* pointer, std::size_t bytes) const;

 private:
  friend DeviceGroupState;
  friend Backend& backend_of(const Communicator& comm);  // for plait-bench and tests alone
  class Inside;
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  GroupMember& member() const;
  std::optional<Communicator> divide(const char* what, int color, int key);
  /// If not, the call is refused: this throws, or the group does at its end.
  bool extents_fit(Collective collective, std::size_t send, std::size_t recv, std::size_t count,
                   int root = 0) const;
  Call completed(const Call& call, const CallOptions& options) const;
  const CommunicatorState& member_of(std::string_view call) const;  // also in a child made by fork
  CommunicatorState& state(std::string_view call) const;

  std::unique_ptr<CommunicatorState> state_;
};

/// Symmetric memory as an array of T on this rank's device. Freed when destroyed, which waits for
/// this rank's device; the peers' mappings of it stay valid until they free theirs. Must not
/// outlive the communicator.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Window> window, T* data, std::size_t count)
      : window_(std::move(window)), data_(data), count_(count) {}
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;
  /// What was moved from is empty.
  Buffer(Buffer&& other) noexcept
      : window_(std::move(other.window_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    std::swap(window_, moved.window_);
    std::swap(data_, moved.data_);
    std::swap(count_, moved.count_);
    return *this;
  }
  ~Buffer() = default;
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  std::span<T> span() const noexcept { return {data_, count_}; }
  const std::shared_ptr<Window>& window() const noexcept { return window_; }

 private:
  std::shared_ptr<Window> window_;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

namespace detail {
void* local_pointer(const Window& window);
/// Of `count` elements, or the largest number if that can't hold it: so an overflow is refused
/// where all ranks are heard.
constexpr std::size_t bytes_or_most(std::size_t count, std::size_t size) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  return count > most / size ? most : count * size;
}
}  // namespace detail

template <class T>
Buffer<T> Communicator::allocate(std::size_t count) {
  auto window = allocate_bytes(detail::bytes_or_most(count, sizeof(T)));
  T* data = static_cast<T*>(detail::local_pointer(*window));
  return {std::move(window), data, count};
}

}  // namespace plait
