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
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

#include "plait/communicator.hpp"
#include "plait/kokkos/buffers.hpp"
#include "plait/kokkos/spaces.hpp"
#include "plait/kokkos/symmetric_buffer.hpp"
#include "plait/kokkos/type_checks.hpp"
#include "plait/kokkos/value_types.hpp"

namespace plait::kokkos {
namespace detail {

/// Checks one view of a call on `exec`.
template <class Exec>
void check_buffer(const Checks& checks, const Communicator& comm, const ViewFacts& buffer) {
  checks.targets(backend_of<Exec>, Exec::name(), comm.backend_kind(), &buffer);
  checks.memory(buffer);
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
    if (checks.sends()) check_buffer<Exec>(checks, comm, from);
    if (checks.receives()) check_buffer<Exec>(checks, comm, to);
    call.count = checks.count(from, to);
    checks.places(from, to, call.count);
    call.order = checks.order(from, to);
    enqueue(exec, comm, call, from.data, to.data, options);
  }
}

/// Any collective in place, except gather and scatter, where only the root has a view with all
/// blocks.
template <Collective collective, class Exec, class View>
void call_in_place(const Exec& exec, Communicator& comm, const View& view, Call call,
                   const CallOptions& options) {
  if constexpr (view_fits_in_place<Exec, View, collective>()) {
    call.collective = collective;
    call.type = data_type_of<typename View::non_const_value_type>;
    const Checks checks(comm, call);
    const ViewFacts buffer = facts_of(view, "view");
    check_buffer<Exec>(checks, comm, buffer);
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

/// The peer of a message, if that has elements.
inline std::span<const int> peer(const int& rank, const ViewFacts& buffer) {
  return {&rank, buffer.size == 0 ? 0u : 1u};
}

/// Messages of `count` elements, to and from `peers` or all ranks, in the call `function`:
/// `check(checks)` checks them, `enqueue(type, stream)` enqueues them.
template <class View, class Exec, class Check, class Enqueue>
void call_messages(std::string_view function, const Exec& exec, Communicator& comm,
                   const std::optional<Communicator::Peers>& peers, std::size_t count,
                   const Check& check, const Enqueue& enqueue) {
  const Call call{.collective = Collective::send_recv,
                  .type = data_type_of<typename View::non_const_value_type>,
                  .count = count};
  check(Checks(comm, call, function, peers));
  const Region region(function, call);
  in_order(exec, comm, [&](StreamRef stream) { enqueue(call.type, stream); });
}

}  // namespace detail

/// Reduces the views of all ranks element by element, into `dst` on all ranks. `src` and `dst` have
/// the same extents.
template <class Exec, class Src, class Dst>
void all_reduce(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
                const CallOptions& options = {}) {
  detail::call<Collective::all_reduce>(exec, comm, src, dst, {.op = op}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void all_reduce(Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
                const CallOptions& options = {}) {
  all_reduce(detail::default_space<Dst>(), comm, src, dst, op, options);
}
/// The same within one view.
template <class Exec, class View>
void all_reduce(const Exec& exec, Communicator& comm, const View& view, ReduceOp op,
                const CallOptions& options = {}) {
  detail::call_in_place<Collective::all_reduce>(exec, comm, view, {.op = op}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void all_reduce(Communicator& comm, const View& view, ReduceOp op,
                const CallOptions& options = {}) {
  all_reduce(detail::default_space<View>(), comm, view, op, options);
}

/// Reduces views of n blocks. Rank r receives block r of the result. `src`: n blocks; `dst`: one.
template <class Exec, class Src, class Dst>
void reduce_scatter(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
                    ReduceOp op, const CallOptions& options = {}) {
  detail::call<Collective::reduce_scatter>(exec, comm, src, dst, {.op = op}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void reduce_scatter(Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
                    const CallOptions& options = {}) {
  reduce_scatter(detail::default_space<Dst>(), comm, src, dst, op, options);
}
/// In place: `view` has n blocks, and rank r's result is block r; the other blocks are unchanged.
template <class Exec, class View>
void reduce_scatter(const Exec& exec, Communicator& comm, const View& view, ReduceOp op,
                    const CallOptions& options = {}) {
  detail::call_in_place<Collective::reduce_scatter>(exec, comm, view, {.op = op}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void reduce_scatter(Communicator& comm, const View& view, ReduceOp op,
                    const CallOptions& options = {}) {
  reduce_scatter(detail::default_space<View>(), comm, view, op, options);
}

/// Every rank receives the blocks of all ranks, in rank order. `src`: one block; `dst`: n.
template <class Exec, class Src, class Dst>
void all_gather(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
                const CallOptions& options = {}) {
  detail::call<Collective::all_gather>(exec, comm, src, dst, {}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void all_gather(Communicator& comm, const Src& src, const Dst& dst,
                const CallOptions& options = {}) {
  all_gather(detail::default_space<Dst>(), comm, src, dst, options);
}
/// In place: `view` has n blocks, and rank r sends block r of it.
template <class Exec, class View>
void all_gather(const Exec& exec, Communicator& comm, const View& view,
                const CallOptions& options = {}) {
  detail::call_in_place<Collective::all_gather>(exec, comm, view, {}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void all_gather(Communicator& comm, const View& view, const CallOptions& options = {}) {
  all_gather(detail::default_space<View>(), comm, view, options);
}

/// Every rank, including the root, receives the root's `src` in `dst`. Both have the same extents.
template <class Exec, class Src, class Dst>
void broadcast(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, int root,
               const CallOptions& options = {}) {
  detail::call<Collective::broadcast>(exec, comm, src, dst, {.root = root}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void broadcast(Communicator& comm, const Src& src, const Dst& dst, int root,
               const CallOptions& options = {}) {
  broadcast(detail::default_space<Dst>(), comm, src, dst, root, options);
}
/// In place: every rank receives the root's `view` in its own.
template <class Exec, class View>
void broadcast(const Exec& exec, Communicator& comm, const View& view, int root,
               const CallOptions& options = {}) {
  detail::call_in_place<Collective::broadcast>(exec, comm, view, {.root = root}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void broadcast(Communicator& comm, const View& view, int root, const CallOptions& options = {}) {
  broadcast(detail::default_space<View>(), comm, view, root, options);
}

/// Reduces the views of all ranks element by element, into the root's `dst`. Both have the same
/// extents.
template <class Exec, class Src, class Dst>
void reduce(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
            int root, const CallOptions& options = {}) {
  detail::call<Collective::reduce>(exec, comm, src, dst, {.op = op, .root = root}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void reduce(Communicator& comm, const Src& src, const Dst& dst, ReduceOp op, int root,
            const CallOptions& options = {}) {
  reduce(detail::default_space<Dst>(), comm, src, dst, op, root, options);
}
/// In place: the root's `view` receives the result; those of other ranks are unchanged.
template <class Exec, class View>
void reduce(const Exec& exec, Communicator& comm, const View& view, ReduceOp op, int root,
            const CallOptions& options = {}) {
  detail::call_in_place<Collective::reduce>(exec, comm, view, {.op = op, .root = root}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void reduce(Communicator& comm, const View& view, ReduceOp op, int root,
            const CallOptions& options = {}) {
  reduce(detail::default_space<View>(), comm, view, op, root, options);
}

/// Rank r receives in `dst` the reduction of the views of ranks 0 to r, element by element. `src`
/// and `dst` have the same extents. Any operation but `avg`.
template <class Exec, class Src, class Dst>
void scan(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
          const CallOptions& options = {}) {
  detail::call<Collective::scan>(exec, comm, src, dst, {.op = op}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void scan(Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
          const CallOptions& options = {}) {
  scan(detail::default_space<Dst>(), comm, src, dst, op, options);
}
/// The same within one view.
template <class Exec, class View>
void scan(const Exec& exec, Communicator& comm, const View& view, ReduceOp op,
          const CallOptions& options = {}) {
  detail::call_in_place<Collective::scan>(exec, comm, view, {.op = op}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void scan(Communicator& comm, const View& view, ReduceOp op, const CallOptions& options = {}) {
  scan(detail::default_space<View>(), comm, view, op, options);
}

/// The same without the own view: rank r receives the reduction of those of ranks 0 to r - 1. `dst`
/// of rank 0 is unchanged.
template <class Exec, class Src, class Dst>
void exscan(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
            const CallOptions& options = {}) {
  detail::call<Collective::exscan>(exec, comm, src, dst, {.op = op}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void exscan(Communicator& comm, const Src& src, const Dst& dst, ReduceOp op,
            const CallOptions& options = {}) {
  exscan(detail::default_space<Dst>(), comm, src, dst, op, options);
}
/// The same within one view.
template <class Exec, class View>
void exscan(const Exec& exec, Communicator& comm, const View& view, ReduceOp op,
            const CallOptions& options = {}) {
  detail::call_in_place<Collective::exscan>(exec, comm, view, {.op = op}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void exscan(Communicator& comm, const View& view, ReduceOp op, const CallOptions& options = {}) {
  exscan(detail::default_space<View>(), comm, view, op, options);
}

/// Rank r receives block r of every rank, in rank order. `src` and `dst`: n blocks each.
template <class Exec, class Src, class Dst>
void all_to_all(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
                const CallOptions& options = {}) {
  detail::call<Collective::all_to_all>(exec, comm, src, dst, {}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void all_to_all(Communicator& comm, const Src& src, const Dst& dst,
                const CallOptions& options = {}) {
  all_to_all(detail::default_space<Dst>(), comm, src, dst, options);
}
/// The same within one view.
template <class Exec, class View>
void all_to_all(const Exec& exec, Communicator& comm, const View& view,
                const CallOptions& options = {}) {
  detail::call_in_place<Collective::all_to_all>(exec, comm, view, {}, options);
}
/// On the default instance of the execution space of `view`.
template <class View>
void all_to_all(Communicator& comm, const View& view, const CallOptions& options = {}) {
  all_to_all(detail::default_space<View>(), comm, view, options);
}

/// The root receives the blocks of all ranks, in rank order. `src`: one block; `dst`: n, only on
/// the root. In place: the root's `src` is its block of `dst`. In symmetric memory all ranks then
/// pass the offset of that block, the root's, as `src`, instead of their own block's.
template <class Exec, class Src, class Dst>
void gather(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, int root,
            const CallOptions& options = {}) {
  detail::call<Collective::gather>(exec, comm, src, dst, {.root = root}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void gather(Communicator& comm, const Src& src, const Dst& dst, int root,
            const CallOptions& options = {}) {
  gather(detail::default_space<Dst>(), comm, src, dst, root, options);
}

/// Rank r receives block r of the root. `src`: n blocks, only on the root; `dst`: one. In place:
/// the root's `dst` is its block of `src`. In symmetric memory all ranks then pass the offset of
/// that block, the root's, as `dst`, instead of their own block's.
template <class Exec, class Src, class Dst>
void scatter(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst, int root,
             const CallOptions& options = {}) {
  detail::call<Collective::scatter>(exec, comm, src, dst, {.root = root}, options);
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void scatter(Communicator& comm, const Src& src, const Dst& dst, int root,
             const CallOptions& options = {}) {
  scatter(detail::default_space<Dst>(), comm, src, dst, root, options);
}

// Messages between two ranks: the elements of a view as they lie in memory. On host spaces a
// message is complete when the call returns, so `send` may wait until the peer has reached its
// `recv`. Ranks that send to each other use `send_recv`, or put both calls in a `Group`. A peer
// that is `plait::proc_null` gets nothing and sends nothing: the view for it may be empty.

/// Sends all of `src` to rank `to`. A message to the own rank needs its `recv` in the same `Group`.
template <class Exec, class Src>
void send(const Exec& exec, Communicator& comm, const Src& src, int to,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Src, detail::Access::read>()) {
    const detail::ViewFacts data = detail::facts_of(src, "src");
    detail::call_messages<Src>(
        "send", exec, comm, Communicator::Peers{.to = detail::peer(to, data)}, data.size,
        [&](const detail::Checks& checks) { detail::check_buffer<Exec>(checks, comm, data); },
        [&](DataType type, StreamRef stream) {
          comm.send(data.data, data.size, type, to, stream, options);
        });
  }
}
/// On the default instance of the execution space of `src`.
template <class Src>
void send(Communicator& comm, const Src& src, int to, const CallOptions& options = {}) {
  send(detail::default_space<Src>(), comm, src, to, options);
}

/// Receives all of `dst` from rank `from`.
template <class Exec, class Dst>
void recv(const Exec& exec, Communicator& comm, const Dst& dst, int from,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Dst, detail::Access::write>()) {
    const detail::ViewFacts data = detail::facts_of(dst, "dst");
    detail::call_messages<Dst>(
        "recv", exec, comm, Communicator::Peers{.from = detail::peer(from, data)}, data.size,
        [&](const detail::Checks& checks) { detail::check_buffer<Exec>(checks, comm, data); },
        [&](DataType type, StreamRef stream) {
          comm.recv(data.data, data.size, type, from, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Dst>
void recv(Communicator& comm, const Dst& dst, int from, const CallOptions& options = {}) {
  recv(detail::default_space<Dst>(), comm, dst, from, options);
}

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
        Communicator::Peers{detail::peer(to, sent), detail::peer(from, received)}, sent.size,
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, sent);
          detail::check_buffer<Exec>(checks, comm, received);
          if (to != proc_null && from != proc_null) checks.disjoint(sent, received);
        },
        [&](DataType type, StreamRef stream) {
          comm.send_recv(sent.data, sent.size, to, received.data, received.size, from, type, stream,
                         options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void send_recv(Communicator& comm, const Src& src, int to, const Dst& dst, int from,
               const CallOptions& options = {}) {
  send_recv(detail::default_space<Dst>(), comm, src, to, dst, from, options);
}

/// A message from every rank to every rank, including itself. `src` and `dst` are views of rank 1;
/// `sent` and `received` say, for each rank, how many elements it is sent or sends, and where they
/// begin. Rank a sends b as many elements as b receives from a. Called by all ranks. The counts are
/// in host memory, and read before it returns.
template <class Exec, class Src, class Dst>
void all_to_all_v(const Exec& exec, Communicator& comm, const Src& src,
                  const Communicator::BlocksOf& sent, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  if constexpr (detail::displaced_messages_fit<Exec, Src, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "all_to_all_v", exec, comm, std::nullopt,
        std::accumulate(sent.counts.begin(), sent.counts.end(), std::size_t{0}),
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, from);
          detail::check_buffer<Exec>(checks, comm, to);
          checks.within(from, sent, "for");
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.all_to_all_v(from.data, sent, to.data, received, type, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void all_to_all_v(Communicator& comm, const Src& src, const Communicator::BlocksOf& sent,
                  const Dst& dst, const Communicator::BlocksOf& received,
                  const CallOptions& options = {}) {
  all_to_all_v(detail::default_space<Dst>(), comm, src, sent, dst, received, options);
}

/// Every rank receives the blocks of all ranks, in `dst`, a view of rank 1. All of `src` is this
/// rank's block: `received.counts[rank]` elements. In place: `src` is this rank's block of `dst`.
/// Called by all ranks.
template <class Exec, class Src, class Dst>
void all_gather_v(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "all_gather_v", exec, comm, std::nullopt, from.size,
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, from);
          detail::check_buffer<Exec>(checks, comm, to);
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.all_gather_v(from.data, from.size, to.data, received, type, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void all_gather_v(Communicator& comm, const Src& src, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  all_gather_v(detail::default_space<Dst>(), comm, src, dst, received, options);
}

/// The root receives the blocks of all ranks, in `dst`, a view of rank 1. All of `src` is this
/// rank's block. `dst` and `received`: only on the root. In place: the root's `src` is its block of
/// `dst`. Called by all ranks.
template <class Exec, class Src, class Dst>
void gather_v(const Exec& exec, Communicator& comm, const Src& src, const Dst& dst,
              const Communicator::BlocksOf& received, int root, const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "gather_v", exec, comm, std::nullopt, from.size,
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, from);
          if (!checks.is_root(root)) return;
          detail::check_buffer<Exec>(checks, comm, to);
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.gather_v(from.data, from.size, to.data, received, type, root, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void gather_v(Communicator& comm, const Src& src, const Dst& dst,
              const Communicator::BlocksOf& received, int root, const CallOptions& options = {}) {
  gather_v(detail::default_space<Dst>(), comm, src, dst, received, root, options);
}

/// Rank r receives block r of the root's `src`, a view of rank 1, in all of `dst`. `src` and
/// `sent`: only on the root. In place: the root's `dst` is its block of `src`. Called by all ranks.
template <class Exec, class Src, class Dst>
void scatter_v(const Exec& exec, Communicator& comm, const Src& src,
               const Communicator::BlocksOf& sent, const Dst& dst, int root,
               const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "scatter_v", exec, comm, std::nullopt, to.size,
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, to);
          if (!checks.is_root(root)) return;
          detail::check_buffer<Exec>(checks, comm, from);
          checks.within(from, sent, "for");
        },
        [&](DataType type, StreamRef stream) {
          comm.scatter_v(from.data, sent, to.data, to.size, type, root, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void scatter_v(Communicator& comm, const Src& src, const Communicator::BlocksOf& sent,
               const Dst& dst, int root, const CallOptions& options = {}) {
  scatter_v(detail::default_space<Dst>(), comm, src, sent, dst, root, options);
}

/// Rank r receives in `dst` the reduction of block r of `src`, `counts[r]` elements, of all ranks.
/// `src` is a view of rank 1 with the blocks one behind the other, in the order of their ranks. In
/// place: `dst` is this rank's block of `src`; the other blocks are unchanged. Called by all ranks,
/// with the same counts. They are in host memory, and read before it returns.
template <class Exec, class Src, class Dst>
void reduce_scatter_v(const Exec& exec, Communicator& comm, const Src& src,
                      std::span<const std::size_t> counts, const Dst& dst, ReduceOp op,
                      const CallOptions& options = {}) {
  if constexpr (detail::displaced_blocks_fit<Exec, Src, Dst, Src>()) {
    constexpr std::string_view function = "reduce_scatter_v";
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    const Call call{.collective = Collective::reduce_scatter,
                    .type = data_type_of<typename Src::non_const_value_type>,
                    .op = op,
                    .count = to.size};
    const detail::Checks checks(comm, call, function);
    detail::check_buffer<Exec>(checks, comm, from);
    detail::check_buffer<Exec>(checks, comm, to);
    checks.counted_blocks(from, to, counts);
    const detail::Region region(function, call);
    detail::in_order(exec, comm, [&](StreamRef stream) {
      comm.reduce_scatter_v(from.data, counts, to.data, call.type, op, stream, options);
    });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void reduce_scatter_v(Communicator& comm, const Src& src, std::span<const std::size_t> counts,
                      const Dst& dst, ReduceOp op, const CallOptions& options = {}) {
  reduce_scatter_v(detail::default_space<Dst>(), comm, src, counts, dst, op, options);
}

/// A message to each peer of `sent`, and from each of `received`: the exchange of halos. `src` and
/// `dst` are views of rank 1, and may be one. `Communicator` says in which order the two lists name
/// the peers.
template <class Exec, class Src, class Dst>
void neighbor_all_to_all_v(const Exec& exec, Communicator& comm, const Src& src,
                           const Communicator::NeighborBlocks& sent, const Dst& dst,
                           const Communicator::NeighborBlocks& received,
                           const CallOptions& options = {}) {
  if constexpr (detail::displaced_messages_fit<Exec, Src, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "neighbor_all_to_all_v", exec, comm, Communicator::Peers{sent.peers, received.peers},
        std::accumulate(sent.counts.begin(), sent.counts.end(), std::size_t{0}),
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, from);
          detail::check_buffer<Exec>(checks, comm, to);
          checks.within(from, sent, "for");
          checks.within(to, received, "from");
        },
        [&](DataType type, StreamRef stream) {
          comm.neighbor_all_to_all_v(from.data, sent, to.data, received, type, stream, options);
        });
  }
}
/// On the default instance of the execution space of `dst`.
template <class Src, class Dst>
void neighbor_all_to_all_v(Communicator& comm, const Src& src,
                           const Communicator::NeighborBlocks& sent, const Dst& dst,
                           const Communicator::NeighborBlocks& received,
                           const CallOptions& options = {}) {
  neighbor_all_to_all_v(detail::default_space<Dst>(), comm, src, sent, dst, received, options);
}

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

}  // namespace plait::kokkos
