// The communicator: collectives between ranks that each own one device.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <initializer_list>
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
class Window;

/// No rank, as the peer of a message: that end of it does nothing, whatever its count and buffer.
inline constexpr int proc_null = -2;

/// How to make a communicator. Equal on all ranks, except for `device`.
struct CommunicatorOptions {
  /// None: PLAIT_BACKEND, else a GPU target if every rank has its own device, else the host.
  std::optional<BackendKind> backend{};
  /// -1: the device of this thread's latest communicator, else by the rank's index on its node. The
  /// host target has one device, a mere number, for each rank on the node.
  int device = -1;
  /// None: PLAIT_TIMEOUT in seconds, else 10 minutes. 0: no deadline.
  std::optional<std::chrono::nanoseconds> timeout{};
  /// The most memory, in bytes, that algorithms may use for scratch and signals on one rank. None:
  /// PLAIT_SCRATCH_BYTES, else 128 MB (on GPUs with peer access 128 MB per peer, up to 384 MB) and
  /// 16 MB more for messages. Parts and duplicates take over their parent's limit.
  /// `Error(invalid_argument)` if the algorithms need more.
  std::optional<std::size_t> scratch_bytes{};
  /// Reductions of floats give bits that depend on the values of the ranks, their number, the type
  /// and the operation alone: not on the message's size, the element's place in it, the memory, a
  /// group, a graph or a measurement. Only algorithms that reduce in rank order are chosen; a call
  /// that names another one is `Error(invalid_argument)`. So is it with PLAIT_ALGO=reproducible,
  /// and so are parts and duplicates. See docs/floating-point.md.
  bool reproducible = false;
};

template <class T>
class Buffer;

