#include "communicator/call_preparer.hpp"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/check.hpp"
#include "core/float_environment.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"

namespace plait {

void CallPreparer::describe(PreparedCall& prepared, const Call& wanted, const void* send,
                            void* recv, const CallOptions& options) const {
  const int rank = bootstrap_.rank();
  if (wanted.collective == Collective::send_recv)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("rank {}: send_recv is no collective: Communicator has messages", rank));
  prepared.call = described(wanted, options, rank, bootstrap_.size());
  // A buffer that this rank need not have is ignored.
  const CollectiveFacts& facts = facts_of(prepared.call.collective);
  prepared.buffers.send = has(facts.send, prepared.call, rank) ? send : nullptr;
  prepared.buffers.recv = has(facts.recv, prepared.call, rank) ? recv : nullptr;
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
  check_call(prepared.call, options, prepared.buffers, bootstrap_.rank(), bootstrap_.size());
  check_stream(name_of(prepared.call.collective), stream, options);
}

void CallPreparer::check_ends(std::string_view what, DataType type,
                              std::span<const MessageEnd> ends, const CallOptions& options,
                              NativeStream stream) const {
  check_options(what, options, bootstrap_.rank());
  for (const MessageEnd& end : ends)
    check_message({.collective = Collective::send_recv, .type = type, .count = end.count}, end,
                  bootstrap_.rank(), bootstrap_.size(), what);
  check_stream(what, stream, options);
}

void CallPreparer::check_live(std::string_view what, NativeStream stream) const {
  if (backend_.is_live(stream)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "{}: rank {}: {} is no stream: it has been destroyed, or is the stream of another target",
          what, bootstrap_.rank(), stream));
}

/// Refuses a handle that names another stream in each thread, because calls are ordered by the
/// handles of their streams, and another thread than the caller's may enqueue them.
void CallPreparer::check_stream(std::string_view what, NativeStream stream) const {
  if (backend_.names_one_stream(stream)) return check_live(what, stream);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: rank {}: stream {} is the default stream of whichever thread uses "
                          "it, so calls on it have no order: pass one "
                          "that was created",
                          what, bootstrap_.rank(), stream));
}

/// Refuses a call that would wait for work that can't begin yet.
void CallPreparer::check_may_block(std::string_view what, NativeStream stream) const {
  if (group_is_open())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: a blocking call in a group would wait for what only the "
                            "group's end enqueues: synchronize after that",
                            what, bootstrap_.rank()));
  const DeviceScope device(backend_);
  if (backend_.is_capturing(backend_.resolve(stream)))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: a blocking call on a stream that is being captured would "
                            "wait for what only the graph runs",
                            what, bootstrap_.rank()));
}

std::shared_ptr<Window> CallPreparer::find(std::string_view what, const char* buffer,
                                           const void* pointer, std::size_t bytes) const {
  std::shared_ptr<Window> window = heap_.at(pointer);
  if (!window) return nullptr;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - window->local());
  if (bytes <= window->bytes() - offset) return window;
  // Other memory may begin where the window ends.
  if (offset == window->bytes() && offset != 0) return nullptr;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: rank {}: {} = {} begins at offset {} of a symmetric buffer of {} bytes, "
                  "which has no room for {} bytes there",
                  what, bootstrap_.rank(), buffer, pointer, offset, window->bytes(), bytes));
}

void CallPreparer::locate(PreparedCall& prepared) const {
  Call& call = prepared.call;
  Buffers& buffers = prepared.buffers;
  Place& place = prepared.place;
  if (!heap_.may_hold(buffers.send) && !heap_.may_hold(buffers.recv)) return;
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
  call.in_place = !facts.rooted && to == from + in_place_distance(call, bootstrap_.rank());
  if (!call.in_place || facts.send.size == facts.recv.size) return;
  // The smaller buffer is this rank's block of the larger one.
  if (facts.send.size == BufferFacts::Size::one) place.send_window = place.send_offset = 0;
  else place.recv_window = place.recv_offset = 0;
}

/// The receiver's buffer must be symmetric memory, so that the sender knows it by its offset.
void CallPreparer::locate_receiver(PreparedCall& prepared, void* receiver) const {
  const std::size_t bytes = prepared.call.block_bytes();
  std::shared_ptr<Window> window = heap_.find(receiver, bytes);
  if (!window)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("send_recv: rank {}: recv = {} with {} bytes is not in symmetric "
                            "memory, as the option `symmetric` says",
                            bootstrap_.rank(), receiver, bytes));
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

std::string CallPreparer::describe_places(const PreparedCall& prepared) const {
  const auto& [call, buffers] = std::tie(prepared.call, prepared.buffers);
  if (!call.symmetric) return "ordinary memory";
  const CollectiveFacts facts = facts_of(call.collective);
  if (call.in_place)  // the smaller buffer is the rank's own block of the larger one
    return heap_.describe(facts.send.size == BufferFacts::Size::one_per_rank ? buffers.send
                                                                             : buffers.recv) +
           ", in place";
  if (facts.send.root_only) return heap_.describe(buffers.recv);
  if (facts.recv.root_only) return heap_.describe(buffers.send);
  return heap_.describe(buffers.send) + ", " + heap_.describe(buffers.recv);
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
    Choice choice = selector_.choose(call, {});
    const bool shares = selector_.gains_in_batch(call, choice);
    const Algorithm* const in_batch = selector_.choose_batch(call);
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
                   selector_.choose(call, options)};
  }
  return last_named_->choice;
}

const Algorithm* CallPreparer::choose_batch(const Call& call) {
  const Algorithm* const algorithm = cached(call).in_batch;
  if (choices_ && algorithm != nullptr && bootstrap_.rank() == 0) [[unlikely]]
    choices_->note_batch(call, *algorithm);
  return algorithm;
}

void CallPreparer::choose(PreparedCall& prepared, const CallOptions& options) {
  const auto take = [&](const Choice& choice) -> const Choice& {
    prepared.algorithm = choice.algorithm;
    prepared.shape = choice.shape;
    prepared.wished = choice.wished;
    return choice;
  };
  const bool shaped = options.blocks != 0 || options.threads != 0,
             is_named = shaped || !options.algorithm.empty();
  const CachedChoice* const free = is_named ? nullptr : &cached(prepared.call);
  const Choice& choice = take(is_named ? named(prepared.call, options) : free->choice);
  prepared.shares =
      is_named ? !shaped && choice.algorithm->batches(selector_.topology()) : free->shares;
  prepared.done_already = prepared.buffers.send == prepared.buffers.recv &&
                          selector_.is_done_in_place(prepared.call, options);
  // Ranks choose alike, so one of them speaks for all. A message has but two, and one sender.
  if (choices_ && !prepared.done_already &&
      (prepared.is_message() ? prepared.sends : bootstrap_.rank() == 0)) [[unlikely]]
    choices_->note(prepared.call, options, choice);
}

}  // namespace plait
