// Functions that run once a stream has come to a point. No thread waits for it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

/// Pairs of an event and a function, in order. A function runs once, after its event and after all
/// functions before it, on the thread that calls `poll` or `drain`. It must not throw. One thread
/// at a time may use the queue, and `push` and `poll` need the device bound.
class EventQueue {
 public:
  explicit EventQueue(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}
  ~EventQueue() { drain(); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// Records an event on `stream`, which must not be captured; `function` runs after it.
  void push(NativeStream stream, std::function<void()> function);
  /// Runs the functions whose turn has come, and returns how many. Never blocks.
  std::size_t poll();
  /// Blocks until all events have come, and runs all functions. If the device is lost, it runs them
  /// at once, because nothing on the device uses any memory then.
  void drain() noexcept;
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::unique_ptr<DeviceEvent> event;
    std::function<void()> function;
  };
  void run_first();

  std::shared_ptr<Backend> backend_;
  std::deque<Entry> entries_;
  // Creating an event takes longer than recording it.
  std::vector<std::unique_ptr<DeviceEvent>> spare_;
};

}  // namespace plait
