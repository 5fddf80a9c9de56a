// plait.h: the collectives, messages and groups.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "communicator/groups/open_group.hpp"
#include "interop/c/arguments.hpp"
#include "plait/collective_table.h"
#include "plait/group.hpp"

namespace plait::c {
namespace {

/// Converts a collective's arguments to C++.
struct Caller {
  Communicator& comm;
  Where where;

  DataType type(plait_data_type type) const { return data_type(where, type); }
  ReduceOp op(plait_reduce_op op) const { return reduce_op(where, op); }
  CallOptions options(const plait_call_options* options) const {
    return call_options(where, options);
  }
  /// One element per rank, `counts` and `displacements`.
  Communicator::BlocksOf each_rank(const std::size_t* counts, const char* counts_name,
                                   const std::size_t* displacements,
                                   const char* displacements_name) const {
    const auto ranks = static_cast<std::size_t>(comm.size());
    return {array(counts, ranks, counts_name), array(displacements, ranks, displacements_name)};
  }
  Communicator::BlocksOf sent(const std::size_t* counts, const std::size_t* displacements) const {
    return each_rank(counts, "send_counts", displacements, "send_displacements");
  }
  Communicator::BlocksOf received(const std::size_t* counts,
                                  const std::size_t* displacements) const {
    return each_rank(counts, "recv_counts", displacements, "recv_displacements");
  }
  /// May be null if it has no elements.
  template <class T>
  std::span<const T> array(const T* values, std::size_t count, const char* name) const {
    if (count == 0) return {};
    return {&needed(where, values, name), count};
  }
};

/// Runs `body`. Within a group, an `Error` also makes the group's end fail, as if a communicator
/// had refused the call.
template <class Body>
plait_status grouped(const char* call, Body&& body) noexcept {
  return guarded(call, [&] {
    try {
      body();
    } catch (const Error& error) {
      OpenGroup& group = OpenGroup::of_thread();
      if (group.is_open()) group.fail(error);
      throw;
    }
  });
}

/// Runs `body(Caller)`. `refused`: as Communicator::refuse, a Call or Peers.
template <class Refused, class Body>
plait_status enqueued(const char* call, plait_comm comm, const Refused& refused,
                      Body&& body) noexcept {
  return grouped(call, [&] {
    const auto owner = Communicators::instance().pin(call, id_of(comm));
    try {
      body(Caller{owner->comm, {call, owner->comm.rank()}});
    } catch (const WrongArgument& error) {
      owner->comm.refuse(error, refused);
      throw;  // within a group, too
    }
  });
}

/// A call of which only this is known, for `refuse`. `send_recv` stands for messages to all ranks.
Call made(Collective collective, std::size_t count = 1) {
  return {.collective = collective, .count = count};
}
/// The peer of a message, if that has elements.
std::span<const int> peer(const int& rank, std::size_t count) {
  return {&rank, count == 0 ? 0u : 1u};
}

}  // namespace
}  // namespace plait::c

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::c;

#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                     \
  plait_status plait_##NAME(                                                                     \
      plait_comm comm, const void* send, void* recv, size_t count, plait_data_type type,         \
      PLAIT_IF_##OP(plait_reduce_op op, ) PLAIT_IF_##ROOT(int root, ) plait_stream_t stream,     \
      const plait_call_options* options) {                                                       \
    return enqueued("plait_" #NAME, comm, made(Collective::NAME, count), [&](const Caller& by) { \
      by.comm.NAME(send, recv, count, by.type(type),                                             \
                   PLAIT_IF_##OP(by.op(op), ) PLAIT_IF_##ROOT(root, ) stream_ref(stream),        \
                   by.options(options));                                                         \
    });                                                                                          \
  }
PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

// Those that reduce have a form for an operation of the program.
#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                       \
  PLAIT_IF_##OP(plait_status plait_##NAME##_by(                                                    \
      plait_comm comm, const void* send, void* recv, size_t count, const plait_host_operation* op, \
      PLAIT_IF_##ROOT(int root, ) plait_stream_t stream) {                                         \
    return enqueued("plait_" #NAME "_by", comm, made(Collective::NAME, count),                     \
                    [&](const Caller& by) {                                                        \
                      by.comm.NAME(send, recv, count, host_operation(by.where, op),                \
                                   PLAIT_IF_##ROOT(root, ) stream_ref(stream));                    \
                    });                                                                            \
  })
PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

