#include "communicator/calls/known_calls.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <new>
#include <string>
#include <utility>

namespace plait {
namespace {

std::uint64_t hash_of(const Request& request) {
  std::uint64_t hash = 0;
  const auto add = [&](std::uint64_t word) {
    hash = (std::rotl(hash, 23) ^ word) * 0x9e3779b97f4a7c15u;
  };
  const auto add_pointer = [&](const void* pointer) {
    add(reinterpret_cast<std::uintptr_t>(pointer));
  };
  const Call& call = request.call;
  add(static_cast<std::uint64_t>(call.collective) << 32 |
      static_cast<std::uint64_t>(call.type) << 16 | static_cast<std::uint64_t>(call.op));
  add(call.count ^ static_cast<std::uint64_t>(call.root) << 48);
  add_pointer(request.send);
  add_pointer(request.recv);
  const CallOptions& options = request.options;
  add(options.blocks ^ static_cast<std::uint64_t>(options.threads) << 32 ^
      std::bit_cast<std::uint64_t>(options.scale));
  if (!options.algorithm.empty()) add(std::hash<std::string>()(options.algorithm));
  for (const MessageEnd& end : request.ends) {
    add_pointer(end.buffer);
    add(end.count ^ static_cast<std::uint64_t>(end.peer) << 40);
  }
  hash ^= hash >> 32;
  return hash != 0 ? hash : 1;  // 0: an empty place
}

/// Bit for bit, because other ranks compare the bits, and 0 and -0 are equal numbers.
bool are_equal(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
bool are_equal(const CallOptions& a, const CallOptions& b) {
  return a.algorithm == b.algorithm && are_equal(a.scale, b.scale) && a.blocks == b.blocks &&
         a.threads == b.threads && a.symmetric == b.symmetric;
}

/// Also if the system can't say: the checks of a new call report why.
bool has_changed(const std::weak_ptr<const Window>& attached) {
  const auto window = attached.lock();
  try {
    return window == nullptr || !window->is_mapped() || window->is_stale();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

bool KnownCall::answers(const Request& request, const MemoryState& now) const {
  return state == State::repeatable && memory_state_ == now && send_ == request.send &&
         recv_ == request.recv && call_ == request.call &&
         are_equal(call_.scale, request.call.scale) && are_equal(options_, request.options) &&
         std::equal(ends_.begin(), ends_.end(), request.ends.begin(), request.ends.end()) &&
         std::none_of(memory.begin(), memory.end(),
                      [](const std::weak_ptr<const Window>& window) { return window.expired(); }) &&
         std::none_of(attached.begin(), attached.end(), has_changed);
}

void KnownCall::keep(const Request& request, const MemoryState& now) {
  call_ = request.call;
  send_ = request.send;
  recv_ = request.recv;
  ends_.assign(request.ends.begin(), request.ends.end());
  options_ = request.options;
  memory_state_ = now;
  state = State::repeatable;
}

KnownCalls::Found KnownCalls::find(const Request& request, const MemoryState& now) noexcept {
  // Most calls are the one before once more, and are found without their hash.
  if (last_ != nullptr && last_->call->answers(request, now)) {
    last_->is_used = true;
    return {.known = last_->call.get()};
  }
  const std::uint64_t hash = hash_of(request);
  Set& set = sets_[hash % sets_.size()];
  const auto to_fill = [&](Entry& entry) -> Found {
    if (entry.call == nullptr) entry.call.reset(new (std::nothrow) KnownCall);
    if (entry.call == nullptr) return {};  // no memory: the call is made like a new one
    entry.hash = hash;
    // Otherwise one call more than the set holds would make all of them push each other out.
    entry.is_used = true;
    entry.call->state = KnownCall::State::empty;
    return {.empty = entry.call.get()};
  };
  for (Entry& entry : set.entries) {
    if (entry.hash != hash) continue;
    entry.is_used = true;
    if (!entry.call->answers(request, now))
      return entry.call->state == KnownCall::State::unrepeatable ? Found{} : to_fill(entry);
    last_ = &entry;
    return {.known = entry.call.get()};
  }
  if (std::find(set.seen.begin(), set.seen.end(), hash) == set.seen.end()) {
    set.seen[set.next_seen] = hash;
    set.next_seen = (set.next_seen + 1) % set.seen.size();
    return {};
  }
  if (request.ends.size() > most_ends) return {};
  Entry& oldest = set.entries[set.next];
  set.next = (set.next + 1) % set.entries.size();
  return std::exchange(oldest.is_used, false) ? Found{} : to_fill(oldest);
}

bool KnownCalls::has(const Request& request, const MemoryState& now) const {
  const std::uint64_t hash = hash_of(request);
  const Set& set = sets_[hash % sets_.size()];
  return std::any_of(set.entries.begin(), set.entries.end(), [&](const Entry& entry) {
    return entry.hash == hash && entry.call->answers(request, now);
  });
}

}  // namespace plait
