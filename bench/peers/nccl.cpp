#include "bench/peers/nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bench/results.hpp"
#include "bootstrap/agreement.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

/// The place of `key` in `all`; none if it has no place there.
template <class Key, std::size_t n>
std::optional<int> number_of(Key key, const std::array<Key, n>& all) {
  const auto found = std::find(all.begin(), all.end(), key);
  return found == all.end() ? std::nullopt : std::optional(static_cast<int>(found - all.begin()));
}
/// In the order of ncclDataType_t.
constexpr std::array nccl_types = {DataType::i8,   DataType::u8,     DataType::i32,
                                   DataType::u32,  DataType::i64,    DataType::u64,
                                   DataType::f16,  DataType::f32,    DataType::f64,
                                   DataType::bf16, DataType::f8e4m3, DataType::f8e5m2};
/// In the order of ncclRedOp_t. A pre-multiplied sum would need an operator object, so it is left
/// out.
constexpr std::array nccl_ops = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                 ReduceOp::avg};

/// The call on the same bytes, of a type that NCCL has if there is one: sums of complex numbers are
/// sums of floats, and elements that are only moved are words or bytes.
Call with_type_of_nccl(const Call& call) {
  Call made = in_words(call);
  if (facts_of(made.collective).reduces || number_of(made.type, nccl_types)) return made;
  made.count *= size_of(made.type);
  made.type = DataType::u8;
  return made;
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
    const auto op = number_of(call.op, nccl_ops);
    const auto code = number_of(call.type, nccl_types);
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
        return nccl.all_reduce(send, recv, call.count, type, *op, comm, on);
      case Collective::reduce_scatter:
        return nccl.reduce_scatter(send, recv, call.count, type, *op, comm, on);
      case Collective::all_gather:
        return nccl.all_gather(send, recv, call.count, type, comm, on);
      case Collective::broadcast:
        return nccl.broadcast(send, recv, call.count, type, call.root, comm, on);
      case Collective::reduce:
        return nccl.reduce(send, recv, call.count, type, *op, call.root, comm, on);
      default:
        exchange(task, call.count, type, on);
    }
  }
  void begin_group() override { group_->library().group_start(); }
  void end_group() override { group_->library().group_end(); }

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
      nccl.send(send, count, type, next, group_->native(), stream);
      nccl.recv(recv, count, type, before, group_->native(), stream);
      return end_group();
    }
    for (int rank = 0; rank < task.ranks; ++rank) {
      const std::size_t block = static_cast<std::size_t>(rank) * call.block_bytes();
      if (send != nullptr && (everyone || scatters || rank == call.root))
        nccl.send(send + (scatters ? block : 0), count, type, rank, group_->native(), stream);
      if (recv != nullptr && (everyone || gathers || rank == call.root))
        nccl.recv(recv + (gathers ? block : 0), count, type, rank, group_->native(), stream);
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
    if (comm.rank() == 0) group->library_->get_unique_id(&id);
  });
  id = comm.bootstrap().broadcast(id, 0);
  agree(comm.bootstrap(), "NCCL",
        [&] { group->library_->comm_init_rank(&group->nccl_, comm.size(), id, comm.rank()); });
  return group;
}

NcclGroup::~NcclGroup() {
  if (nccl_) library_->comm_destroy.attempt(nccl_);
}

Allocate NcclGroup::window_memory() {
  return [self = shared_from_this()](std::size_t bytes) {
    constexpr std::size_t page = std::size_t{2} << 20;  // the page size of NCCL's mappings
    const NcclLibrary& nccl = *self->library_;
    std::shared_ptr<void> memory, window_owner;
    agree(self->comm_.bootstrap(), "NCCL", [&] {
      void* pointer = nullptr;
      nccl.mem_alloc(&pointer, (bytes + page - 1) / page * page);
      memory =
          std::shared_ptr<void>(pointer, [self](void* p) { self->library_->mem_free.attempt(p); });
    });
    agree(self->comm_.bootstrap(), "NCCL", [&] {
      NcclLibrary::Window window = nullptr;
      nccl.window_register(self->nccl_, memory.get(), (bytes + page - 1) / page * page, &window,
                           NcclLibrary::window_symmetric);
      if (!window)
        throw Error(ErrorCode::unsupported, "ncclCommWindowRegister: NCCL made no window");
      window_owner = std::shared_ptr<void>(window, [self, memory](void* w) {
        self->library_->window_deregister.attempt(self->nccl_, static_cast<NcclLibrary::Window>(w));
      });
    });
    return Allocation{static_cast<std::byte*>(memory.get()), window_owner};
  };
}

std::unique_ptr<Contender> NcclGroup::contender(Memory memory, const Arena& arena) {
  return std::make_unique<NcclPeer>(shared_from_this(), memory, arena);
}

}  // namespace plait::bench