// No other rank counts on these.
plait_status plait_put(plait_comm comm, plait_buffer buffer, int peer, size_t offset,
                       const void* source, size_t bytes, int signals, plait_stream_t stream,
                       const plait_call_options* options) {
  return enqueued("plait_put", comm, Communicator::Peers{}, [&](const Caller& by) {
    const auto allocation = BufferHandles::instance().pin("plait_put", id_of(buffer));
    by.comm.put(allocation->window, peer, offset, source, bytes, signals != 0, stream_ref(stream),
                by.options(options));
  });
}
plait_status plait_get(plait_comm comm, plait_buffer buffer, int peer, size_t offset, void* target,
                       size_t bytes, plait_stream_t stream, const plait_call_options* options) {
  return enqueued("plait_get", comm, Communicator::Peers{}, [&](const Caller& by) {
    const auto allocation = BufferHandles::instance().pin("plait_get", id_of(buffer));
    by.comm.get(allocation->window, peer, offset, target, bytes, stream_ref(stream),
                by.options(options));
  });
}
plait_status plait_signal(plait_comm comm, int peer, plait_stream_t stream,
                          const plait_call_options* options) {
  return enqueued("plait_signal", comm, Communicator::Peers{}, [&](const Caller& by) {
    by.comm.signal(peer, stream_ref(stream), by.options(options));
  });
}
plait_status plait_wait_signal(plait_comm comm, int peer, size_t signals, plait_stream_t stream,
                               const plait_call_options* options) {
  return enqueued("plait_wait_signal", comm, Communicator::Peers{}, [&](const Caller& by) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    by.comm.wait_signal(peer, static_cast<std::uint32_t>(std::min(signals, most)),
                        stream_ref(stream), by.options(options));
  });
}

plait_status plait_send(plait_comm comm, const void* data, size_t count, plait_data_type type,
                        int to, plait_stream_t stream, const plait_call_options* options) {
  return enqueued(
      "plait_send", comm, Communicator::Peers{.to = peer(to, count)}, [&](const Caller& by) {
        by.comm.send(data, count, by.type(type), to, stream_ref(stream), by.options(options));
      });
}

plait_status plait_recv(plait_comm comm, void* data, size_t count, plait_data_type type, int from,
                        plait_stream_t stream, const plait_call_options* options) {
  return enqueued(
      "plait_recv", comm, Communicator::Peers{.from = peer(from, count)}, [&](const Caller& by) {
        by.comm.recv(data, count, by.type(type), from, stream_ref(stream), by.options(options));
      });
}

plait_status plait_send_recv(plait_comm comm, const void* send, size_t send_count, int to,
                             void* recv, size_t recv_count, int from, plait_data_type type,
                             plait_stream_t stream, const plait_call_options* options) {
  return enqueued("plait_send_recv", comm,
                  Communicator::Peers{peer(to, send_count), peer(from, recv_count)},
                  [&](const Caller& by) {
                    by.comm.send_recv(send, send_count, to, recv, recv_count, from, by.type(type),
                                      stream_ref(stream), by.options(options));
                  });
}

plait_status plait_all_to_all_v(plait_comm comm, const void* send, const size_t* send_counts,
                                const size_t* send_displacements, void* recv,
                                const size_t* recv_counts, const size_t* recv_displacements,
                                plait_data_type type, plait_stream_t stream,
                                const plait_call_options* options) {
  return enqueued("plait_all_to_all_v", comm, made(Collective::send_recv), [&](const Caller& by) {
    by.comm.all_to_all_v(send, by.sent(send_counts, send_displacements), recv,
                         by.received(recv_counts, recv_displacements), by.type(type),
                         stream_ref(stream), by.options(options));
  });
}

plait_status plait_all_gather_v(plait_comm comm, const void* send, size_t count, void* recv,
                                const size_t* recv_counts, const size_t* recv_displacements,
                                plait_data_type type, plait_stream_t stream,
                                const plait_call_options* options) {
  return enqueued("plait_all_gather_v", comm, made(Collective::send_recv), [&](const Caller& by) {
    by.comm.all_gather_v(send, count, recv, by.received(recv_counts, recv_displacements),
                         by.type(type), stream_ref(stream), by.options(options));
  });
}

plait_status plait_gather_v(plait_comm comm, const void* send, size_t count, void* recv,
                            const size_t* recv_counts, const size_t* recv_displacements,
                            plait_data_type type, int root, plait_stream_t stream,
                            const plait_call_options* options) {
  return enqueued("plait_gather_v", comm, made(Collective::send_recv), [&](const Caller& by) {
    Communicator::BlocksOf received;
    if (by.comm.rank() == root) received = by.received(recv_counts, recv_displacements);
    by.comm.gather_v(send, count, recv, received, by.type(type), root, stream_ref(stream),
                     by.options(options));
  });
}

