// The communicator's calls for windows: attached memory, and calls that one rank makes alone.
#include "plait/calls_on_windows.hpp"

#include <fmt/format.h>

#include "communicator/communicator_state.hpp"
#include "communicator/groups/open_group.hpp"
#include "plait/communicator.hpp"

namespace plait {
namespace {

using Kind = Buffers::OneSided::Kind;

/// Makes a call, and waits for it if that is wanted. In a group, one that blocks has been refused.
void make(CommunicatorState& state, const OneSidedRequest& request, StreamRef stream,
          const CallOptions& options) {
  const InUse::Scope inside(state.resources.in_use, request.what);
  state.one_sided.call(request, stream, options);
  if (options.blocking && !OpenGroup::of_thread().is_open()) state.synchronize(stream);
}

}  // namespace

CommunicatorState& CallsOnWindows::state(std::string_view call) const {
  return static_cast<const Communicator&>(*this).state(call);
}

std::shared_ptr<Window> CallsOnWindows::attach(void* pointer, std::size_t bytes, WindowUse use) {
  CommunicatorState& own = state("attach");
  const InUse::Scope inside(own.resources.in_use, "attach");
  own.faults.throw_if_broken();
  const DeviceScope device(*own.resources.backend);
  return own.resources.heap.attach(pointer, bytes, use);
}
void CallsOnWindows::detach(const std::shared_ptr<Window>& window) {
  CommunicatorState& own = state("detach");
  const InUse::Scope inside(own.resources.in_use, "detach");
  own.check_not_grouped("detach", "they may use the memory");
  own.faults.throw_if_broken();
  const DeviceScope device(*own.resources.backend);
  own.resources.heap.detach(window);
}

void CallsOnWindows::put(const std::shared_ptr<Window>& window, int peer, std::size_t offset,
                         const void* source, std::size_t bytes, bool signals, StreamRef stream,
                         const CallOptions& options) {
  make(state("put"),
       {"put",
        {.kind = Kind::put, .signals = signals ? 1u : 0u},
        peer,
        window,
        offset,
        bytes,
        const_cast<void*>(source)},
       stream, options);
}
void CallsOnWindows::get(const std::shared_ptr<Window>& window, int peer, std::size_t offset,
                         void* target, std::size_t bytes, StreamRef stream,
                         const CallOptions& options) {
  make(state("get"), {"get", {.kind = Kind::get}, peer, window, offset, bytes, target}, stream,
       options);
}
void CallsOnWindows::signal(int peer, StreamRef stream, const CallOptions& options) {
  make(state("signal"), {"signal", {.kind = Kind::signal, .signals = 1}, peer}, stream, options);
}
void CallsOnWindows::wait_signal(int peer, std::uint32_t signals, StreamRef stream,
                                 const CallOptions& options) {
  make(state("wait_signal"), {"wait_signal", {.kind = Kind::await, .signals = signals}, peer},
       stream, options);
}

/// Throws unless this rank loads and stores rank `rank`'s copy; without one, those of all ranks.
void CallsOnWindows::check_reached(std::string_view what, const std::shared_ptr<Window>& window,
                                   std::optional<int> rank) const {
  const CommunicatorState& own = state(what);
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    throw Error(code, fmt::format("{}: rank {}: {}", what, own.resources.rank(), why));
  };
  if (window == nullptr) refuse(ErrorCode::invalid_argument, "the window is null");
  if (!own.resources.heap.owns(*window) || window->is_stale())
    refuse(ErrorCode::invalid_argument,
           "the window is another communicator's, was detached, or its memory was freed");
  if (rank && (*rank < 0 || *rank >= own.resources.size()))
    refuse(ErrorCode::invalid_argument, fmt::format("there is no rank {}", *rank));
  const Nodes& nodes = own.resources.nodes;
  if (!window->is_mapped() || (rank ? !nodes.is_here(*rank) : nodes.are_several()))
    refuse(ErrorCode::unsupported, "this rank can't load and store that memory");
}
void* CallsOnWindows::peer(const std::shared_ptr<Window>& window, int rank) const {
  check_reached("peer", window, rank);
  return window->peer(rank);
}
PeerWindow CallsOnWindows::view(const std::shared_ptr<Window>& window) const {
  check_reached("view_of", window, {});
  return {window->view(), state("view_of").resources.size(), window->number()};
}
void CallsOnWindows::launch(const KernelLaunch& launch, StreamRef stream) {
  CommunicatorState& own = state("launch");
  const InUse::Scope inside(own.resources.in_use, "launch");
  own.kernels.call(launch, stream);
}

}  // namespace plait
