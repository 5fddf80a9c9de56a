// The communicator: collectives between ranks that each own one device.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plait/bootstrap.hpp"
#include "plait/buffer.hpp"
#include "plait/call.hpp"
#include "plait/calls_on_spans.hpp"
#include "plait/calls_on_windows.hpp"
#include "plait/collective_table.h"
#include "plait/communicator_options.hpp"
#include "plait/error.hpp"
#include "plait/event.hpp"
#include "plait/host_operation.hpp"
#include "plait/language.hpp"
#include "plait/progress.hpp"
#include "plait/statistics.hpp"
#include "plait/stream.hpp"
#include "plait/types.hpp"

namespace plait {

class Backend;
struct CallByAll;
class CommunicatorState;
class DeviceGroupState;
class GroupMember;
class Selector;

/// A group of ranks. Creating it, destroying it and allocating from it are collective. All ranks
/// make their calls in the same order.
///
/// One thread at a time uses a communicator; different threads may use different ones at the same
/// time. A call that finds another thread inside throws `Error(invalid_argument)` and is not made
/// on this rank, like any call with a bad argument: the other ranks wait for it. Any thread may at
/// any time call `abort`, `async_error`, `progress`, `create_stream`, `create_event`, `wrap_event`
/// and the getters (`rank`, `size`, `backend_kind`, `describe`, `explain`, `chosen`). `StreamRef`
/// says which calls of several threads wait for each other. Once moved from, it refuses any call.
///
/// Over MPI, calls that are collective on the host (creating, splitting, duplicating, destroying,
/// allocating, attaching, reserving, and with PLAIT_CHECK=1 every collective) call MPI on the
/// calling thread, as its thread level allows (`make_mpi_bootstrap`). No other call uses MPI.
///
/// A communicator belongs to the process that created it. In a child made by fork every call except
/// `rank` and `size` throws `Error(invalid_argument)`. There the destructors of communicators,
/// buffers, streams, device groups and bootstraps do nothing, silently, also in exit handlers:
/// neither the parent nor its peers notice. See docs/troubleshooting.md, "fork".
class Communicator : public CallsOnSpans<Communicator>, public CallsOnWindows {
 public:
  /// Over any bootstrap. Collective. Afterwards the rank's device is the thread's current device;
  /// no other call changes that. Throws the same `Error` on all ranks if they disagree on settings
  /// or share a GPU. GPUs that can't reach each other's memory exchange through host memory, which
  /// is slower. Ranks may be on several nodes (docs/nodes.md).
  static Communicator create(std::unique_ptr<Bootstrap> bootstrap,
                             const CommunicatorOptions& options = {});
  /// A name of version 0.1: the compiler says what has taken its place.
  template <class Mpi, class... Options>
  static void from_mpi(const Mpi&, const Options&...) {
    static_assert(sizeof(Mpi) == 0,
                  "include plait/mpi.hpp, link plait::mpi (-lplait-mpi), and write "
                  "plait::make_communicator(comm, options)");
  }

  /// Ranks that pass the same `color` form a new communicator, ordered by `key`, then by rank, on
  /// their devices and with the deadline of this communicator. None for a negative colour.
  /// Collective. The parts are independent, and may be destroyed in any order, before or after this
  /// communicator. But an abort of this communicator, while it exists, aborts them as well.
  /// Symmetric memory belongs to the communicator that allocated it: for any other, a part or a
  /// duplicate included, it is ordinary memory.
  std::optional<Communicator> split(int color, int key);
  /// The same ranks once more. Calls of the two on different streams do not wait for each other, in
  /// whatever order ranks enqueue them. On GPUs this holds for two communicators, and for calls
  /// that leave the algorithm and launch shape to the library (docs/invariants.md, 1). Collective,
  /// otherwise as `split`.
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

  /// Symmetric memory of `count` elements on every rank: zeroed, reachable by all peers of its
  /// node, and used without copies by the algorithms that can, if all ranks are on one node.
  /// Collective. Throws on all ranks: `Error(mismatch)` if they pass different sizes,
  /// `Error(invalid_argument)` if a size overflows, `Error(out_of_memory)` if one rank runs out,
  /// `Error(no_peer_access)` if one rank can't reach the memory of a peer of its node. Throws
  /// `Error(bootstrap)` if a rank does not come within the deadline, and the error that broke the
  /// communicator if one did.
  template <class T>
  Buffer<T> allocate(std::size_t count) {
    return detail::buffer_in<T>(allocate_bytes(detail::bytes_or_most(count, sizeof(T))), count);
  }
  std::shared_ptr<Window> allocate_bytes(std::size_t bytes);

