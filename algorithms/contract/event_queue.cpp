#include "algorithms/contract/event_queue.hpp"

#include <utility>

namespace plait {

void EventQueue::push(NativeStream stream, std::function<void()> function) {
  std::unique_ptr<DeviceEvent> event;
  if (spare_.empty()) {
    event = backend_->create_event(false);
  } else {
    event = std::move(spare_.back());
    spare_.pop_back();
  }
  event->record(stream);
  entries_.push_back({std::move(event), std::move(function)});
}

std::size_t EventQueue::poll() {
  std::size_t count = 0;
  for (; !entries_.empty() && entries_.front().event->done(); ++count) run_first();
  return count;
}

void EventQueue::drain() noexcept {
  try {
    const DeviceScope device(*backend_);
    for (; !entries_.empty(); run_first()) entries_.front().event->synchronize();
  } catch (const std::exception&) {
    while (!entries_.empty()) run_first();
  }
}

void EventQueue::run_first() {
  Entry first = std::move(entries_.front());
  entries_.pop_front();
  spare_.push_back(std::move(first.event));
  first.function();
}

}  // namespace plait
