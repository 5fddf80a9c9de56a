#include "core/thread_team.hpp"

#include <utility>

#include "core/start_thread.hpp"

namespace plait {

ThreadTeam::ThreadTeam(const char* name, std::size_t count) : ThreadTeam(name) {
  const std::lock_guard lock(mutex_);
  start(count);
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

/// Needs the lock. A new thread has seen all rounds so far, so it waits for the next one.
void ThreadTeam::start(std::size_t count) {
  threads_.reserve(count);
  while (threads_.size() < count)
    threads_.push_back(start_thread(
        name_, [this, thread = threads_.size(), seen = round_] { work(thread, seen); }));
}

void ThreadTeam::dispatch(const Task& task) {
  std::unique_lock lock(mutex_);
  start(task.count - task.first);
  task_ = task;
  unfinished_ = task.count - task.first;
  ++round_;
  lock.unlock();
  wake_.notify_all();
  if (task.first == 1) attempt(task, 0, lock);
  else lock.lock();
  finished_.wait(lock, [this] { return unfinished_ == 0; });
  if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
}

void ThreadTeam::work(std::size_t thread, std::size_t seen) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const Task task = task_;
    if (task.first + thread >= task.count) continue;
    lock.unlock();
    attempt(task, task.first + thread, lock);
    if (--unfinished_ == 0) finished_.notify_one();
  }
}

/// Takes the lock once the call has returned. A later failure is destroyed under the lock, and
/// `dispatch` rethrows the first one only after the last call, so no two threads touch an exception
/// at the same time.
void ThreadTeam::attempt(const Task& task, std::size_t index, std::unique_lock<std::mutex>& lock) {
  std::exception_ptr failure;
  try {
    task.call(task.body, index);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (failure && !first_) first_ = std::move(failure);
}

}  // namespace plait