/// A group of ranks. Creating it, destroying it and allocating from it are collective. All ranks
/// make their calls in the same order.
///
/// One thread at a time uses a communicator; different threads may use different ones at the same
/// time. A call that finds another thread inside throws `Error(invalid_argument)` and is not made
/// on this rank, like any call with a bad argument: the other ranks wait for it. Any thread may at
/// any time call `abort`, `async_error`, `progress`, `create_stream`, `create_event`, `wrap_event`
/// and the getters (`rank`, `size`, `backend_kind`, `describe`, `explain`, `chosen`). `StreamRef`
/// says which calls of several threads wait for each other. Every call on a communicator that was
/// moved from throws `Error(invalid_argument)`.
///
/// Over MPI, calls that are collective on the host call MPI on the calling thread: creating,
/// splitting, duplicating, destroying, allocating, reserving, and with PLAIT_CHECK=1 every
/// collective. MPI's thread level limits these (`make_mpi_bootstrap`). No other call uses MPI.
///
/// A communicator belongs to the process that created it. In a child made by fork every call except
/// `rank` and `size` throws `Error(invalid_argument)`. There the destructors of communicators,
/// buffers, streams, device groups and bootstraps do nothing, silently, also in exit handlers:
/// neither the parent nor its peers notice. See docs/troubleshooting.md, "fork".
class Communicator {
 public:
  /// Over any bootstrap. Collective. Afterwards the rank's device is the thread's current device;
  /// no other call changes that. Throws the same `Error` on all ranks if they disagree on settings
  /// or share a GPU. GPUs that can't reach each other's memory exchange through host memory, which
  /// is slower. Ranks may be on several nodes (docs/nodes.md).
  static Communicator create(std::unique_ptr<Bootstrap> bootstrap,
                             const CommunicatorOptions& options = {});
  /// A name of version 0.1, which does not compile: the compiler says what has taken its place.
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
  Buffer<T> allocate(std::size_t count);
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
  /// refuse it, they go on. A later failure, such as a launch
  /// that the runtime refuses, throws as well and breaks the communicator like `abort`, because the
  /// other ranks count on the call. With one rank and in place there is no launch, unless `options`
  /// names an algorithm or a launch shape, or a reproducible communicator reduces floats.
  void all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
                  StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
                  StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::all_reduce, send.size(), recv.size(), recv.size())) return;
    all_reduce(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op,
               stream, options);
  }

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
  template <class T>
  void reduce_scatter(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
                      StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::reduce_scatter, send.size(), recv.size(), recv.size())) return;
    reduce_scatter(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op,
                   stream, options);
  }

  /// Every rank receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n. In
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

  /// Every rank, including the root, receives the root's block. `send`: one block, only on the
  /// root; `recv`: one. In place: `send` = `recv`.
  void broadcast(const void* send, void* recv, std::size_t count, DataType type, int root,
                 StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void broadcast(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
                 StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::broadcast, send.size(), recv.size(), recv.size(), root)) return;
    broadcast(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, root,
              stream, options);
  }

  /// Reduces one block of every rank element by element, for the root. `send`: one block; `recv`:
  /// one, only on the root. In place: `send` = `recv`.
  void reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op, int root,
              StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::reduce, send.size(), recv.size(), send.size(), root)) return;
    reduce(send.data(), recv.data(), send.size(), data_type_of<std::remove_const_t<T>>, op, root,
           stream, options);
  }

  /// Rank r receives block r of every rank, in rank order. `send` and `recv`: n blocks each. In
  /// place: `send` = `recv`.
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

  /// The root receives the blocks of all ranks, in rank order. `send`: one block; `recv`: n, only
  /// on the root. In place: the root's `send` is its block of `recv`. In symmetric memory all ranks
  /// then pass the offset of that block, the root's, instead of their own block's.
  void gather(const void* send, void* recv, std::size_t count, DataType type, int root,
              StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void gather(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
              StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::gather, send.size(), recv.size(), send.size(), root)) return;
    gather(send.data(), recv.data(), send.size(), data_type_of<std::remove_const_t<T>>, root,
           stream, options);
  }

  /// Rank r receives block r of the root. `send`: n blocks, only on the root; `recv`: one. In
  /// place: the root's `recv` is its block of `send`. In symmetric memory all ranks then pass the
  /// offset of that block, the root's, instead of their own block's.
  void scatter(const void* send, void* recv, std::size_t count, DataType type, int root,
               StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void scatter(std::span<T> send, std::span<std::remove_const_t<T>> recv, int root,
               StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::scatter, send.size(), recv.size(), recv.size(), root)) return;
    scatter(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, root,
            stream, options);
  }

  /// Rank r receives the reduction of the blocks of ranks 0 to r, element by element. `send` and
  /// `recv`: one block each. In place: `send` = `recv`. Any operation but `avg`, which would divide
  /// by another number on each rank: `Error(unsupported)`.
  void scan(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
            StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void scan(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
            StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::scan, send.size(), recv.size(), recv.size())) return;
    scan(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op, stream,
         options);
  }

  /// As `scan`, without the own block: rank r receives the reduction of the blocks of ranks 0 to
  /// r - 1. Rank 0 passes a `recv` as well, which is unchanged.
  void exscan(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op,
              StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void exscan(std::span<T> send, std::span<std::remove_const_t<T>> recv, ReduceOp op,
              StreamRef stream = {}, const CallOptions& options = {}) {
    if (!extents_fit(Collective::exscan, send.size(), recv.size(), recv.size())) return;
    exscan(send.data(), recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>, op, stream,
           options);
  }

  // Reductions by a function of the program, only on the host target: HostOperation says when it is
  // called, and by which thread. Buffers and ranks as for the calls of the same names; elements
  // have `op.element_bytes` bytes, and buffers the alignment that the function needs. All ranks
  // pass the same size and an equal function. `Error(unsupported)` on GPUs, and in a group. Each is
  // made of calls that move bytes, which logs, traces and errors on other ranks name; the library
  // chooses their algorithms. The first one allocates 4 MB, or two elements per rank.

  void all_reduce(const void* send, void* recv, std::size_t count, const HostOperation& op,
                  StreamRef stream = {});
  template <class T>
  void all_reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv,
                  const HostOperation& op, StreamRef stream = {}) {
    if (extents_fit(Collective::all_reduce, send.size(), recv.size(), recv.size()))
      reduce_on_host(Collective::all_reduce, send.data(), recv.data(), recv.size(), op, 0, stream,
                     sizeof(T));
  }
  void reduce_scatter(const void* send, void* recv, std::size_t count, const HostOperation& op,
                      StreamRef stream = {});
  template <class T>
  void reduce_scatter(std::span<T> send, std::span<std::remove_const_t<T>> recv,
                      const HostOperation& op, StreamRef stream = {}) {
    if (extents_fit(Collective::reduce_scatter, send.size(), recv.size(), recv.size()))
      reduce_on_host(Collective::reduce_scatter, send.data(), recv.data(), recv.size(), op, 0,
                     stream, sizeof(T));
  }
  void reduce(const void* send, void* recv, std::size_t count, const HostOperation& op, int root,
              StreamRef stream = {});
  template <class T>
  void reduce(std::span<T> send, std::span<std::remove_const_t<T>> recv, const HostOperation& op,
              int root, StreamRef stream = {}) {
    if (extents_fit(Collective::reduce, send.size(), recv.size(), send.size(), root))
      reduce_on_host(Collective::reduce, send.data(), recv.data(), send.size(), op, root, stream,
                     sizeof(T));
  }

  void scan(const void* send, void* recv, std::size_t count, const HostOperation& op,
            StreamRef stream = {});
  template <class T>
  void scan(std::span<T> send, std::span<std::remove_const_t<T>> recv, const HostOperation& op,
            StreamRef stream = {}) {
    if (extents_fit(Collective::scan, send.size(), recv.size(), recv.size()))
      reduce_on_host(Collective::scan, send.data(), recv.data(), recv.size(), op, 0, stream,
                     sizeof(T));
  }
  void exscan(const void* send, void* recv, std::size_t count, const HostOperation& op,
              StreamRef stream = {});
  template <class T>
  void exscan(std::span<T> send, std::span<std::remove_const_t<T>> recv, const HostOperation& op,
              StreamRef stream = {}) {
    if (extents_fit(Collective::exscan, send.size(), recv.size(), recv.size()))
      reduce_on_host(Collective::exscan, send.data(), recv.data(), recv.size(), op, 0, stream,
                     sizeof(T));
  }

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

  /// Sends `count` elements to rank `to`. A message to the own rank needs its `recv` in the same
  /// group.
  void send(const void* data, std::size_t count, DataType type, int to, StreamRef stream = {},
            const CallOptions& options = {});
  template <class T>
  void send(std::span<T> data, int to, StreamRef stream = {}, const CallOptions& options = {}) {
    send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>, to, stream, options);
  }

  /// Receives `count` elements from rank `from`.
  void recv(void* data, std::size_t count, DataType type, int from, StreamRef stream = {},
            const CallOptions& options = {});
  template <class T>
  void recv(std::span<T> data, int from, StreamRef stream = {}, const CallOptions& options = {}) {
    recv(data.data(), data.size(), data_type_of<T>, from, stream, options);
  }

  /// Both at once; the peers and counts may differ. If `recv` lies in symmetric memory, at the same
  /// offset on both ends of each message, the option `symmetric` lets messages go straight there.
  /// Both ends pass the option. `Error(invalid_argument)` if `recv` has less room there than this
  /// rank sends.
  void send_recv(const void* send, std::size_t send_count, int to, void* recv,
                 std::size_t recv_count, int from, DataType type, StreamRef stream = {},
                 const CallOptions& options = {});
  template <class T>
  void send_recv(std::span<T> send, int to, std::span<std::remove_const_t<T>> recv, int from,
                 StreamRef stream = {}, const CallOptions& options = {}) {
    send_recv(send.data(), send.size(), to, recv.data(), recv.size(), from,
              data_type_of<std::remove_const_t<T>>, stream, options);
  }

  /// For each rank: how many elements this rank sends to it, or receives from it, and where they
  /// begin in the buffer, in elements. One entry per rank.
  struct BlocksOf {
    std::span<const std::size_t> counts, displacements;
  };
  /// A message from every rank to every rank, including itself. Rank a sends b as many elements as
  /// b receives from a. A difference, also if one of the counts is 0, breaks the communicator, as
  /// for other messages. Called by all ranks, even those with nothing to send or receive. The
  /// counts are read before it returns. A block that reaches beyond its span is
  /// `Error(invalid_argument)`, in this call and those below.
  void all_to_all_v(const void* send, const BlocksOf& sent, void* recv, const BlocksOf& received,
                    DataType type, StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_to_all_v(std::span<T> send, const BlocksOf& sent, std::span<std::remove_const_t<T>> recv,
                    const BlocksOf& received, StreamRef stream = {},
                    const CallOptions& options = {}) {
    constexpr std::string_view what = "all_to_all_v";
    if (blocks_fit(what, "send", send.size(), sent) &&
        blocks_fit(what, "recv", recv.size(), received))
      all_to_all_v(send.data(), sent, recv.data(), received, data_type_of<std::remove_const_t<T>>,
                   stream, options);
  }

  // Collectives with a count per rank. They consist of messages, so the rules of messages hold:
  // the counts that a rank states for itself and that others state for it are compared, those of 0
  // too, and a difference breaks the communicator. Blocks that are written overlap no other block.
  // Displacements are where blocks begin in the buffer, in elements. Counts and displacements are
  // read before the call returns. Called by all ranks, even those with nothing to send or receive.

  /// Every rank receives the blocks of all ranks. Rank r sends `count` elements, which is
  /// `received.counts[r]`. All ranks pass the same counts; displacements may differ. In place:
  /// `send` is this rank's block of `recv`.
  void all_gather_v(const void* send, std::size_t count, void* recv, const BlocksOf& received,
                    DataType type, StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void all_gather_v(std::span<T> send, std::span<std::remove_const_t<T>> recv,
                    const BlocksOf& received, StreamRef stream = {},
                    const CallOptions& options = {}) {
    if (blocks_fit("all_gather_v", "recv", recv.size(), received))
      all_gather_v(send.data(), send.size(), recv.data(), received,
                   data_type_of<std::remove_const_t<T>>, stream, options);
  }
  /// The root receives the blocks of all ranks, of `count` elements from each. `recv` and
  /// `received`: only on the root. In place: the root's `send` is its block of `recv`.
  void gather_v(const void* send, std::size_t count, void* recv, const BlocksOf& received,
                DataType type, int root, StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void gather_v(std::span<T> send, std::span<std::remove_const_t<T>> recv, const BlocksOf& received,
                int root, StreamRef stream = {}, const CallOptions& options = {}) {
    if (rank() != root || blocks_fit("gather_v", "recv", recv.size(), received))
      gather_v(send.data(), send.size(), recv.data(), received,
               data_type_of<std::remove_const_t<T>>, root, stream, options);
  }
  /// Rank r receives block r of the root, `count` elements. `send` and `sent`: only on the root. In
  /// place: the root's `recv` is its block of `send`.
  void scatter_v(const void* send, const BlocksOf& sent, void* recv, std::size_t count,
                 DataType type, int root, StreamRef stream = {}, const CallOptions& options = {});
  template <class T>
  void scatter_v(std::span<T> send, const BlocksOf& sent, std::span<std::remove_const_t<T>> recv,
                 int root, StreamRef stream = {}, const CallOptions& options = {}) {
    if (rank() != root || blocks_fit("scatter_v", "send", send.size(), sent))
      scatter_v(send.data(), sent, recv.data(), recv.size(), data_type_of<std::remove_const_t<T>>,
                root, stream, options);
  }

  /// Rank r receives the reduction of block r of all ranks, `counts[r]` elements. The blocks lie
  /// one behind the other in `send`, in the order of their ranks. All ranks pass the same counts.
  /// In place: `recv` is this rank's block of `send`. It is a `reduce_scatter` if all counts are
  /// equal and no algorithm is named. Otherwise it is one `reduce` per block that has elements, all
  /// of them or none, so errors name that call, and options are for it.
  void reduce_scatter_v(const void* send, std::span<const std::size_t> counts, void* recv,
                        DataType type, ReduceOp op, StreamRef stream = {},
                        const CallOptions& options = {});
  /// `send` has as many elements as the counts add up to, and `recv` as many as this rank's count.
  template <class T>
  void reduce_scatter_v(std::span<T> send, std::span<const std::size_t> counts,
                        std::span<std::remove_const_t<T>> recv, ReduceOp op, StreamRef stream = {},
                        const CallOptions& options = {}) {
    if (counts_fit("reduce_scatter_v", send.size(), counts, recv.size()))
      reduce_scatter_v(send.data(), counts, recv.data(), data_type_of<std::remove_const_t<T>>, op,
                       stream, options);
  }

  /// The peers to which this rank sends, or from which it receives, in the order of the messages,
  /// with one count and displacement per entry. An entry of `proc_null` is passed over.
  struct NeighborBlocks {
    std::span<const int> peers;
    std::span<const std::size_t> counts, displacements;
  };
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
  template <class T>
  void neighbor_all_to_all_v(std::span<T> send, const NeighborBlocks& sent,
                             std::span<std::remove_const_t<T>> recv, const NeighborBlocks& received,
                             StreamRef stream = {}, const CallOptions& options = {}) {
    constexpr std::string_view what = "neighbor_all_to_all_v";
    const Peers peers{sent.peers, received.peers};
    if (blocks_fit(what, "send", send.size(), {sent.counts, sent.displacements}, &peers) &&
        blocks_fit(what, "recv", recv.size(), {received.counts, received.displacements}, &peers))
      neighbor_all_to_all_v(send.data(), sent, recv.data(), received,
                            data_type_of<std::remove_const_t<T>>, stream, options);
  }

  /// Any collective, for programs that learn at run time which one: bindings, benchmarks.
  /// Determines `symmetric`, `in_place` and `parts` of `call` itself. For messages it is a
  /// `send_recv` to the next rank and from the previous one; all ranks pass the same count, and
  /// either all pass a `recv` in symmetric memory, at the same offset, or none does.
  void enqueue(const Call& call, const void* send, void* recv, StreamRef stream = {},
               const CallOptions& options = {});

  /// The ranks to which the messages of a call go, and from which they come.
  struct Peers {
    std::span<const int> to{}, from{};
  };
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
  /// True if the `bytes` bytes from `pointer` on lie in symmetric memory of this communicator.
  /// Local.
  bool is_symmetric(const void* pointer, std::size_t bytes) const;

 private:
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

/// Symmetric memory as an array of T on this rank's device. The destructor frees it, and waits for
/// this rank's device to do so; mappings of it on peers stay valid until the peers free theirs.
/// Must not outlive the communicator.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Window> window, T* data, std::size_t count)
      : window_(std::move(window)), data_(data), count_(count) {}
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;
  /// Leaves `other` empty.
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
/// Bytes of `count` elements, or the largest number if they overflow. So an overflow is refused in
/// the call, where all ranks agree on the refusal.
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
