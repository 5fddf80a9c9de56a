#include "algorithms/contract/work_memory.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace plait {
namespace {

constexpr std::size_t kept_block = std::size_t{64} << 10;
std::size_t whole_units(std::size_t bytes) {
  return (bytes + WorkRing::unit - 1) / WorkRing::unit * WorkRing::unit;
}

}  // namespace

WorkMemory::WorkMemory(std::shared_ptr<Backend> backend, EventQueue& events, std::size_t ring_bytes,
                       Check check)
    : backend_(std::move(backend)),
      events_(events),
      check_(std::move(check)),
      ring_(ring_bytes),
      ring_memory_(allocate(ring_bytes)) {}

/// The ring is unused once all its launches have ended. The caller must wait for replays, as for
/// every graph.
WorkMemory::~WorkMemory() { events_.drain(); }

WorkMemory::Pinned WorkMemory::allocate(std::size_t bytes) {
  return {static_cast<std::byte*>(backend_->allocate_pinned(bytes)), Deallocate{backend_}};
}

const std::byte* WorkMemory::place(std::span<const std::byte> items, std::span<std::byte> few,
                                   std::size_t messages, bool captured) {
  const bool fits = items.size() <= few.size();
  std::byte* to = fits ? few.data() : captured ? for_ever(items.size()) : from_ring(items.size());
  std::memcpy(to, items.data(), items.size());
  Statistics::Work& work = fits       ? counts_.in_arguments
                           : captured ? counts_.persistent
                                      : counts_.in_fifo;
  ++work.launches;
  work.items += messages;
  return fits ? nullptr : to;
}

Statistics WorkMemory::statistics() const {
  Statistics statistics = counts_;
  statistics.fifo_bytes = ring_.bytes();
  statistics.fifo_bytes_in_use = ring_.bytes_in_use();
  return statistics;
}

std::byte* WorkMemory::from_ring(std::size_t bytes) {
  events_.poll();
  auto found = ring_.take(bytes);
  if (!found) ++counts_.fifo_waits;
  while (!found) {
    check_();
    if (events_.poll() == 0) std::this_thread::yield();
    found = ring_.take(bytes);
  }
  pending_ = true;
  pending_end_ = found->produced;
  return ring_memory_.get() + found->offset;
}

std::byte* WorkMemory::for_ever(std::size_t bytes) {
  bytes = whole_units(bytes);
  if (bytes > kept_left_) {
    const std::size_t size = std::max(bytes, kept_block);
    kept_.push_back(allocate(size));
    kept_size_ = kept_left_ = size;  // after `allocate`, which may throw
  }
  std::byte* place = kept_.back().get() + (kept_size_ - kept_left_);
  kept_left_ -= bytes;
  return place;
}

void WorkMemory::launched(NativeStream stream) {
  if (!std::exchange(pending_, false)) return;
  events_.push(stream, [this, end = pending_end_] { ring_.give_back(end); });
}

}  // namespace plait