  /// Commits all scratch memory now. If ranks are processes with GPUs, a communicator starts with
  /// at most 32 MB per rank, and the first call of an algorithm that needs more waits on the host
  /// until all ranks have made that call. Messages never wait so. Call this first if the program
  /// can't have such a wait, because its ranks make these calls in different orders or meet by
  /// other means between them. It also makes large messages faster.
  ///
  /// Collective. `Error(out_of_memory)` on all ranks if one runs out: calls then work as before.
  /// `Error(mismatch)` on all ranks if a message has one end before this call and one after it:
  /// capture graphs with messages again, on both ranks or on neither. Not within a group that has
  /// calls of this communicator. See docs/symmetric-memory.md.
  void reserve();

  /// Reduces `count` elements of all ranks, element by element, into `recv` on all ranks. `send`
  /// and `recv` are device pointers (host pointers on the host target), equal (in place) or
  /// disjoint, aligned to the element. All ranks pass the same count, type, operation and options.
  /// Either all ranks pass symmetric memory, at the same offset, or none does. Asynchronous,
  /// ordered on `stream`; may be captured in a graph. With the option `blocking` it returns when
  /// the result is there. All ranks receive the same bits.
  ///
  /// Bad arguments throw `Error` before anything is enqueued. Ranks that make a call which another
  /// one refuses so get `Error(mismatch)`, which says why, and the communicator is broken; if all
  /// refuse it, they go on. A later failure, such as a launch that the runtime refuses, throws as
  /// well and breaks the communicator like `abort`, because the other ranks count on the call. With
  /// one rank and in place there is no launch, unless `options` names an algorithm or a launch
  /// shape, or a reproducible communicator reduces floats.
  void all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                  StreamRef stream = {}, const CallOptions& options = {});

  // All calls that move data also take spans: the base class has these forms.
#define PLAIT_USE(NAME, ...) using CallsOnSpans::NAME;
  PLAIT_COLLECTIVES(PLAIT_USE, PLAIT_NO_OTHER)
#undef PLAIT_USE
  using CallsOnSpans::all_gather_v, CallsOnSpans::all_to_all_v, CallsOnSpans::gather_v,
      CallsOnSpans::neighbor_all_to_all_v, CallsOnSpans::recv, CallsOnSpans::reduce_scatter_v,
      CallsOnSpans::scatter_v, CallsOnSpans::send, CallsOnSpans::send_recv;

  // The other collectives follow the rules of `all_reduce`: all ranks pass the same count, type,
  // operation, root and options; calls are asynchronous, ordered on `stream`, and may be captured;
  // with the option `blocking` they return when the result is there. `Error` comes before anything
  // is enqueued. A *block* is `count` elements, and n the number of ranks.
  //
  // If only the root has a buffer, the other ranks may pass anything for it. Buffers are
  // disjoint or in place, as each call says. Symmetric memory helps for a buffer that every rank
  // has: all ranks pass it, at the same offset, or none does. That includes the root in place.

