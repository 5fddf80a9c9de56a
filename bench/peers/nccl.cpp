#include "bench/peers/nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/results.hpp"
#include "bootstrap/agreement.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

/// ncclDataType_t; none for the other types.
std::optional<int> nccl_type(DataType type) {
  switch (type) {
    case DataType::i8:
      return 0;
    case DataType::u8:
      return 1;
    case DataType::i32:
      return 2;
    case DataType::u32:
      return 3;
    case DataType::i64:
      return 4;
    case DataType::u64:
      return 5;
    case DataType::f16:
      return 6;
    case DataType::f32:
      return 7;
    case DataType::f64:
      return 8;
    case DataType::bf16:
      return 9;
    case DataType::f8e4m3:
      return 10;
    case DataType::f8e5m2:
      return 11;
    default:
      return std::nullopt;
  }
}

/// The call on the same bytes, of a type that NCCL has if there is one: sums of complex numbers are
/// sums of floats, and elements that are only moved are words or bytes.
Call with_type_of_nccl(const Call& call) {
  Call made = in_words(call);
  if (facts_of(made.collective).reduces || nccl_type(made.type)) return made;
  made.count *= size_of(made.type);
  made.type = DataType::u8;
  return made;
}

/// ncclRedOp_t. A pre-multiplied sum would need an operator object, so it is left out.
std::optional<int> nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return 0;
    case ReduceOp::prod:
      return 1;
    case ReduceOp::max:
      return 2;
    case ReduceOp::min:
      return 3;
    case ReduceOp::avg:
      return 4;
    default:
      return std::nullopt;
  }
}

bool is_small_float(DataType type) { return type == DataType::f8e4m3 || type == DataType::f8e5m2; }

class NcclPeer final : public Contender {
 public:
  NcclPeer(std::shared_ptr<NcclGroup> group, Memory memory, const Arena& arena)
      : Contender(memory == Memory::symmetric ? "peer:nccl-symmetric" : "peer:nccl", memory, arena),
        group_(std::move(group)) {}

  bool may_serve(Collective collective) const override { return !is_scan(collective); }

  void enqueue(const Task& task, NativeStream stream) override {
    const NcclLibrary& nccl = group_->library();
    const Call call = with_type_of_nccl(task.call);
    if (is_scan(call.collective))
      throw Error(ErrorCode::unsupported, fmt::format("{}: no {} by {}", Contender::name(),
                                                      name_of(call.collective), name_of(call.op)));
    if (call.collective == Collective::barrier)
      throw Error(ErrorCode::unsupported, fmt::format("{}: no barrier", Contender::name()));
    const auto op = nccl_op(call.op);
    const auto code = nccl_type(call.type);
    if (!op || !code || (is_small_float(call.type) && !nccl.has_small_floats()))
      throw Error(ErrorCode::unsupported, fmt::format("{}: no {} of {}", Contender::name(),
                                                      name_of(call.op), name_of(task.call.type)));
    // In a rooted collective, NCCL wants both buffers on all ranks, although it uses them on one: a
    // rank without a buffer may choose another algorithm than the root.
    const void* const send = task.send != nullptr ? task.send : arena().send();
    void* const recv = task.recv != nullptr ? task.recv : arena().recv();
    const int type = *code;
    const NcclLibrary::Comm comm = group_->native();
    auto* const on = static_cast<CUstream_st*>(stream);
    switch (call.collective) {
      case Collective::all_reduce:
        return nccl.check(nccl.all_reduce(send, recv, call.count, type, *op, comm, on),
                          "ncclAllReduce");
      case Collective::reduce_scatter:
        return nccl.check(nccl.reduce_scatter(send, recv, call.count, type, *op, comm, on),
                          "ncclReduceScatter");
      case Collective::all_gather:
        return nccl.check(nccl.all_gather(send, recv, call.count, type, comm, on), "ncclAllGather");
      case Collective::broadcast:
        return nccl.check(nccl.broadcast(send, recv, call.count, type, call.root, comm, on),
                          "ncclBroadcast");
      case Collective::reduce:
        return nccl.check(nccl.reduce(send, recv, call.count, type, *op, call.root, comm, on),
                          "ncclReduce");
      default:
        exchange(task, call.count, type, on);
    }
  }
  void begin_group() override {
    group_->library().check(group_->library().group_start(), "ncclGroupStart");
  }
  void end_group() override {
    group_->library().check(group_->library().group_end(), "ncclGroupEnd");
  }

