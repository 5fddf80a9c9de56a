// NCCL's functions that move data.
#include "algorithms/contract/collectives.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "interop/nccl/config.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"
#include "interop/nccl/reductions.hpp"
#include "interop/nccl/staging.hpp"

namespace plait::nccl {
namespace {

/// A call as the caller wrote it.
struct Wish {
  const char* name;
  Collective collective;
  const void* send;
  void* recv;
  std::size_t count;
  TypeNumber type;
  CommHandle comm;
  StreamHandle stream;
  const CallConfig* config = nullptr;
  OpNumber op = op_sum;
  int root = 0;  // for messages: the peer
};

/// The buffers that a call gets: the caller's, or copies of them.
struct Buffers {
  const void* send;
  void* recv;
  std::shared_ptr<Staging> staged_send{}, staged_recv{};
};

/// Why a call can't have the caller's buffers.
struct Needs {
  bool apart = false;                 // they overlap those of another message of the group
  std::optional<PreMulSum> factor{};  // of this rank's elements
};

bool are_disjoint(const void* a, const void* b, std::size_t bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x + bytes <= y || y + bytes <= x;
}

Buffers own_buffers(const Wish& wish, const std::shared_ptr<Comm>& comm, Communicator& own,
                    const Call& call, const Needs& needs) {
  Buffers buffers{wish.send, wish.recv};
  const std::size_t element = size_of(call.type);
  // So many elements are refused later.
  if (call.count == 0 || call.count > SIZE_MAX / 4 / element / static_cast<unsigned>(own.size()))
    return buffers;
  Call whole = call;
  whole.parts = parts_of(call.collective, own.size());
  const CollectiveFacts& facts = facts_of(call.collective);
  const auto is_used = [&](const BufferFacts& buffer, const void* pointer) {
    return pointer != nullptr && has(buffer, call, own.rank());
  };
  const auto stage = [&](std::size_t bytes) {
    return std::make_shared<Staging>(wish.name, comm, own, bytes, wish.stream);
  };
  const auto multiplied = [&](const void* from, void* to) {
    multiply(backend_of(own), wish.stream, *needs.factor, from, to,
             send_bytes(whole) / size_of(call.type));
    return to;
  };
  const bool send_is_aligned = is_aligned(wish.send, element),
             recv_is_aligned = is_aligned(wish.recv, element);
  if (is_used(facts.recv, wish.recv) && (needs.apart || !recv_is_aligned)) {
    buffers.staged_recv = stage(recv_bytes(whole));
    buffers.recv = buffers.staged_recv->memory();
  }
  if (!is_used(facts.send, wish.send) || (send_is_aligned && !needs.apart && !needs.factor))
    return buffers;
  // The result takes as much room as the product, and comes later. In a group, which may fail, it
  // comes too early. In a window all ranks must do the same, and only some may have a result.
  if (needs.factor && send_is_aligned && facts.send.size == facts.recv.size &&
      is_used(facts.recv, wish.recv) && !Group::of_thread().is_open() &&
      !own.is_symmetric(buffers.recv, 1) &&
      (wish.send == buffers.recv || are_disjoint(wish.send, buffers.recv, send_bytes(whole)))) {
    buffers.send = multiplied(wish.send, buffers.recv);
    return buffers;
  }
  buffers.staged_send = stage(send_bytes(whole));
  void* const memory = buffers.staged_send->memory();
  if (!needs.factor || !send_is_aligned) buffers.staged_send->copy_in(wish.send);
  if (needs.factor) multiplied(send_is_aligned ? wish.send : memory, memory);
  buffers.send = memory;
  return buffers;
}

/// Enqueues the call, with the caller's buffers if it can have them.
template <class Enqueue>
void enqueue_between(const Wish& wish, const std::shared_ptr<Comm>& comm, Communicator& own,
                     const Call& call, const Needs& needs, Enqueue&& enqueue) {
  const std::size_t element = size_of(call.type);
  if (is_aligned(wish.send, element) && is_aligned(wish.recv, element) && !needs.apart &&
      !needs.factor)
    return enqueue(wish.send, wish.recv);
  Buffers buffers = own_buffers(wish, comm, own, call, needs);
  enqueue(buffers.send, buffers.recv);
  const auto finish = [buffers, to = wish.recv](bool enqueued) {
    if (enqueued && buffers.staged_recv) buffers.staged_recv->copy_out(to);
  };
  if (Group& group = Group::of_thread(); group.is_open()) group.then(finish);
  else finish(true);
}

/// After the call: in a group its estimate may be asked for; on the host, the null stream has ended
/// it when the caller goes on.
void settle(const Wish& wish, const std::shared_ptr<Comm>& comm, Communicator& own,
            const Call& call) {
  Group& group = Group::of_thread();
  const bool ends = comm->is_on_host() && wish.stream == nullptr;
  if (group.is_open()) {
    group.add(comm, call);
    if (ends) group.await_at_end(comm);
  } else if (ends) {
    own.synchronize();
  }
}

void check_rank(const Wish& wish, const Communicator& own, const char* what) {
  if (wish.root >= 0 && wish.root < own.size()) return;
  refuse(wish.name,
         fmt::format("{} {} is none of the ranks 0 to {}", what, wish.root, own.size() - 1));
}

/// Runs `body(comm, own)` for the communicator of the call. `refused`: as Communicator::refuse.
template <class Refused, class Body>
Result enqueued(const Wish& wish, const Refused& refused, const Body& body) noexcept {
  return grouped(wish.name, [&] {
    const auto pinned = pin(wish.name, wish.comm);
    const std::shared_ptr<Comm>& comm = *pinned;
    Communicator& own = comm->use(wish.name);
    try {
      body(comm, own);
    } catch (const WrongArgument& error) {
      own.refuse(error, refused);
      throw;  // within a group, too
    }
  });
}

/// In a gather or scatter in place, each rank's buffer is its own block, so in a window their
/// offsets differ. Messages take such buffers. False: nothing is enqueued.
bool enqueue_in_window(Communicator& own, const Call& call, const void* send, void* recv,
                       StreamHandle stream, const CallOptions& options) {
  const bool gathers = call.collective == Collective::gather;
  if ((!gathers && call.collective != Collective::scatter) || call.count == 0 ||
      !own.is_symmetric(gathers ? send : recv, 1))
    return false;
  const auto ranks = static_cast<std::size_t>(own.size());
  const std::vector<std::size_t> counts(ranks, call.count);
  std::vector<std::size_t> begins(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) begins[rank] = rank * call.count;
  if (gathers)
    own.gather_v(send, call.count, recv, {counts, begins}, call.type, call.root, stream, options);
  else
    own.scatter_v(send, {counts, begins}, recv, call.count, call.type, call.root, stream, options);
  return true;
}

Result collective(const Wish& wish) noexcept {
  const Call made{.collective = wish.collective, .count = wish.count};
  return enqueued(wish, made, [&](const std::shared_ptr<Comm>& comm, Communicator& own) {
    Call call{.collective = wish.collective,
              .type = data_type(wish.name, wish.type),
              .count = wish.count,
              .root = wish.root};
    check_rank(wish, own, "root");
    CallOptions options;
    if (wish.config != nullptr) options = call_options(wish.name, wish.config);
    Needs needs;
    if (wish.op != op_sum) needs.factor = set_op(wish.name, *comm, wish.op, call);
    // In a window all ranks multiply, or none: if some had their copies, and others their windows,
    // they would choose different algorithms.
    if (needs.factor && is_one(*needs.factor) && !own.is_symmetric(wish.send, 1))
      needs.factor.reset();
    enqueue_between(wish, comm, own, call, needs, [&](const void* send, void* recv) {
      if (!enqueue_in_window(own, call, send, recv, wish.stream, options))
        own.enqueue(call, send, recv, wish.stream, options);
    });
    settle(wish, comm, own, call);
  });
}

/// One end of a message: `send` or `recv` is null.
Result message(const Wish& wish, bool sends) noexcept {
  const std::span<const int> peer(&wish.root, wish.count == 0 ? 0u : 1u);
  const Communicator::Peers peers{.to = sends ? peer : std::span<const int>(),
                                  .from = sends ? std::span<const int>() : peer};
  return enqueued(wish, peers, [&](const std::shared_ptr<Comm>& comm, Communicator& own) {
    const Call call{.collective = Collective::send_recv,
                    .type = data_type(wish.name, wish.type),
                    .count = wish.count};
    check_rank(wish, own, "peer");
    const bool apart = !Group::of_thread().use(sends ? wish.send : wish.recv, call, !sends);
    enqueue_between(wish, comm, own, call, {.apart = apart}, [&](const void* send, void* recv) {
      if (sends) own.send(send, call.count, call.type, wish.root, wish.stream);
      else own.recv(recv, call.count, call.type, wish.root, wish.stream);
    });
    settle(wish, comm, own, call);
  });
}

}  // namespace
}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

