#include "backends/host/host_stream.hpp"

#include <algorithm>
#include <cstring>

#include "core/backoff.hpp"
#include "core/start_thread.hpp"
#include "plait/error.hpp"

namespace plait::host {

/// Makes the stream's thread run tasks at once. Requires the lock. If the thread is awake, it sees
/// `hurried_` before it sleeps, so no notice is lost.
void StreamProgress::hurry() {
  hurried_ = true;
  asleep_ = napping_ = false;
  wake_.notify_one();
}

void StreamProgress::wait_for(std::uint64_t tasks, std::unique_lock<std::mutex>& lock) {
  while (done_ < tasks) {
    awaited_ = std::min(awaited_, tasks);
    await(lock);
  }
}

/// Until a task has ended, or for a moment, after which the caller looks again.
void StreamProgress::await(std::unique_lock<std::mutex>& lock) {
  constexpr auto moment = std::chrono::microseconds(20);
  if (!WhileWaiting::is_set()) return reached_.wait(lock);
  lock.unlock();
  WhileWaiting::act();
  lock.lock();
  reached_.wait_for(lock, moment);
}

void StreamProgress::wait_for(std::uint64_t tasks) {
  if (done() >= tasks) return;
  std::unique_lock lock(mutex_);
  if (done_ >= tasks) return;
  if (!hurried_) hurry();
  wait_for(tasks, lock);
}

bool StreamProgress::test(std::uint64_t tasks) {
  if (done() >= tasks) return true;
  const std::lock_guard lock(mutex_);
  if (done_ >= tasks) return true;
  if (!hurried_) hurry();
  return false;
}

HostStream::~HostStream() {
  {
    Lock lock(progress_->mutex_);
    capture_.reset();  // a capture that never ended is dropped
    drain(lock);
    stop_ = true;
  }
  progress_->wake_.notify_one();
  if (worker_.joinable()) worker_.join();
}

void HostStream::record(Task task) {
  {
    const Lock lock(progress_->mutex_);
    if (capture_) return capture_->push_back(std::move(task));
  }
  push(std::move(task));  // another thread has ended the capture
}

void HostStream::push(const Launch& launch, const void* args, std::size_t bytes) {
  if (is_capturing()) {
    const std::shared_ptr<std::byte[]> memory(new std::byte[sizeof(Launch) + bytes]);
    std::memcpy((new (memory.get()) Launch(launch))->args(), args, bytes);
    return record([memory](HostStream& running) {
      running.pool().run(*reinterpret_cast<const Launch*>(memory.get()));
    });
  }
  struct Run {
    Launch launch;
    void operator()(HostStream& running) const { running.pool().run(launch); }
  };
  static_assert(sizeof(Run) == sizeof(Launch));
  Lock lock(progress_->mutex_);
  begin_push(lock);
  std::memcpy(queue_.push(Run{launch}, bytes).launch.args(), args, bytes);
  end_push(lock);
}

void HostStream::call(const std::function<void()>& function) const {
  if (std::this_thread::get_id() != worker_.get_id()) return function();
  const SignalMask of_maker(makers_mask_);
  function();
}

/// Ensures that there is a thread to run the task, and room for it.
void HostStream::begin_push(Lock& lock) {
  if (!worker_.joinable())
    worker_ = start_thread("the thread of a host stream", [this] { work(); });
  while (queue_.full()) {
    waits_ = 0;
    if (!progress_->hurried_) progress_->hurry();
    const std::uint64_t done = progress_->done_;
    progress_->wait_for(done + (progress_->pushed_ - done + 1) / 2, lock);
  }
}

void HostStream::end_push(Lock& lock) {
  StreamProgress& progress = *progress_;
  const std::uint64_t count = progress.pushed_.load(std::memory_order_relaxed) + 1;
  progress.pushed_.store(count, std::memory_order_release);
  if (expects_wait() && count - progress.done_ > most_expected) waits_ = 0;
  if (!expects_wait()) {
    progress.hurried_ = true;
    if (count == waited_ + 1) first_push_ = Clock::now();
  }
  // A thread inside a task continues with the next one or hurries the stream's thread.
  const bool wake =
      !progress.running_ && (progress.asleep_ || (progress.napping_ && progress.hurried_));
  if (wake) progress.asleep_ = progress.napping_ = false;
  lock.unlock();
  if (wake) progress.wake_.notify_one();
}

void HostStream::run_front(Lock& lock) {
  StreamProgress& progress = *progress_;
  const TaskQueue::Front task = queue_.front();
  progress.running_ = true;
  lock.unlock();
  std::exception_ptr failure;
  try {
    task.run(*this);
  } catch (...) {
    failure = std::current_exception();
  }
  task.destroy();  // what it owns is released before the stream counts as idle
  lock.lock();
  queue_.pop();
  if (failure && !failure_) failure_ = std::move(failure);
  end_task();
}

/// With the lock.
void HostStream::end_task() {
  StreamProgress& progress = *progress_;
  progress.running_ = false;
  if (queue_.empty()) progress.hurried_ = false;
  const std::uint64_t done = progress.done_.load(std::memory_order_relaxed) + 1;
  progress.done_.store(done, std::memory_order_release);
  if (done < progress.awaited_) return;
  progress.awaited_ = StreamProgress::no_waiter;  // a thread that waits for more sets it again
  progress.reached_.notify_all();
}

bool HostStream::begin_run() {
  StreamProgress& progress = *progress_;
  const Lock lock(progress.mutex_);
  if (is_capturing() || progress.running_ || !queue_.empty() || failure_) return false;
  progress.running_ = true;
  waited_ = progress.pushed_.load(std::memory_order_relaxed) + 1;
  progress.pushed_.store(waited_, std::memory_order_release);
  return true;
}
void HostStream::end_run() {
  const Lock lock(progress_->mutex_);
  end_task();
  if (!queue_.empty()) progress_->hurry();  // as at the end of `drain`
}

void HostStream::work() {
  StreamProgress& progress = *progress_;
  Lock lock(progress.mutex_);
  const auto sleep = [&] {
    progress.asleep_ = true;
    progress.wake_.wait(lock, [&] { return stop_ || !progress.asleep_; });
    looks_ = 0;
  };
  while (!stop_) {
    if (progress.hurried_ && !queue_.empty() && !progress.running_) run_front(lock);
    else if (!expects_wait() || looks_ == most_looks) sleep();
    else look(lock);
  }
}

/// Runs on the stream's thread while a wait is expected: naps, and takes over if there is a task
/// that no thread picks up.
void HostStream::look(Lock& lock) {
  StreamProgress& progress = *progress_;
  const auto woken_in = [&](auto time) {
    progress.napping_ = true;
    const bool woken =
        progress.wake_.wait_for(lock, time, [&] { return stop_ || !progress.napping_; });
    progress.napping_ = false;
    return woken;
  };
  if (woken_in(nap)) return;
  looks_ = seen_ == progress.pushed_ ? looks_ + 1 : 0;
  seen_ = progress.pushed_;
  if (queue_.empty() || progress.running_) return;
  looks_ = 0;
  const std::uint64_t done = progress.done_;
  if (woken_in(patience) || queue_.empty() || progress.running_ || progress.done_ != done) return;
  waits_ = 0;
  progress.hurried_ = true;
}

/// Other threads may continue to push; this does not wait for their tasks.
void HostStream::drain(Lock& lock) {
  StreamProgress& progress = *progress_;
  const std::uint64_t until = progress.pushed_;
  while (progress.done_ < until) {
    if (!progress.running_) {
      run_front(lock);
    } else {
      progress.awaited_ = std::min(progress.awaited_, until);
      progress.await(lock);
    }
  }
  if (!queue_.empty() && !progress.running_)
    progress.hurry();  // their pushes woke no thread, because this one was running a task
}

/// Counts whether this wait comes soon after the first push since the last one.
void HostStream::note_wait() {
  if (progress_->pushed_ == waited_) return;
  waited_ = progress_->pushed_;
  if (!expects_wait()) waits_ = Clock::now() - first_push_ < soon ? waits_ + 1 : 0;
}

void HostStream::synchronize() {
  Lock lock(progress_->mutex_);
  if (capture_)
    throw Error(ErrorCode::invalid_argument, "synchronize: the stream is being captured");
  note_wait();
  drain(lock);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

bool HostStream::test() {
  if (!progress_->test(end())) return false;
  const Lock lock(progress_->mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return true;
}

void HostStream::finish() noexcept {
  Lock lock(progress_->mutex_);
  drain(lock);
}

void HostStream::begin_capture() {
  const Lock lock(progress_->mutex_);
  if (capture_)
    throw Error(ErrorCode::invalid_argument, "begin_capture: the stream is being captured already");
  capture_ = std::make_shared<TaskList>();
  capturing_ = true;
}

std::shared_ptr<TaskList> HostStream::end_capture() {
  const Lock lock(progress_->mutex_);
  if (!capture_)
    throw Error(ErrorCode::invalid_argument, "end_capture: the stream is not being captured");
  capturing_ = false;
  return std::exchange(capture_, nullptr);
}

}  // namespace plait::host
