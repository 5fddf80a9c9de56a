#include "backends/host/host_stream.hpp"

#include <algorithm>
#include <utility>

#include "backends/start_thread.hpp"
#include "plait/error.hpp"

namespace plait::host {

HostStream::~HostStream() {
  {
    std::unique_lock lock(mutex_);
    capture_.reset();  // what was captured and never ended is forgotten
    drain(lock);
    stop_ = true;
  }
  wake_.notify_one();
  if (worker_.joinable()) worker_.join();
}

void HostStream::push(Task task) {
  std::unique_lock lock(mutex_);
  if (capture_) {
    capture_->push_back(std::move(task));
    return;
  }
  if (!worker_.joinable()) worker_ = start_thread("the thread of a host stream", [this] { work(); });
  queue_.push_back(std::move(task));
  ++pushed_;
  const bool wake = asleep_ && !running_;
  lock.unlock();
  if (wake) wake_.notify_one();
}

void HostStream::run_front(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    task(*this);
  } catch (...) {
    failure = std::current_exception();
  }
  task = nullptr;  // what it owns is released before the stream counts as idle
  lock.lock();
  if (!failure_) failure_ = failure;
  running_ = false;
  if (++done_ < awaited_) return;
  awaited_ = nobody;  // whoever waits for more says so again
  idle_.notify_all();
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asleep_ = true;
    wake_.wait(lock, [this] { return stop_ || (!queue_.empty() && !running_); });
    asleep_ = false;
    if (stop_) return;
    while (!queue_.empty() && !running_) run_front(lock);
  }
}

/// Other threads may go on pushing: for their tasks it does not wait.
void HostStream::drain(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t until = pushed_;
  while (done_ < until) {
    if (!running_) {
      run_front(lock);
    } else {
      awaited_ = std::min(awaited_, until);
      idle_.wait(lock);
    }
  }
  if (asleep_ && !running_ && !queue_.empty()) wake_.notify_one();  // they found this thread at it, and woke nobody
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  if (capture_) throw Error(ErrorCode::invalid_argument, "synchronize: the stream is being captured");
  drain(lock);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void HostStream::finish() noexcept {
  std::unique_lock lock(mutex_);
  drain(lock);
}

bool HostStream::is_capturing() {
  const std::lock_guard lock(mutex_);
  return capture_ != nullptr;
}

void HostStream::begin_capture() {
  const std::lock_guard lock(mutex_);
  if (capture_) throw Error(ErrorCode::invalid_argument, "begin_capture: the stream is being captured already");
  capture_ = std::make_shared<TaskList>();
}

std::shared_ptr<TaskList> HostStream::end_capture() {
  const std::lock_guard lock(mutex_);
  if (!capture_) throw Error(ErrorCode::invalid_argument, "end_capture: the stream is not being captured");
  return std::exchange(capture_, nullptr);
}

}  // namespace plait::host