#define PLAIT_DEFINE(NAME, COLLECTIVE, OP, ROOT)                                                  \
  Result plait::nccl::nccl##NAME##Config(PLAIT_NCCL_PARAMETERS(OP, ROOT),                         \
                                         const CallConfig* config) {                              \
    Wish wish{                                                                                    \
        "nccl" #NAME, Collective::COLLECTIVE, send, recv, count, type, comm, stream, config};     \
    PLAIT_IF_##OP(wish.op = op;) PLAIT_IF_##ROOT(wish.root = root;) return collective(wish);      \
  }                                                                                               \
  Result plait::nccl::nccl##NAME(PLAIT_NCCL_PARAMETERS(OP, ROOT)) {                               \
    return nccl##NAME##Config(send, recv, count, type,                                            \
                              PLAIT_IF_##OP(op, ) PLAIT_IF_##ROOT(root, ) comm, stream, nullptr); \
  }
PLAIT_NCCL_COLLECTIVES(PLAIT_DEFINE)
#undef PLAIT_DEFINE

Result plait::nccl::ncclBcast(void* buffer, std::size_t count, TypeNumber type, int root,
                              CommHandle comm, StreamHandle stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

Result plait::nccl::ncclSend(const void* send, std::size_t count, TypeNumber type, int peer,
                             CommHandle comm, StreamHandle stream) {
  return message({"ncclSend", Collective::send_recv, send, nullptr, count, type, comm, stream,
                  nullptr, op_sum, peer},
                 true);
}
Result plait::nccl::ncclRecv(void* recv, std::size_t count, TypeNumber type, int peer,
                             CommHandle comm, StreamHandle stream) {
  return message({"ncclRecv", Collective::send_recv, nullptr, recv, count, type, comm, stream,
                  nullptr, op_sum, peer},
                 false);
}
