// Plait's collectives and messages on Kokkos views. Include this header; docs/kokkos.md is the
// guide.
//
// The rules of `Communicator` hold here. All calls add these:
//
// - Order. A call is ordered on the execution space instance `exec`, by default the instance of the
//   view's memory space. On Kokkos::Cuda and Kokkos::HIP it is asynchronous on the instance's
//   stream. On host spaces (Serial, OpenMP, Threads) it begins after `exec.fence()` and is complete
//   when it returns; a call in a `Group` is complete after the group's end and `synchronize(exec,
//   comm)`. So in both cases the result is there after `exec.fence()`, and a kernel launched on
//   `exec` sees it.
// - Views. Contiguous; LayoutLeft, LayoutRight, or LayoutStride with the strides of one of these;
//   rank 0 (one element) to 8. `src` may have const elements. `src` and `dst` have one value type.
//   If a collective has n blocks, one per rank, they are cut along the slowest extent (the first of
//   LayoutRight, the last of LayoutLeft): the view of n blocks is the view of one block with that
//   extent times n, or with one more, slower extent n. If only the root has a buffer, the argument
//   of other ranks is not looked at: `View()` will do.
// - Errors. The compiler reports mistakes in types. All other mistakes throw
//   `Error(invalid_argument)`, which names the view by its label, before anything is enqueued. This
//   also holds in a `Group`, whose end throws the error again if the program caught it.
// - Ranks. They pass the same extents and layout, for each buffer that they have. If a rank has
//   another layout, and blocks have several extents larger than 1, that is Error(mismatch) on all
//   ranks, like a call of another type: before the call with PLAIT_CHECK=1, else soon after.
//   Extents are not compared, only the number of elements: elements are combined as they lie in
//   memory, and ranks may give that memory different shapes. A message is a view's elements as they
//   lie in memory, so only their number must be the same at both ends.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "plait/collective_table.h"
#include "plait/communicator.hpp"
#include "plait/kokkos/buffers.hpp"
#include "plait/kokkos/spaces.hpp"
#include "plait/kokkos/symmetric_buffer.hpp"
#include "plait/kokkos/type_checks.hpp"
#include "plait/kokkos/value_types.hpp"