  /// Reduces n blocks of every rank element by element. Rank r receives block r of the result.
  /// `send`: n blocks; `recv`: one. In place: `recv` is block r of `send`; the rest of `send` is
  /// unchanged.
  void reduce_scatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                      StreamRef stream = {}, const CallOptions& options = {});
  /// Every rank receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n. In
  /// place: `send` is block r of `recv`.
  void all_gather(const void* send, void* recv, std::size_t count, DataType type,
                  StreamRef stream = {}, const CallOptions& options = {});
  /// Every rank, including the root, receives the root's block. `send`: one block, only on the
  /// root; `recv`: one. In place: `send` = `recv`.
  void broadcast(const void* send, void* recv, std::size_t count, DataType type, int root,
                 StreamRef stream = {}, const CallOptions& options = {});
  /// Reduces one block of every rank element by element, for the root. `send`: one block; `recv`:
  /// one, only on the root. In place: `send` = `recv`.
  void reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  /// Rank r receives block r of every rank, in rank order. `send` and `recv`: n blocks each. In
  /// place: `send` = `recv`.
  void all_to_all(const void* send, void* recv, std::size_t count, DataType type,
                  StreamRef stream = {}, const CallOptions& options = {});
  /// The root receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n, only
  /// on the root. In place: the root's `send` is its block of `recv`. In symmetric memory all ranks
  /// then pass the offset of that block, the root's, instead of their own block's.
  void gather(const void* send, void* recv, std::size_t count, DataType type, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  /// Rank r receives block r of the root. `send`: n blocks, only on the root; `recv`: one. In
  /// place: the root's `recv` is its block of `send`. In symmetric memory all ranks then pass the
  /// offset of that block, the root's, instead of their own block's.
  void scatter(const void* send, void* recv, std::size_t count, DataType type, int root,
               StreamRef stream = {}, const CallOptions& options = {});
  /// Rank r receives the reduction of the blocks of ranks 0 to r, element by element. `send` and
  /// `recv`: one block each. In place: `send` = `recv`. Any operation but `avg`, which would divide
  /// by another number on each rank: `Error(unsupported)`.
  void scan(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
            StreamRef stream = {}, const CallOptions& options = {});
  /// As `scan`, without the own block: rank r receives the reduction of the blocks of ranks 0 to
  /// r - 1. Rank 0 passes a `recv` as well, which is unchanged.
  void exscan(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
              StreamRef stream = {}, const CallOptions& options = {});

  // Reductions by a function of the program, only on the host target: HostOperation says when and
  // by which thread it is called. NAME(send, recv, count, op, [root,] stream = {}). Buffers and
  // ranks as for the calls of the same names; elements have `op.element_bytes` bytes, and buffers
  // the alignment that the function needs. All ranks pass the same size and an equal function.
  // `Error(unsupported)` on GPUs, and in a group. Each is made of calls that move bytes, which
  // logs, traces and errors on other ranks name; the library chooses their algorithms. The first
  // one allocates 4 MB, or two elements per rank.
#define PLAIT_DECLARE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)              \
  PLAIT_IF_##OP(void NAME(const void* send, void* recv, std::size_t count, \
                          const HostOperation& op,                         \
                          PLAIT_IF_##ROOT(int root, ) StreamRef stream = {});)
  PLAIT_COLLECTIVES(PLAIT_DECLARE, PLAIT_NO_OTHER)
#undef PLAIT_DECLARE

  // Messages between two ranks. The i-th message that rank a sends to rank b is the i-th that b
  // receives from a. Both ranks pass the same count, type and options; otherwise an error says
  // where they differ, and breaks the communicator. Any memory will do; the buffers of one call, or
  // group, are disjoint. A message of 0 elements is neither sent nor received. One whose peer is
  // `proc_null` does nothing: its count and buffer are not looked at. Otherwise as `all_reduce`.
  //
  // A message may wait on the stream until its peer has reached it, and later work on the stream
  // waits too. So two ranks that send to each other use `send_recv`, or put both calls in a group.
  // A communicator's messages of a group all proceed at once, before its collectives. If both ends
  // of each message are in groups, and grouped alike, no order of the calls within the group can
  // deadlock, also with calls of other communicators between them (plait/group.hpp).

  /// Sends `count` elements to rank `to`; to the own rank with the `recv` in the same group.
  void send(const void* data, std::size_t count, DataType type, int to, StreamRef stream = {},
            const CallOptions& options = {});
  /// Receives `count` elements from rank `from`.
  void recv(void* data, std::size_t count, DataType type, int from, StreamRef stream = {},
            const CallOptions& options = {});
  /// Both at once; the peers and counts may differ. If `recv` lies in symmetric memory, at the same
  /// offset on both ends of each message, the option `symmetric` lets messages go straight there.
  /// Both ends pass the option. `Error(invalid_argument)` if `recv` has less room there than this
  /// rank sends.
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, DataType type, StreamRef stream = {},
                 const CallOptions& options = {});

  // Collectives with a count per rank. They consist of messages, so the rules of messages hold:
  // the counts that a rank states for itself and that others state for it are compared, those of 0
  // too, and a difference breaks the communicator. Blocks that are written overlap no other block.
  // Displacements are where blocks begin in the buffer, in elements. Counts and displacements are
  // read before the call returns. Called by all ranks, even those with nothing to send or receive.
  // A block that reaches beyond its span is `Error(invalid_argument)`.

  /// A message from every rank to every rank, including itself. Rank a sends b as many elements as
  /// b receives from a.
  void all_to_all_v(const void* send, const BlocksOf& sent, void* recv, const BlocksOf& received,
                    DataType type, StreamRef stream = {}, const CallOptions& options = {});
  /// Every rank receives the blocks of all ranks. Rank r sends `count` elements, which is
  /// `received.counts[r]`. All ranks pass the same counts; displacements may differ. In place:
  /// `send` is this rank's block of `recv`.
  void all_gather_v(const void* send, std::size_t count, void* recv, const BlocksOf& received,
                    DataType type, StreamRef stream = {}, const CallOptions& options = {});
  /// The root receives the blocks of all ranks, of `count` elements from each. `recv` and
  /// `received`: only on the root. In place: the root's `send` is its block of `recv`.
  void gather_v(const void* send, std::size_t count, void* recv, const BlocksOf& received,
                DataType type, int root, StreamRef stream = {}, const CallOptions& options = {});
  /// Rank r receives block r of the root, `count` elements. `send` and `sent`: only on the root. In
  /// place: the root's `recv` is its block of `send`.
  void scatter_v(const void* send, const BlocksOf& sent, void* recv, std::size_t count,
                 DataType type, int root, StreamRef stream = {}, const CallOptions& options = {});
  /// Rank r receives the reduction of block r of all ranks, `counts[r]` elements. The blocks lie
  /// one behind the other in `send`, in the order of their ranks. All ranks pass the same counts.
  /// In place: `recv` is this rank's block of `send`. It is a `reduce_scatter` if all counts are
  /// equal and no algorithm is named. Otherwise it is one `reduce` per block that has elements, all
  /// of them or none, so errors name that call, and options are for it.
  void reduce_scatter_v(const void* send, std::span<const std::size_t> counts, void* recv,
                        DataType type, ReduceOp op, StreamRef stream = {},
                        const CallOptions& options = {});
  /// A message to each peer of `sent`, and from each of `received`: the exchange of halos. Called
  /// by the ranks that have neighbours. Each entry of `sent` has one of `received` on its peer, of
  /// the same count, even if that is 0: a difference breaks the communicator.
  ///
  /// A peer may occur several times, and may be this rank. The i-th entry of `sent` for rank b is
  /// the i-th of `received` for this rank on b. So name directions in one order in both lists, and
  /// in `received` the peers from which data comes in that direction: with `sent` to the left and
  /// to the right, `received` from the right and from the left. Then it is right for rings of two
  /// ranks and of one, too.
  void neighbor_all_to_all_v(const void* send, const NeighborBlocks& sent, void* recv,
                             const NeighborBlocks& received, DataType type, StreamRef stream = {},
                             const CallOptions& options = {});

  /// Any collective, for programs that learn at run time which one: bindings, benchmarks.
  /// Determines `symmetric`, `in_place` and `parts` of `call` itself. For messages it is a
  /// `send_recv` to the next rank and from the previous one; all ranks pass the same count, and
  /// either all pass a `recv` in symmetric memory, at the same offset, or none does.
  void enqueue(const Call& call, const void* send, void* recv, StreamRef stream = {},
               const CallOptions& options = {});

  /// For interfaces on top of this one that check arguments themselves. Refuses a call as the
  /// communicator does: it takes its number, so other ranks that make the call are told `error`,
  /// and no later call is taken for it. Throws `error`, or lets the group throw it at its end.
  /// `call`: what is known of it; its collective and count matter, and `send_recv` is a message to
  /// and from each rank.
  void refuse(const Error& error, const Call& call);
  /// The same for messages that have elements.
  void refuse(const Error& error, const Peers& peers);

  /// No rank's stream passes this point before all ranks' streams have reached it. Asynchronous
  /// like every call.
  void barrier(StreamRef stream = {}, const CallOptions& options = {});

  /// Waits until `stream` is empty. Throws the error that has broken the communicator, for instance
  /// `Error(timeout)`, which names the missing rank, if a call ran out of time.
  ///
  /// It also compares the ranks' calls: in each wait if waits are milliseconds apart, in every
  /// sixteenth in a tight loop. A monitor compares them every 50 ms. So `Error(mismatch)` may come
  /// from a later wait or call than the first one after the difference.
  void synchronize(StreamRef stream = {});
  /// True if `stream` is empty: all that was enqueued has run, and `synchronize` would return at
  /// once. Throws what that throws, as soon as the stream is empty. A broken communicator's calls
  /// end by themselves, so a loop that polls ends in each case. Never waits, except for some tenths
  /// of a second after a deadline. `Error(invalid_argument)` for a stream that is being captured,
  /// and within a group that has calls of this communicator.
  bool test(StreamRef stream = {});
  /// Waits until at least one of the streams is empty and returns its index, the lowest if several
  /// are. A stream without work is empty: leave out those that were returned. Throws as `test`, and
  /// `Error(invalid_argument)` without a stream.
  std::size_t wait_any(std::span<const StreamRef> streams);
  std::size_t wait_any(std::initializer_list<StreamRef> streams) {
    return wait_any(std::span(streams.begin(), streams.size()));
  }
  /// The error that broke this communicator, if any, after a comparison of the ranks' calls. Does
  /// not wait, except for some tenths of a second after a deadline. Once there is an error, every
  /// call throws it. Any thread may call this.
  std::optional<Error> async_error() const;
  /// Ends all calls under way, on all ranks, within a second. Their results are undefined.
  /// `synchronize`, calls that wait on the host, such as `allocate`, and later calls throw
  /// `Error(aborted)`, which names this rank and the reason. Local. Any thread may call this, even
  /// while another thread is in a call. A signal handler may not: let it set a flag for a thread.
  /// The device stays usable, also for a new communicator.
  void abort(std::string_view reason = {});

  /// How many launches each of this rank's blocks has started and completed, and when it last did.
  /// Local. Any thread may call this, also while kernels run, wait for a peer or never end, and
  /// while a stream is being captured. On a GPU it takes some tens of microseconds, beside the
  /// kernels. Each number is right at some moment during the call, but not all at the same moment.
  /// A call that a deadline or an abort has ended counts as completed. Empty with PLAIT_PROGRESS=0.
  /// Throws `Error(backend)` if the device is lost. See docs/progress.md.
  Progress progress() const;
  /// What this rank has done so far.
  Statistics statistics() const;

  /// A stream on the communicator's device. It may be used with every communicator on that device,
  /// and outlives this communicator.
  Stream create_stream();
  /// An event on the communicator's device, for all streams there. It may outlive the communicator.
  Event create_event();
  /// An event of the runtime's, a `cudaEvent_t` or `hipEvent_t` of this device, for use as one of
  /// Plait's. It stays the caller's and must outlive the result. Or `Event::native()` of an event
  /// that is still there, which gives that event. `Error(invalid_argument)` for null, and on the
  /// host for any other pointer.
  Event wrap_event(void* native);
  /// Copies `bytes` bytes between any two places in this rank's device memory and host memory.
  /// Asynchronous, ordered on `stream`. Throws `Error(invalid_argument)` for a null pointer, for
  /// more bytes than a symmetric buffer has, and within a group that has calls of this
  /// communicator.
  void copy(void* to, const void* from, std::size_t bytes, StreamRef stream = {});

  /// Which algorithm a call would take, in which launch shape and by which rule, and why not the
  /// others: several lines. Local. Throws `Error` where the call would, as far as `call` tells.
  std::string explain(const Call& call, const CallOptions& options = {}) const;
  /// Only the algorithm's name.
  std::string chosen(const Call& call, const CallOptions& options = {}) const;
  /// Whether the `bytes` bytes from `pointer` on are its symmetric memory. Local.
  bool is_symmetric(const void* pointer, std::size_t bytes) const;

 private:
  friend CallsOnSpans<Communicator>;
  friend CallsOnWindows;
  friend DeviceGroupState;
  friend Backend& backend_of(const Communicator& comm);  // for plait-bench, libnccl and tests alone
  friend const Selector& selector_of(const Communicator& comm);  // for libnccl alone
  class Inside;
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  GroupMember& member() const;
  std::optional<Communicator> divide(const char* what, int color, int key);
  void calibrate(bool may_measure);
  /// False if the call is refused within a group, whose end then throws. Outside a group this
  /// throws.
  bool extents_fit(Collective collective, std::size_t send, std::size_t recv, std::size_t count,
                   int root = 0) const;
  /// The same for blocks in a buffer of `size` elements, "send" or "recv". `peers`: those of the
  /// call, if it has not one block for each rank. Lists of other lengths are left to the call
  /// itself.
  bool blocks_fit(std::string_view what, std::string_view buffer, std::size_t size,
                  const BlocksOf& blocks, const Peers* peers = nullptr) const;
  bool counts_fit(std::string_view what, std::size_t send, std::span<const std::size_t> counts,
                  std::size_t recv) const;
  void reduce_on_host(Collective collective, const void* send, void* recv, std::size_t count,
                      const HostOperation& op, int root, StreamRef stream,
                      std::size_t elements = 0);
  template <class MakeEnds>
  void by_messages(std::string_view what, DataType type, const MakeEnds& make_ends,
                   StreamRef stream, const CallOptions& options, const CallByAll* by_all,
                   const Peers& peers);
  Call completed(const Call& call, const CallOptions& options) const;
  const CommunicatorState& member_of(std::string_view call) const;  // also in a forked child
  CommunicatorState& state(std::string_view call) const;

  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace plait
