// NCCL's functions for windows: memory of the program that Plait attaches.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "interop/nccl/comm.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"
#include "plait/buffer.hpp"
#include "plait/group.hpp"
#include "symm_mem/window.hpp"

namespace plait::nccl {
namespace {

/// What a handle stands for. The communicator owns the window.
struct RegisteredWindow {
  std::weak_ptr<Comm> comm;
  std::weak_ptr<Window> window;
};
using Windows = HandleTable<RegisteredWindow, HandleKind::nccl_window>;

HandleId id_of(WindowHandle handle) { return {reinterpret_cast<std::uintptr_t>(handle)}; }

std::shared_ptr<Window> find(const char* call, WindowHandle handle) {
  auto window = Windows::instance().pin(call, id_of(handle))->window.lock();
  if (window == nullptr) refuse(call, "the communicator of the window has been destroyed");
  return window;
}

WindowHandle attach(const std::shared_ptr<Comm>& comm, Communicator& communicator, void* buffer,
                    std::size_t bytes, WindowUse use) {
  auto window = communicator.attach(buffer, bytes, use);
  const HandleId id = Windows::instance().insert(
      std::make_unique<RegisteredWindow>(RegisteredWindow{comm, window}));
  comm->keep(std::move(window));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number in disguise
  return reinterpret_cast<WindowHandle>(static_cast<std::uintptr_t>(id.value));
}

/// `*result` is the address of `offset` in rank `peer`'s window, as this rank reaches it. Null, as
/// NCCL says it, if the rank is on another node. `of_node`: `peer` counts ranks of this node.
Result tell_peer(const char* call, WindowHandle handle, std::size_t offset, int peer, bool of_node,
                 void** result) noexcept {
  return guarded(call, [&] {
    void*& address = needed(call, result, "outPtr");
    const auto window = find(call, handle);
    if (!window->is_mapped()) refuse(call, "the memory is reached by system calls alone");
    std::vector<int> ranks;
    for (int rank = 0; rank < static_cast<int>(window->offers().size()); ++rank)
      if (!of_node || window->reaches(rank)) ranks.push_back(rank);
    if (peer < 0 || peer >= static_cast<int>(ranks.size()))
      refuse(call, fmt::format("there is no rank {}", peer));
    const int rank = ranks[static_cast<std::size_t>(peer)];
    const std::size_t bytes = window->bytes_of(rank);
    if (offset >= bytes)
      refuse(call, fmt::format("offset {} lies beyond the {} bytes", offset, bytes));
    address = window->reaches(rank) ? window->peer(rank, offset) : nullptr;
  });
}

/// Programs may have asked for more signals and contexts, of which this library has one.
void check_signal(const char* call, int index, int context, unsigned flags) {
  if (index != 0 || context != 0 || flags != 0)
    refuse_use(call, fmt::format("signal {}, context {}, flags {:#x}: there is only signal 0 of "
                                 "context 0, without flags",
                                 index, context, flags));
}

/// Runs `body(communicator)`, which makes calls that no other rank counts on.
template <class Body>
Result one_sided(const char* call, CommHandle comm, StreamHandle stream, Body body) noexcept {
  return grouped(call, [&] {
    const auto pinned = pin(call, comm);
    const std::shared_ptr<Comm>& own = *pinned;
    Communicator& communicator = own->use(call);
    body(communicator);
    Group& group = Group::of_thread();
    const bool ends = own->is_on_host() && stream == nullptr;
    if (group.is_open()) {
      group.add(own, {.collective = Collective::send_recv});
      if (ends) group.await_at_end(own);
    } else if (ends) {
      communicator.synchronize();
    }
  });
}

}  // namespace
}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclCommWindowRegister(CommHandle comm, void* buffer, std::size_t bytes,
                                           WindowHandle* window, int flags) {
  constexpr const char* call = "ncclCommWindowRegister";
  Result done = Result::success;
  const Result checked = grouped(call, [&] {
    const std::shared_ptr<Comm> own = *pin(call, comm);
    WindowHandle& result = needed(call, window, "win");
    result = nullptr;
    const WindowUse use =
        (flags & window_for_collectives) != 0 ? WindowUse::all_calls : WindowUse::one_sided;
    done = run_or_add({.call = call,
                       .of = own,
                       .takes = true,
                       .body =
                           [own, buffer, bytes, use, &result] {
                             own->occupy([&](Communicator& all) {
                               result = attach(own, all, buffer, bytes, use);
                             });
                           },
                       .blocking = own->blocking});
  });
  return checked == Result::success ? done : checked;
}