namespace plait::kokkos {
namespace detail {

/// Checks views of a call on `exec`.
template <class Exec, class... Facts>
void check_buffers(const Checks& checks, const Communicator& comm, const Facts&... buffers) {
  const auto check = [&](const ViewFacts& buffer) {
    checks.targets(backend_of<Exec>, Exec::name(), comm.backend_kind(), &buffer);
    checks.memory(buffer);
  };
  (check(buffers), ...);
}

template <class Exec>
void enqueue(const Exec& exec, Communicator& comm, const Call& call, const void* send, void* recv,
             const CallOptions& options) {
  const Region region(call);
  in_order(exec, comm, [&](StreamRef stream) { comm.enqueue(call, send, recv, stream, options); });
}

/// Any collective out of place. Finds type and count of `call` itself.
template <Collective collective, class Exec, class Src, class Dst>
void call(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, Call call,
          const CallOptions& options) {
  if constexpr (views_fit<Exec, Src, Dst, collective>()) {
    call.collective = collective;
    call.type = data_type_of<typename Src::non_const_value_type>;
    const Checks checks(comm, call);
    const ViewFacts from = facts_of(src, "src"), to = facts_of(dst, "dst");
    if (checks.sends()) check_buffers<Exec>(checks, comm, from);
    if (checks.receives()) check_buffers<Exec>(checks, comm, to);
    call.count = checks.count(from, to);
    checks.places(from, to, call.count);
    call.order = checks.order(from, to);
    enqueue(exec, comm, call, from.data, to.data, options);
  }
}

/// Any collective in place.
template <Collective collective, class Exec, class View>
void call_in_place(const Exec& exec, Communicator& comm, const View& view, Call call,
                   const CallOptions& options) {
  if constexpr (view_fits_in_place<Exec, View, collective>()) {
    call.collective = collective;
    call.type = data_type_of<typename View::non_const_value_type>;
    const Checks checks(comm, call);
    const ViewFacts buffer = facts_of(view, "view");
    check_buffers<Exec>(checks, comm, buffer);
    constexpr Blocks blocks = blocks_of(collective);
    call.count = blocks.many_sent || blocks.many_received ? checks.block_of(buffer) : buffer.size;
    call.order = checks.order_of_block(buffer, blocks.many_sent || blocks.many_received);
    auto* all = static_cast<std::byte*>(buffer.data);
    std::byte* mine = blocks.many_sent == blocks.many_received
                          ? all
                          : all + call.block_bytes() * static_cast<std::size_t>(comm.rank());
    enqueue(exec, comm, call, blocks.many_sent ? all : mine, blocks.many_sent ? mine : all,
            options);
  }
}

/// Messages, to and from `peers` or all ranks, in the call `function`: `check(checks)` checks them,
/// `enqueue(type, stream)` enqueues them. `call`: what is known of them but the type.
template <class View, class Exec, class Check, class Enqueue>
void call_messages(std::string_view function, const Exec& exec, Communicator& comm,
                   const std::optional<Communicator::Peers>& peers, Call call, const Check& check,
                   const Enqueue& enqueue) {
  call.type = data_type_of<typename View::non_const_value_type>;
  check(Checks(comm, call, function, peers));
  const Region region(function, call);
  in_order(exec, comm, [&](StreamRef stream) { enqueue(call.type, stream); });
}
}  // namespace detail

// The collectives, each in up to four forms:
//
//   NAME(exec, comm, src, dst, [op,] [root,] options = {})
//   NAME(comm, src, dst, ...)      on the default instance of the execution space of `dst`
//   NAME(exec, comm, view, ...)    in place, within one view: not of gather and scatter
//   NAME(comm, view, ...)          likewise, on the default instance of that of `view`
//
// NAME and its arguments: all_reduce, reduce_scatter, scan, exscan (op); broadcast, gather, scatter
// (root); reduce (op, root); all_gather, all_to_all. `Communicator` says what each does, with `src`
// for `send` and `dst` for `recv`, how many blocks they have, and what in place is.
#define PLAIT_KOKKOS_COLLECTIVE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                            \
  template <class Exec, class Src, class Dst>                                                      \
  void NAME(                                                                                       \
      const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,                        \
      PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, ) const CallOptions& options = {}) {  \
    detail::call<Collective::NAME>(                                                                \
        exec, comm, src, dst, {PLAIT_IF_##OP(.op = op, ) PLAIT_IF_##ROOT(.root = root)}, options); \
  }                                                                                                \
  template <class Src, class Dst>                                                                  \
  void NAME(                                                                                       \
      Communicator& comm, const Src& src, const Dst& dst,                                          \
      PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, ) const CallOptions& options = {}) {  \
    NAME(detail::default_space<Dst>(), comm, src, dst,                                             \
         PLAIT_IF_##OP(op, ) PLAIT_IF_##ROOT(root, ) options);                                     \
  }                                                                                                \
  template <class Exec, class View>                                                                \
  requires(detail::fits_in_one_view(Collective::NAME)) void NAME(                                  \
      const Exec& exec, Communicator& comm, const View& view,                                      \
      PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, ) const CallOptions& options = {}) {  \
    detail::call_in_place<Collective::NAME>(                                                       \
        exec, comm, view, {PLAIT_IF_##OP(.op = op, ) PLAIT_IF_##ROOT(.root = root)}, options);     \
  }                                                                                                \
  template <class View>                                                                            \
  requires(detail::fits_in_one_view(Collective::NAME)) void NAME(                                  \
      Communicator& comm, const View& view,                                                        \
      PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, ) const CallOptions& options = {}) {  \
    NAME(detail::default_space<View>(), comm, view,                                                \
         PLAIT_IF_##OP(op, ) PLAIT_IF_##ROOT(root, ) options);                                     \
  }
PLAIT_COLLECTIVES(PLAIT_KOKKOS_COLLECTIVE, PLAIT_NO_OTHER)
#undef PLAIT_KOKKOS_COLLECTIVE

// Messages between two ranks, and calls with a count per rank: elements of views as they lie in
// memory. `Communicator` has their rules. On host spaces a message is complete when the call
// returns, so `send` may wait until the peer has reached its `recv`. The view for a peer that is
// `plait::proc_null` may be empty.
//
// Without `exec`, all run on the default instance of the execution space of the view that receives,
// `send` on that of the view that it sends:
#define PLAIT_PLAIN(...) __VA_ARGS__
#define PLAIT_KOKKOS_ON_DEFAULT(NAME, TYPES, RECEIVES, PARAMETERS, ARGUMENTS)              \
  template <PLAIT_PLAIN TYPES>                                                             \
  void NAME(Communicator& comm, PLAIT_PLAIN PARAMETERS, const CallOptions& options = {}) { \
    NAME(detail::default_space<RECEIVES>(), comm, PLAIT_PLAIN ARGUMENTS, options);         \
  }

/// Sends all of `src` to rank `to`. A message to the own rank needs its `recv` in the same `Group`.
template <class Exec, class Src>
void send(const Exec& exec, Communicator& comm, const Src& src, int to,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Src, detail::Access::read>()) {
    const detail::ViewFacts data = detail::facts_of(src, "src");
    detail::call_messages<Src>(
        "send", exec, comm, Communicator::Peers{.to = detail::peer(to, data)},
        detail::messages(data.size),
        [&](const detail::Checks& checks) { detail::check_buffers<Exec>(checks, comm, data); },
        [&](DataType type, StreamRef stream) {
          comm.send(data.data, data.size, type, to, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(send, (class Src), Src, (const Src& src, int to), (src, to))

/// Receives all of `dst` from rank `from`.
template <class Exec, class Dst>
void recv(const Exec& exec, Communicator& comm, const Dst& dst, int from,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Dst, detail::Access::write>()) {
    const detail::ViewFacts data = detail::facts_of(dst, "dst");
    detail::call_messages<Dst>(
        "recv", exec, comm, Communicator::Peers{.from = detail::peer(from, data)},
        detail::messages(data.size),
        [&](const detail::Checks& checks) { detail::check_buffers<Exec>(checks, comm, data); },
        [&](DataType type, StreamRef stream) {
          comm.recv(data.data, data.size, type, from, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(recv, (class Dst), Dst, (const Dst& dst, int from), (dst, from))

/// Both at once: sends all of `src` to rank `to`, receives all of `dst` from rank `from`. The views
/// are disjoint and have one value type; their shapes may differ.
template <class Exec, class Src, class Dst>
void send_recv(const Exec& exec, Communicator& comm, const Src& src, int to, const Dst& dst,
               int from, const CallOptions& options = {}) {
  if constexpr (detail::messages_fit<Exec, Src, Dst>()) {
    const detail::ViewFacts sent = detail::facts_of(src, "src"),
                            received = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "send_recv", exec, comm,
        Communicator::Peers{detail::peer(to, sent), detail::peer(from, received)},
        detail::messages(sent.size),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, sent, received);
          if (to != proc_null && from != proc_null) checks.disjoint(sent, received);
        },
        [&](DataType type, StreamRef stream) {
          comm.send_recv(sent.data, sent.size, to, received.data, received.size, from, type, stream,
                         options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(send_recv, (class Src, class Dst), Dst,
                        (const Src& src, int to, const Dst& dst, int from), (src, to, dst, from))

/// A message from every rank to every rank, including itself. `src` and `dst` are views of rank 1.
/// Counts, here and below, are in host memory, and read before the call returns.
template <class Exec, class Src, class Dst>
void all_to_all_v(const Exec& exec, Communicator& comm, const Src& src,
                  const Communicator::BlocksOf& sent, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "all_to_all_v", exec, comm, std::nullopt, detail::messages(sent.counts),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, from, to);
          checks.within(from, sent, "for");
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.all_to_all_v(from.data, sent, to.data, received, type, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(all_to_all_v, (class Src, class Dst), Dst,
                        (const Src& src, const Communicator::BlocksOf& sent, const Dst& dst,
                         const Communicator::BlocksOf& received),
                        (src, sent, dst, received))

/// Every rank receives the blocks of all ranks, in `dst`, a view of rank 1. All of `src` is this
/// rank's block.
template <class Exec, class Src, class Dst>
void all_gather_v(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "all_gather_v", exec, comm, std::nullopt, detail::messages(from.size),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, from, to);
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.all_gather_v(from.data, from.size, to.data, received, type, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(all_gather_v, (class Src, class Dst), Dst,
                        (const Src& src, const Dst& dst, const Communicator::BlocksOf& received),
                        (src, dst, received))

/// The root receives the blocks of all ranks, in `dst`, a view of rank 1. All of `src` is this
/// rank's block. `dst` and `received`: only on the root.
template <class Exec, class Src, class Dst>
void gather_v(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
              const Communicator::BlocksOf& received, int root, const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "gather_v", exec, comm, std::nullopt, detail::messages(from.size),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, from);
          if (!checks.is_root(root)) return;
          detail::check_buffers<Exec>(checks, comm, to);
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.gather_v(from.data, from.size, to.data, received, type, root, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(gather_v, (class Src, class Dst), Dst,
                        (const Src& src, const Dst& dst, const Communicator::BlocksOf& received,
                         int root),
                        (src, dst, received, root))

/// Rank r receives block r of the root's `src`, a view of rank 1, in all of `dst`. `src` and
/// `sent`: only on the root.
template <class Exec, class Src, class Dst>
void scatter_v(const Exec& exec, Communicator& comm, const Src& src,
               const Communicator::BlocksOf& sent, const Dst& dst, int root,
               const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "scatter_v", exec, comm, std::nullopt, detail::messages(to.size),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, to);
          if (!checks.is_root(root)) return;
          detail::check_buffers<Exec>(checks, comm, from);
          checks.within(from, sent, "for");
        },
        [&](DataType type, StreamRef stream) {
          comm.scatter_v(from.data, sent, to.data, to.size, type, root, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(scatter_v, (class Src, class Dst), Dst,
                        (const Src& src, const Communicator::BlocksOf& sent, const Dst& dst,
                         int root),
                        (src, sent, dst, root))

/// Rank r receives in `dst` the reduction of block r of `src`, `counts[r]` elements, of all ranks.
/// `src` is a view of rank 1 with the blocks one behind the other, in the order of their ranks.
template <class Exec, class Src, class Dst>
void reduce_scatter_v(const Exec& exec, Communicator& comm, const Src& src,
                      std::span<const std::size_t> counts, const Dst& dst, ReduceOp op,
                      const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "reduce_scatter_v", exec, comm, std::nullopt,
        {.collective = Collective::reduce_scatter, .op = op, .count = to.size},
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, from, to);
          checks.counted_blocks(from, to, counts);
        },
        [&](DataType type, StreamRef stream) {
          comm.reduce_scatter_v(from.data, counts, to.data, type, op, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(reduce_scatter_v, (class Src, class Dst), Dst,
                        (const Src& src, std::span<const std::size_t> counts, const Dst& dst,
                         ReduceOp op),
                        (src, counts, dst, op))

/// A message to each peer of `sent`, and from each of `received`: the exchange of halos. `src` and
/// `dst` are views of rank 1, and may be one. `Communicator` says in which order the two lists name
/// the peers.
template <class Exec, class Src, class Dst>
void neighbor_all_to_all_v(const Exec& exec, Communicator& comm, const Src& src,
                           const Communicator::NeighborBlocks& sent, const Dst& dst,
                           const Communicator::NeighborBlocks& received,
                           const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "neighbor_all_to_all_v", exec, comm, Communicator::Peers{sent.peers, received.peers},
        detail::messages(sent.counts),
        [&](const detail::Checks& checks) {
          detail::check_buffers<Exec>(checks, comm, from, to);
          checks.within(from, sent, "for");
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.neighbor_all_to_all_v(from.data, sent, to.data, received, type, stream, options);
        });
  }
}
PLAIT_KOKKOS_ON_DEFAULT(neighbor_all_to_all_v, (class Src, class Dst), Dst,
                        (const Src& src, const Communicator::NeighborBlocks& sent, const Dst& dst,
                         const Communicator::NeighborBlocks& received),
                        (src, sent, dst, received))

/// No rank's `exec` passes this point before all ranks' have reached it. On host spaces, no call
/// returns before all ranks have called it.
template <class Exec>
void barrier(const Exec& exec, Communicator& comm) {
  if constexpr (detail::execution_space_fits<Exec>()) {
    detail::Checks(comm, {.collective = Collective::barrier})
        .targets(detail::backend_of<Exec>, Exec::name(), comm.backend_kind());
    const detail::Region region({.collective = Collective::barrier});
    detail::in_order(exec, comm, [&](StreamRef stream) { comm.barrier(stream); });
  }
}

#undef PLAIT_KOKKOS_ON_DEFAULT
#undef PLAIT_PLAIN

}  // namespace plait::kokkos
