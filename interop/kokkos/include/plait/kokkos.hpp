// Plait's collectives and messages on Kokkos views. Include this; docs/kokkos.md is the guide.
//
// What `Communicator` says of each call holds here. What is added, for all of them:
//
// - Order. A call is ordered on the execution space instance `exec`, by default that of the view's
// memory space. On Kokkos::Cuda and
//   Kokkos::HIP it is asynchronous on the instance's stream. On host spaces (Serial, OpenMP,
//   Threads) it begins after `exec.fence()` and is complete when it returns, but for a call in a
//   `Group`, which is complete after the group's end and `synchronize(exec, comm)`. So in both
//   cases the result is there after `exec.fence()`, and a kernel launched on `exec` sees it.
// - Views. Contiguous; LayoutLeft, LayoutRight, or LayoutStride with the strides of one of these;
// of rank 0 (one element) to 8. `src` may
//   be of const elements. `src` and `dst` have one value type. Where a collective knows blocks, one
//   for each of n ranks, they are cut along the slowest extent (the first of LayoutRight, the last
//   of LayoutLeft): the view of n blocks is the view of one with that extent times n, or has one
//   more, slower extent n. Where only the root has a buffer, the others' argument is not looked at:
//   `View()` will do.
// - Errors. What types tell is said by the compiler. Anything else throws `Error(invalid_argument)`
// that names the view by its label,
//   before anything is enqueued. In a `Group` too, and there the group's end throws it again if it
//   was caught.
// - Ranks pass the same extents and layout, as far as each has the buffer. Another layout on
// another rank, of blocks with several extents
//   larger than 1, is Error(mismatch) on all ranks, as a call of another type is: before it with
//   PLAIT_CHECK=1, else soon after. Extents are not compared, only the number of elements: elements
//   are combined as they lie in memory, and ranks may give that several shapes. Of a message, which
//   is a view's elements as they lie in memory, only the number must be the same at both ends.
#pragma once
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "plait/communicator.hpp"
#include "plait/kokkos/buffers.hpp"
#include "plait/kokkos/spaces.hpp"
#include "plait/kokkos/symmetric_buffer.hpp"
#include "plait/kokkos/type_checks.hpp"
#include "plait/kokkos/value_types.hpp"

namespace plait::kokkos {
namespace detail {

/// What any view must be that takes part in a call on `exec`.
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

/// Any collective out of place. Of `call`, type and count are found out here.
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

/// Any collective in place, but gather and scatter, of which only the root has a view with all
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

/// Messages of `count` elements, as `function`: checked by `check(checks)`, enqueued by
/// `enqueue(type, stream)`.
template <class View, class Exec, class Check, class Enqueue>
void call_messages(std::string_view function, const Exec& exec, Communicator& comm,
                   std::size_t count, const Check& check, const Enqueue& enqueue) {
  const Call call{.collective = Collective::send_recv,
                  .type = data_type_of<typename View::non_const_value_type>,
                  .count = count};
  check(Checks(comm, call, function));
  const Region region(function, call);
  in_order(exec, comm, [&](StreamRef stream) { enqueue(call.type, stream); });
}

}  // namespace detail

/// Reduces the views of all ranks element by element, into `dst` on all ranks; `src` and `dst` have
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

/// Reduces views of n blocks; rank r receives block r of the result. `src`: n blocks; `dst`: one.
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
/// In place: rank r's result is block r of `view`, of n blocks; the others stay as they are.
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

/// Every rank receives the blocks of all ranks, in their order. `src`: one block; `dst`: n.
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
/// In place: rank r's block is block r of `view`, of n blocks.
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

/// Every rank, the root too, receives the root's `src` in `dst`; the same extents.
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
/// In place: the root's `view` goes into that of every other rank.
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

/// Reduces the views of all ranks element by element, into the root's `dst`; the same extents.
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
/// In place: the root's `view` receives the result; the others' stay as they are.
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

/// Rank r receives block r of every rank, in the order of ranks. `src` and `dst`: n blocks each.
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

/// The root receives the blocks of all ranks, in their order. `src`: one block; `dst`: n, of the
/// root alone. In place: the root's `src` is its block of `dst`; in symmetric memory all ranks then
/// pass the root's block as `src`, and not each its own.
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

/// Rank r receives block r of the root. `src`: n blocks, of the root alone; `dst`: one. In place:
/// the root's `dst` is its block of `src`; in symmetric memory all ranks then pass the root's block
/// as `dst`, and not each its own.
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

// Messages between two ranks: a view's elements, as they lie in memory. On host spaces a message,
// too, is complete when the call returns, so that `send` may wait until the peer has come to its
// `recv`: ranks that send to each other say `send_recv`, or put both in a `Group`.

/// All of `src`, for rank `to`. With `to` the own rank, in a `Group` with the `recv`.
template <class Exec, class Src>
void send(const Exec& exec, Communicator& comm, const Src& src, int to,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Src, detail::Access::read>()) {
    const detail::ViewFacts data = detail::facts_of(src, "src");
    detail::call_messages<Src>(
        "send", exec, comm, data.size,
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

/// All of `dst`, from rank `from`.
template <class Exec, class Dst>
void recv(const Exec& exec, Communicator& comm, const Dst& dst, int from,
          const CallOptions& options = {}) {
  if constexpr (detail::view_fits<Exec, Dst, detail::Access::write>()) {
    const detail::ViewFacts data = detail::facts_of(dst, "dst");
    detail::call_messages<Dst>(
        "recv", exec, comm, data.size,
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

/// Both at once: all of `src` for rank `to`, all of `dst` from rank `from`. The views are disjoint,
/// of one value type and of any two shapes.
template <class Exec, class Src, class Dst>
void send_recv(const Exec& exec, Communicator& comm, const Src& src, int to, const Dst& dst,
               int from, const CallOptions& options = {}) {
  if constexpr (detail::messages_fit<Exec, Src, Dst>()) {
    const detail::ViewFacts sent = detail::facts_of(src, "src"),
                            received = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "send_recv", exec, comm, sent.size,
        [&](const detail::Checks& checks) {
          detail::check_buffer<Exec>(checks, comm, sent);
          detail::check_buffer<Exec>(checks, comm, received);
          checks.disjoint(sent, received);
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

/// A message from every rank to every rank, the own one too: blocks of `src` and `dst`, views of
/// rank 1, of which `sent` and `received` say for each rank how many elements, and from which on.
/// What rank a sends to b is as long as what b receives from a. Called by all ranks. The counts are
/// on the host, and read before it returns.
template <class Exec, class Src, class Dst>
void all_to_all_v(const Exec& exec, Communicator& comm, const Src& src,
                  const Communicator::BlocksOf& sent, const Dst& dst,
                  const Communicator::BlocksOf& received, const CallOptions& options = {}) {
  if constexpr (detail::displaced_messages_fit<Exec, Src, Dst>()) {
    const detail::ViewFacts from = detail::facts_of(src, "src"), to = detail::facts_of(dst, "dst");
    detail::call_messages<Src>(
        "all_to_all_v", exec, comm,
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

/// No rank's `exec` passes this point before all ranks' have reached it: on host spaces, none
/// returns before all have called it.
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
