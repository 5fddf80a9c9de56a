#include "communicator/calls/preparer.hpp"

#include <fmt/format.h>

#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calls/call_checks.hpp"
#include "core/float_environment.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"

namespace plait {

void CallPreparer::describe(PreparedCall& prepared, const Request& request) const {
  const int rank = own_.rank();
  if (request.call.collective == Collective::send_recv)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("rank {}: send_recv is no collective: Communicator has messages", rank));
  prepared.call = described(request.call, request.options, rank, own_.size());
  // A buffer that this rank need not have is ignored.
  const CollectiveFacts& facts = facts_of(prepared.call.collective);
  prepared.buffers.send = has(facts.send, prepared.call, rank) ? request.send : nullptr;
  prepared.buffers.recv = has(facts.recv, prepared.call, rank) ? request.recv : nullptr;
}

void CallPreparer::describe_end(PreparedCall& prepared, DataType type,
                                const MessageEnd& end) const {
  prepared.call = {.collective = Collective::send_recv, .type = type, .count = end.count};
  prepared.buffers.peer = end.peer;
  prepared.sends = end.sends;
  if (end.sends) prepared.buffers.send = end.buffer;
  else prepared.buffers.recv = end.buffer;
}

void CallPreparer::check(const PreparedCall& prepared, const CallOptions& options,
                         NativeStream stream) const {
  check_call(prepared.call, options, prepared.buffers, own_.rank(), own_.size());
  check_stream(name_of(prepared.call.collective), stream, options);
}

void CallPreparer::check_ends(std::string_view what, const Request& request,
                              NativeStream stream) const {
  check_options(what, request.options, own_.rank());
  for (const MessageEnd& end : request.ends)
    check_message(
        {.collective = Collective::send_recv, .type = request.call.type, .count = end.count}, end,
        own_.rank(), own_.size(), what);
  check_stream(what, stream, request.options);
}

/// Refuses a handle that names another stream in each thread, because calls are ordered by the
/// handles of their streams, and another thread than the caller's may enqueue them.
void CallPreparer::check_stream(std::string_view what, NativeStream stream) const {
  if (own_.backend->names_one_stream(stream)) return own_.check_live(what, stream);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: rank {}: stream {} is the default stream of whichever thread uses "
                          "it, so calls on it have no order: pass one "
                          "that was created",
                          what, own_.rank(), stream));
}

/// Refuses a call that would wait for work that can't begin yet.
void CallPreparer::check_may_block(std::string_view what, NativeStream stream) const {
  if (group_is_open())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: a blocking call in a group would wait for what only the "
                            "group's end enqueues: synchronize after that",
                            what, own_.rank()));
  const DeviceScope device(*own_.backend);
  if (own_.backend->is_capturing(own_.backend->resolve(stream)))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: a blocking call on a stream that is being captured would "
                            "wait for what only the graph runs",
                            what, own_.rank()));
}

std::shared_ptr<Window> CallPreparer::find(std::string_view what, const char* buffer,
                                           const void* pointer, std::size_t bytes) const {
  std::shared_ptr<Window> window = own_.heap.at(pointer);
  if (!window) return nullptr;
  if (window->is_stale())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: rank {}: {} = {} lies in memory at {} that was attached and has "
                    "been freed since, without `detach`",
                    what, own_.rank(), buffer, pointer, static_cast<const void*>(window->local())));
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - window->local());
  if (bytes <= window->bytes() - offset) return window;
  // Other memory may begin where the window ends.
  if (offset == window->bytes() && offset != 0) return nullptr;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: rank {}: {} = {} begins at offset {} of a symmetric buffer of {} bytes, "
                  "which has no room for {} bytes there",
                  what, own_.rank(), buffer, pointer, offset, window->bytes(), bytes));
}

void CallPreparer::locate(PreparedCall& prepared) const {
  Call& call = prepared.call;
  Buffers& buffers = prepared.buffers;
  Place& place = prepared.place;
  if (!own_.heap.may_hold(buffers.send) && !own_.heap.may_hold(buffers.recv)) return;
  const CollectiveFacts& facts = facts_of(call.collective);
  std::shared_ptr<Window> send =
      find(name_of(call.collective), "send", buffers.send, send_bytes(call));
  std::shared_ptr<Window> recv =
      find(name_of(call.collective), "recv", buffers.recv, recv_bytes(call));
  prepared.send_memory = send;
  prepared.recv_memory = recv;
  if ((!send && !facts.send.root_only) || (!recv && !facts.recv.root_only)) return;
  if (facts.send.root_only) send.reset();
  if (facts.recv.root_only) recv.reset();
  call.symmetric = true;
  const auto* from = static_cast<const std::byte*>(buffers.send);
  auto* to = static_cast<std::byte*>(buffers.recv);
  if (send) {
    buffers.send_range = &send->range();
    buffers.send_offset = place.send_offset = static_cast<std::size_t>(from - send->local());
    buffers.send_window = send->view().at(buffers.send_offset);
    place.send_window = send->number();
  }
  if (recv) {
    buffers.recv_range = &recv->range();
    buffers.recv_offset = place.recv_offset = static_cast<std::size_t>(to - recv->local());
    buffers.recv_window = recv->view().at(buffers.recv_offset);
    place.recv_window = recv->number();
  }
  call.in_place = !facts.rooted && to == from + in_place_distance(call, own_.rank());
  if (!call.in_place || facts.send.size == facts.recv.size) return;
  // The smaller buffer is this rank's block of the larger one.
  if (facts.send.size == BufferFacts::Size::one) place.send_window = place.send_offset = 0;
  else place.recv_window = place.recv_offset = 0;
}

