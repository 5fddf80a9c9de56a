// Streams of the host target: tasks run in order, on a thread of the stream's own or on the thread that waits for it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/host/host_pool.hpp"

namespace plait::host {

class HostStream;
/// Gets the stream that runs it: a captured task may run on another than the one it was captured on.
using Task = std::function<void(HostStream&)>;

/// Tasks in the order they were captured.
using TaskList = std::vector<Task>;

class HostStream {
 public:
  HostStream() = default;
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Appends a task; returns at once. While capturing, the task is recorded instead.
  void push(Task task);
  /// Returns when all tasks pushed so far have run. Runs them itself when the stream's thread is not already at it: that saves a
  /// wake-up, a third of the time of a small call. Rethrows the first exception of a task since the last call.
  void synchronize();
  /// The same, but throws nothing, and also while capturing: what was pushed before the capture runs.
  void finish() noexcept;

  bool is_capturing();
  void begin_capture();
  std::shared_ptr<TaskList> end_capture();

  Pool& pool() { return pool_; }

 private:
  static constexpr auto nobody = std::numeric_limits<std::uint64_t>::max();
  void work();
  void run_front(std::unique_lock<std::mutex>& lock);
  void drain(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Task> queue_;
  std::uint64_t pushed_ = 0, done_ = 0;  // tasks
  std::uint64_t awaited_ = nobody;       // the lowest count of `done_` that a thread sleeps for
  std::exception_ptr failure_;           // the first of a task
  bool running_ = false;                 // somebody is inside a task
  bool stop_ = false;
  bool asleep_ = false;  // the worker waits for work
  std::shared_ptr<TaskList> capture_;
  Pool pool_;
  std::thread worker_;  // started with the first task
};

}  // namespace plait::host
