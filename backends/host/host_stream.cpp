#include "backends/host/host_stream.hpp"

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
  queue_.push_back(std::move(task));
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
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
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asleep_ = true;
    wake_.wait(lock, [this] { return stop_ || (!queue_.empty() && !running_); });
    asleep_ = false;
    if (stop_) return;
    while (!queue_.empty() && !running_) run_front(lock);
    idle_.notify_all();
  }
}

void HostStream::drain(std::unique_lock<std::mutex>& lock) {
  while (!queue_.empty() || running_) {
    if (running_) {
      idle_.wait(lock, [this] { return !running_; });
    } else {
      run_front(lock);
      idle_.notify_all();
    }
  }
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  if (capture_) throw Error(ErrorCode::invalid_argument, "synchronize: the stream is being captured");
  drain(lock);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
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