plait_status plait_scatter_v(plait_comm comm, const void* send, const size_t* send_counts,
                             const size_t* send_displacements, void* recv, size_t count,
                             plait_data_type type, int root, plait_stream_t stream,
                             const plait_call_options* options) {
  return enqueued("plait_scatter_v", comm, made(Collective::send_recv), [&](const Caller& by) {
    Communicator::BlocksOf sent;
    if (by.comm.rank() == root) sent = by.sent(send_counts, send_displacements);
    by.comm.scatter_v(send, sent, recv, count, by.type(type), root, stream_ref(stream),
                      by.options(options));
  });
}

plait_status plait_reduce_scatter_v(plait_comm comm, const void* send, const size_t* counts,
                                    void* recv, plait_data_type type, plait_reduce_op op,
                                    plait_stream_t stream, const plait_call_options* options) {
  return enqueued("plait_reduce_scatter_v", comm, made(Collective::reduce), [&](const Caller& by) {
    const auto ranks = static_cast<std::size_t>(by.comm.size());
    by.comm.reduce_scatter_v(send, by.array(counts, ranks, "counts"), recv, by.type(type),
                             by.op(op), stream_ref(stream), by.options(options));
  });
}

plait_status plait_neighbor_all_to_all_v(plait_comm comm, const void* send, size_t sends,
                                         const int* send_peers, const size_t* send_counts,
                                         const size_t* send_displacements, void* recv,
                                         size_t receives, const int* recv_peers,
                                         const size_t* recv_counts,
                                         const size_t* recv_displacements, plait_data_type type,
                                         plait_stream_t stream, const plait_call_options* options) {
  const Communicator::Peers peers{{send_peers, send_peers == nullptr ? 0 : sends},
                                  {recv_peers, recv_peers == nullptr ? 0 : receives}};
  return enqueued("plait_neighbor_all_to_all_v", comm, peers, [&](const Caller& by) {
    const Communicator::NeighborBlocks sent{
        by.array(send_peers, sends, "send_peers"), by.array(send_counts, sends, "send_counts"),
        by.array(send_displacements, sends, "send_displacements")};
    const Communicator::NeighborBlocks received{
        by.array(recv_peers, receives, "recv_peers"),
        by.array(recv_counts, receives, "recv_counts"),
        by.array(recv_displacements, receives, "recv_displacements")};
    by.comm.neighbor_all_to_all_v(send, sent, recv, received, by.type(type), stream_ref(stream),
                                  by.options(options));
  });
}

plait_status plait_barrier(plait_comm comm, plait_stream_t stream) {
  return enqueued("plait_barrier", comm, made(Collective::barrier),
                  [&](const Caller& by) { by.comm.barrier(stream_ref(stream)); });
}

plait_status plait_enqueue(plait_comm comm, const plait_call* call, const void* send, void* recv,
                           plait_stream_t stream, const plait_call_options* options) {
  return enqueued("plait_enqueue", comm, made(Collective::all_reduce), [&](const Caller& by) {
    by.comm.enqueue(described_call(by.where, call), send, recv, stream_ref(stream),
                    by.options(options));
  });
}

plait_status plait_group_start(void) {
  return guarded("plait_group_start", [] { group_start(); });
}
plait_status plait_group_end(void) {
  return guarded("plait_group_end", [] { group_end(); });
}

plait_status plait_refuse(const char* sentence) {
  constexpr const char* call = "plait_refuse";
  return grouped(
      call, [&] { throw Error(ErrorCode::invalid_argument, &needed(call, sentence, "sentence")); });
}

plait_status plait_refuse_call(plait_comm comm, plait_collective collective, const int* to,
                               size_t sends, const int* from, size_t receives,
                               const char* sentence) {
  constexpr const char* call = "plait_refuse_call";
  return grouped(call, [&] {
    const Error error(ErrorCode::invalid_argument, &needed(call, sentence, "sentence"));
    const auto owner = Communicators::instance().pin(call, id_of(comm));
    if (collective == PLAIT_SEND_RECV && (to != nullptr || from != nullptr))
      owner->comm.refuse(error, Communicator::Peers{{to, to == nullptr ? 0 : sends},
                                                    {from, from == nullptr ? 0 : receives}});
    else owner->comm.refuse(error, made(static_cast<Collective>(collective)));
    throw error;  // within a group, too
  });
}
