// A thread for each device of a process, for the steps that ranks take together.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plait {

/// What is collective over a bootstrap blocks until all ranks have come, so ranks in one process
/// need a thread each for as long. The threads live as long as this object: each keeps its device
/// current.
class DeviceThreads {
 public:
  /// Throws Error(backend) if they can't be started.
  explicit DeviceThreads(std::size_t count);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  /// Runs `step(i)` on thread i, on all at once, and waits for all. Throws what was thrown first:
  /// later errors follow from it. By one thread at a time.
  void run(const std::function<void(std::size_t)>& step);

 private:
  void work(std::size_t index);
  void stop() noexcept;

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  const std::function<void(std::size_t)>* step_ = nullptr;
  std::size_t round_ = 0, unfinished_ = 0;
  std::exception_ptr first_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plait
