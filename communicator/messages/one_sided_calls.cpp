#include "communicator/messages/one_sided_calls.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

#include "communicator/groups/open_group.hpp"

namespace plait {
namespace {

using Kind = Buffers::OneSided::Kind;

template <class... Args>
[[noreturn]] void refuse(ErrorCode code, const OneSidedRequest& request, int rank,
                         fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format("{}: rank {}: {}", request.what, rank,
                                fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace

/// Sets the addresses of a put or a get, or the place on another node.
void OneSidedCalls::locate(PreparedCall& prepared, const OneSidedRequest& request) const {
  using enum ErrorCode;
  const int rank = own_.rank();
  const auto& [what, call, peer, window, offset, bytes, own] = request;
  if (window == nullptr) refuse(invalid_argument, request, rank, "the window is null");
  if (!own_.heap.owns(*window))
    refuse(invalid_argument, request, rank,
           "the window of {} is another communicator's, or was detached",
           static_cast<const void*>(window->local()));
  if (window->is_stale())
    refuse(invalid_argument, request, rank,
           "the memory at {} was attached and has been freed since, without `detach`",
           static_cast<const void*>(window->local()));
  const std::size_t size = window->bytes_of(peer);
  if (offset > size || bytes > size - offset)
    refuse(invalid_argument, request, rank,
           "{} bytes from offset {} on, and the window of rank {} has {}", bytes, offset, peer,
           size);
  if (own == nullptr && bytes != 0) refuse(invalid_argument, request, rank, "the pointer is null");
  const bool puts = call.kind == Kind::put;
  prepared.send_memory = window;
  prepared.recv_memory = own_.heap.find(own, bytes);
  if (prepared.recv_memory != window)  // else it has been checked
    prepared.recv_memory = path_.preparer().find(what, puts ? "source" : "target", own, bytes);
  std::byte* theirs = nullptr;
  auto& of = prepared.buffers.one_sided;
  if (of.is_elsewhere) {
    of.window = window->number();
    of.offset = offset;
  } else if (window->is_mapped()) {
    theirs = window->peer(peer, offset);
  } else if (peer == rank) {
    theirs = window->local() + offset;
  } else if (puts) {
    refuse(unsupported, request, rank,
           "rank {}'s memory can be read and not written: it belongs to its process alone", peer);
  } else {
    const auto [address, reader] = window->elsewhere(peer);
    theirs = address + offset;
    of.reader_handle = reader;
  }
  if (peer == rank) {
    const auto apart = static_cast<const std::byte*>(own) - theirs;
    if (apart != 0 && static_cast<std::size_t>(std::abs(apart)) < bytes)
      refuse(invalid_argument, request, rank, "source and target overlap");
  }
  prepared.buffers.send = puts ? static_cast<const void*>(own) : theirs;
  prepared.buffers.recv = puts ? static_cast<void*>(theirs) : own;
}

PreparedCall OneSidedCalls::prepare(const OneSidedRequest& request) const {
  const int rank = own_.rank(), peer = request.peer;
  if (peer < 0 || peer >= own_.size())
    refuse(ErrorCode::invalid_argument, request, rank, "peer {} is none of the ranks 0 to {}", peer,
           own_.size() - 1);
  PreparedCall prepared;
  prepared.call = {
      .collective = Collective::send_recv, .type = DataType::u8, .count = request.bytes};
  prepared.buffers.peer = peer;
  prepared.buffers.one_sided = request.call;
  prepared.buffers.one_sided.is_elsewhere = !own_.nodes.is_here(peer);
  if (request.call.kind == Kind::await &&
      (request.call.signals == 0 ||
       request.call.signals > std::numeric_limits<std::int32_t>::max()))
    refuse(ErrorCode::invalid_argument, request, rank, "{} signals", request.call.signals);
  if (request.call.kind == Kind::put || request.call.kind == Kind::get) locate(prepared, request);
  prepared.algorithm = Registry::instance().one_sided.get();
  prepared.shape = prepared.algorithm->shapes(prepared.call, own_.selector.topology()).front();
  return prepared;
}

void OneSidedCalls::call(const OneSidedRequest& request, StreamRef stream,
                         const CallOptions& options) {
  if (request.peer == proc_null) return;
  const auto prepared = [&] {
    path_.check_again(request.what, stream.native(), options);
    return prepare(request);
  };
  const bool is_empty = request.bytes == 0 && request.call.signals == 0;
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open()) {
    group.add([&] {
      const PreparedCall call = prepared();
      if (!is_empty) group.add_prepared(path_, call, stream.native());
    });
    return;
  }
  PlanOfOneCall plan(kept_);
  plan->calls.push_back({prepared(), own_.backend->resolve(stream.native())});
  if (is_empty) return;
  path_.plan_steps(*plan);
  path_.submit(*plan, {});
}

}  // namespace plait