/// Local, as in NCCL: the peers' mappings of this rank's memory stay until they deregister, too.
Result plait::nccl::ncclCommWindowDeregister(CommHandle comm, WindowHandle window) {
  constexpr const char* call = "ncclCommWindowDeregister";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    if (window == nullptr) return;
    if (Windows::instance().pin(call, id_of(window))->comm.lock() != *own)
      refuse(call, "the window is another communicator's");
    static_cast<void>((*own)->use(call));
    (*own)->drop(Windows::instance().remove(call, id_of(window))->window);
  });
}

Result plait::nccl::ncclWinGetUserPtr(CommHandle comm, WindowHandle window, void** pointer) {
  constexpr const char* call = "ncclWinGetUserPtr";
  return guarded(call, [&] {
    static_cast<void>(pin(call, comm));
    void*& result = needed(call, pointer, "outUserPtr");
    result = find(call, window)->local();
  });
}

/// All ranks of a node reach each other's memory by load and store.
Result plait::nccl::ncclGetLsaDevicePointer(WindowHandle window, std::size_t offset, int peer,
                                            void** pointer) {
  return tell_peer("ncclGetLsaDevicePointer", window, offset, peer, true, pointer);
}
Result plait::nccl::ncclGetPeerDevicePointer(WindowHandle window, std::size_t offset, int peer,
                                             void** pointer) {
  return tell_peer("ncclGetPeerDevicePointer", window, offset, peer, false, pointer);
}

Result plait::nccl::ncclPutSignal(const void* source, std::size_t count, TypeNumber type, int peer,
                                  WindowHandle window, std::size_t offset, int index, int context,
                                  unsigned flags, CommHandle comm, StreamHandle stream) {
  constexpr const char* call = "ncclPutSignal";
  return one_sided(call, comm, stream, [&](Communicator& own) {
    check_signal(call, index, context, flags);
    const std::size_t bytes = detail::bytes_or_most(count, size_of(data_type(call, type)));
    own.put(find(call, window), peer, offset, source, bytes, true, stream);
  });
}
Result plait::nccl::ncclSignal(int peer, int index, int context, unsigned flags, CommHandle comm,
                               StreamHandle stream) {
  constexpr const char* call = "ncclSignal";
  return one_sided(call, comm, stream, [&](Communicator& own) {
    check_signal(call, index, context, flags);
    own.signal(peer, stream);
  });
}
Result plait::nccl::ncclWaitSignal(int count, AwaitedSignals* awaited, CommHandle comm,
                                   StreamHandle stream) {
  constexpr const char* call = "ncclWaitSignal";
  return one_sided(call, comm, stream, [&](Communicator& own) {
    if (count < 1) refuse(call, fmt::format("{} descriptors", count));
    const AwaitedSignals* const all = &needed(call, awaited, "signalDescs");
    for (int i = 0; i < count; ++i) {
      check_signal(call, all[i].index, all[i].context, 0);
      if (all[i].count < 1) refuse(call, fmt::format("opCnt {}", all[i].count));
    }
    const auto await_all = [&] {
      for (int i = 0; i < count; ++i)
        own.wait_signal(all[i].peer, static_cast<std::uint32_t>(all[i].count), stream);
    };
    if (count == 1) return await_all();
    const plait::Group together;  // all or none
    await_all();
  });
}