 private:
  /// All-to-all, gather, scatter and messages around a ring, made as nccl-tests makes them: a group
  /// of sends and receives of `count` elements of NCCL's type each.
  void exchange(const Task& task, std::size_t count, int type, CUstream_st* stream) {
    const NcclLibrary& nccl = group_->library();
    const Call& call = task.call;
    if (call.collective == Collective::all_to_all && task.in_place)
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: no all_to_all in place", Contender::name()));
    const auto* send = static_cast<const std::byte*>(task.send);
    auto* recv = static_cast<std::byte*>(task.recv);
    const bool everyone = call.collective == Collective::all_to_all,
               scatters = call.collective != Collective::gather,
               gathers = call.collective != Collective::scatter;
    begin_group();
    if (call.collective == Collective::send_recv) {
      const int next = (task.rank + 1) % task.ranks,
                before = (task.rank + task.ranks - 1) % task.ranks;
      nccl.check(nccl.send(send, count, type, next, group_->native(), stream), "ncclSend");
      nccl.check(nccl.recv(recv, count, type, before, group_->native(), stream), "ncclRecv");
      return end_group();
    }
    for (int rank = 0; rank < task.ranks; ++rank) {
      const std::size_t block = static_cast<std::size_t>(rank) * call.block_bytes();
      if (send != nullptr && (everyone || scatters || rank == call.root))
        nccl.check(
            nccl.send(send + (scatters ? block : 0), count, type, rank, group_->native(), stream),
            "ncclSend");
      if (recv != nullptr && (everyone || gathers || rank == call.root))
        nccl.check(
            nccl.recv(recv + (gathers ? block : 0), count, type, rank, group_->native(), stream),
            "ncclRecv");
    }
    end_group();
  }

  std::shared_ptr<NcclGroup> group_;
};

}  // namespace

std::shared_ptr<NcclGroup> NcclGroup::create(Communicator& comm, std::string& why_not) {
  if (comm.backend_kind() == BackendKind::host) {
    why_not = "NCCL and RCCL need GPUs";
    return nullptr;
  }
  if (share_a_device(comm)) {
    why_not = "NCCL and RCCL refuse ranks that share a device";
    return nullptr;
  }
  std::shared_ptr<const NcclLibrary> library;
  try {
    agree(comm.bootstrap(), "NCCL", [&] {
      library = NcclLibrary::load(
          comm.backend_kind() == BackendKind::hip ? "librccl.so.1" : "libnccl.so.2", why_not);
      if (!library) throw Error(ErrorCode::unsupported, why_not);
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    why_not = error.what();
    return nullptr;
  }
  const auto versions = comm.bootstrap().all_gather(library->version());
  const auto [least, most] = std::minmax_element(versions.begin(), versions.end());
  if (*least != *most) {
    why_not = fmt::format("ranks found NCCL {} and {}", *least, *most);
    return nullptr;
  }

  backend_of(comm).bind();
  std::shared_ptr<NcclGroup> group(new NcclGroup(comm, std::move(library)));
  NcclLibrary::UniqueId id{};
  agree(comm.bootstrap(), "NCCL", [&] {
    if (comm.rank() == 0)
      group->library_->check(group->library_->get_unique_id(&id), "ncclGetUniqueId");
  });
  id = comm.bootstrap().broadcast(id, 0);
  agree(comm.bootstrap(), "NCCL", [&] {
    group->library_->check(
        group->library_->comm_init_rank(&group->nccl_, comm.size(), id, comm.rank()),
        "ncclCommInitRank");
  });
  return group;
}

NcclGroup::~NcclGroup() {
  if (nccl_) library_->comm_destroy(nccl_);
}

Allocate NcclGroup::window_memory() {
  return [self = shared_from_this()](std::size_t bytes) {
    constexpr std::size_t page = std::size_t{2} << 20;  // the page size of NCCL's mappings
    const NcclLibrary& nccl = *self->library_;
    std::shared_ptr<void> memory, window_owner;
    agree(self->comm_.bootstrap(), "NCCL", [&] {
      void* pointer = nullptr;
      nccl.check(nccl.mem_alloc(&pointer, (bytes + page - 1) / page * page), "ncclMemAlloc");
      memory = std::shared_ptr<void>(pointer, [self](void* p) { self->library_->mem_free(p); });
    });
    agree(self->comm_.bootstrap(), "NCCL", [&] {
      NcclLibrary::Window window = nullptr;
      nccl.check(nccl.window_register(self->nccl_, memory.get(), (bytes + page - 1) / page * page,
                                      &window, NcclLibrary::window_symmetric),
                 "ncclCommWindowRegister");
      if (!window)
        throw Error(ErrorCode::unsupported, "ncclCommWindowRegister: NCCL made no window");
      window_owner = std::shared_ptr<void>(window, [self, memory](void* w) {
        self->library_->window_deregister(self->nccl_, static_cast<NcclLibrary::Window>(w));
      });
    });
    return Allocation{static_cast<std::byte*>(memory.get()), window_owner};
  };
}

std::unique_ptr<Contender> NcclGroup::contender(Memory memory, const Arena& arena) {
  return std::make_unique<NcclPeer>(shared_from_this(), memory, arena);
}

}  // namespace plait::bench