/// The receiver's buffer must be symmetric memory, so that the sender knows it by its offset.
void CallPreparer::locate_receiver(PreparedCall& prepared, void* receiver) const {
  const std::size_t bytes = prepared.call.block_bytes();
  std::shared_ptr<Window> window = own_.heap.find(receiver, bytes);
  if (!window)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("send_recv: rank {}: recv = {} with {} bytes is not in symmetric "
                            "memory, as the option `symmetric` says",
                            own_.rank(), receiver, bytes));
  Buffers& buffers = prepared.buffers;
  prepared.call.symmetric = true;
  buffers.recv_range = &window->range();
  buffers.recv_offset = prepared.place.recv_offset =
      static_cast<std::size_t>(static_cast<std::byte*>(receiver) - window->local());
  prepared.place.recv_window = window->number();
  prepared.recv_memory = std::move(window);
}

void CallPreparer::locate_end(PreparedCall& prepared, std::string_view what, const MessageEnd& end,
                              const CallOptions& options) const {
  auto& memory = end.sends ? prepared.send_memory : prepared.recv_memory;
  memory = find(what, end.sends ? "send" : "recv", end.buffer, prepared.call.bytes());
  if (options.symmetric) locate_receiver(prepared, end.receiver);
}

std::size_t CallPreparer::CallHash::operator()(const Call& call) const noexcept {
  const auto facts = (static_cast<std::size_t>(call.collective) << 16) |
                     (static_cast<std::size_t>(call.type) << 8) |
                     (static_cast<std::size_t>(call.op) << 2) | (std::size_t{call.in_place} << 1) |
                     std::size_t{call.symmetric};
  return (call.count * 0x9e3779b97f4a7c15u) ^ facts ^ (static_cast<std::size_t>(call.root) << 32);
}

const CallPreparer::CachedChoice& CallPreparer::cached(const Call& call) {
  if (last_ != nullptr && last_->first == call) return last_->second;
  auto found = cache_.find(call);
  if (found == cache_.end()) {
    if (cache_.size() >= 4096) cache_.clear();
    last_ = nullptr;
    // Estimates are compared. In another rounding mode they might order algorithms differently on
    // one rank.
    const FloatEnvironment defaults;
    Choice choice = own_.selector.choose(call, {});
    const bool shares = own_.selector.gains_in_batch(call, choice);
    const Algorithm* const in_batch = own_.selector.choose_batch(call);
    found = cache_.emplace(call, CachedChoice{std::move(choice), shares, in_batch}).first;
  }
  last_ = &*found;
  return found->second;
}

const Choice& CallPreparer::named(const Call& call, const CallOptions& options) {
  const auto is_same = [&](const NamedChoice& last) {
    return last.call == call && last.blocks == options.blocks && last.threads == options.threads &&
           last.name == options.algorithm;
  };
  if (!last_named_ || !is_same(*last_named_)) {
    const FloatEnvironment defaults;
    last_named_.reset();  // the choice may throw
    last_named_ = {call, options.algorithm, options.blocks, options.threads,
                   own_.selector.choose(call, options)};
  }
  return last_named_->choice;
}

const Algorithm* CallPreparer::choose_batch(const Call& call) {
  const Algorithm* const algorithm = cached(call).in_batch;
  if (choices_ && algorithm != nullptr && own_.rank() == 0) [[unlikely]]
    choices_->note_batch(call, *algorithm);
  return algorithm;
}

void CallPreparer::choose(PreparedCall& prepared, const CallOptions& options) {
  const auto take = [&](const Choice& choice) -> const Choice& {
    prepared.algorithm = choice.algorithm;
    prepared.shape = choice.shape;
    prepared.wished = choice.wished;
    prepared.call.sum_order = choice.sum_order;
    return choice;
  };
  const bool shaped = options.blocks != 0 || options.threads != 0,
             is_named = shaped || !options.algorithm.empty();
  const CachedChoice* const free = is_named ? nullptr : &cached(prepared.call);
  const Choice& choice = take(is_named ? named(prepared.call, options) : free->choice);
  prepared.shares =
      is_named ? !shaped && choice.algorithm->batches(own_.selector.topology()) : free->shares;
  prepared.done_already = prepared.buffers.send == prepared.buffers.recv &&
                          own_.selector.is_done_in_place(prepared.call, options);
  // All ranks choose alike, so one of them logs the choice. For a message that is its sender.
  if (choices_ && !prepared.done_already &&
      (prepared.is_message() ? prepared.sends : own_.rank() == 0)) [[unlikely]]
    choices_->note(prepared.call, options, choice);
}

}  // namespace plait
