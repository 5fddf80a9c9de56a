// Streams of the host target: tasks run in order, on the stream's thread or on a thread that waits
// for the stream.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends/host/host_pool.hpp"
#include "backends/host/task_queue.hpp"
#include "core/signal_mask.hpp"

namespace plait::host {

class HostStream;
/// Gets the stream that runs it, which for a captured task may differ from the stream of the
/// capture.
using Task = std::function<void(HostStream&)>;

/// Tasks in the order they were captured.
using TaskList = std::vector<Task>;

/// Progress of a stream. Events hold it and may outlive the stream.
class StreamProgress {
 public:
  /// Number of tasks that have run.
  std::uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Returns when `tasks` tasks have run. Wakes the stream's thread if no thread runs tasks.
  void wait_for(std::uint64_t tasks);
  /// Whether `tasks` tasks have run. Wakes the stream's thread likewise, and does not wait.
  bool test(std::uint64_t tasks);

 private:
  friend class HostStream;
  static constexpr auto no_waiter = std::numeric_limits<std::uint64_t>::max();
  void wait_for(std::uint64_t tasks, std::unique_lock<std::mutex>& lock);
  void await(std::unique_lock<std::mutex>& lock);
  void hurry();

  std::mutex mutex_;
  std::condition_variable wake_, reached_;
  std::atomic<std::uint64_t> pushed_ = 0, done_ = 0;  // tasks; written under the lock
  std::uint64_t awaited_ = no_waiter;  // the lowest count of `done_` that a thread sleeps for
  bool running_ = false;               // a thread is inside a task
  bool hurried_ = false;               // the stream's thread must run tasks at once
  bool asleep_ = false;                // it waits to be woken
  bool napping_ = false;               // it waits to be woken or for the time of its next look
};

/// Where tasks run. A blocking call waits right after its push, and its task then runs on the
/// caller's thread, because waking another thread takes several times as long as a small call. So
/// once several waits in a row came right after a push, the stream expects the next one and wakes
/// no thread. Its own thread then looks every millisecond for a task that no thread runs (`look`).
/// If it finds one, it takes over and stops expecting waits. After many looks at an empty queue it
/// sleeps until the next push.
///
/// Every task runs. While the queue holds a task and no thread is inside one, at least one of these
/// is true, because each change is made under the lock: the stream's thread is awake or has been
/// notified; it naps and will look; or a thread in `drain` is about to run the next task. `push`
/// notifies the stream's thread if it is asleep. A thread that ends its `drain` hurries it if tasks
/// remain. A thread that needs a task of another stream (`StreamProgress::wait_for`) hurries that
/// stream's thread. No wake-up is lost, because every wait for a change holds the lock under which
/// the change is made.
class HostStream {
 public:
  HostStream() = default;
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Appends a task, which gets the stream that runs it. Returns at once unless
  /// `TaskQueue::most_bytes` of tasks are waiting; then it returns when half of them have run.
  /// During a capture the task is recorded instead.
  template <class F>
  void push(F&& task) {
    if (is_capturing()) return record(Task(std::forward<F>(task)));
    std::unique_lock lock(progress_->mutex_);
    begin_push(lock);
    queue_.push(std::forward<F>(task));
    end_push(lock);
  }
  /// Appends a launch with a copy of `bytes` bytes of arguments.
  void push(const Launch& launch, const void* args, std::size_t bytes);
  /// Runs a task on this thread, if the stream is idle and is not being captured, as `push` and
  /// `synchronize` would, and throws what it throws. False: it has done nothing.
  template <class F>
  bool run(F&& task) {
    if (!begin_run()) return false;
    std::exception_ptr failure;
    try {
      std::forward<F>(task)(*this);
    } catch (...) {
      failure = std::current_exception();
    }
    end_run();
    if (failure) std::rethrow_exception(failure);
    return true;
  }
  /// Returns when all tasks pushed so far have run. Runs them itself if the stream's thread does
  /// not. Rethrows the first exception of a task since the last call.
  void synchronize();
  /// Whether all tasks pushed so far have run; if so, rethrows as `synchronize`. Does not wait. The
  /// stream's thread runs them, because the caller has other things to do.
  bool test();
  /// Like `synchronize`, but throws nothing, and works during a capture: the tasks pushed before
  /// the capture run.
  void finish() noexcept;

  /// Number of tasks pushed so far.
  std::uint64_t end() const noexcept { return progress_->pushed_.load(std::memory_order_acquire); }
  const std::shared_ptr<StreamProgress>& progress() const noexcept { return progress_; }

  bool is_idle() const noexcept { return progress_->done() == end(); }
  bool is_capturing() const noexcept { return capturing_.load(std::memory_order_acquire); }
  void begin_capture();
  std::shared_ptr<TaskList> end_capture();

  Pool& pool() { return pool_; }
  /// In a task: calls a function of the program. On the stream's thread it sees the signal mask of
  /// the thread that made the stream.
  void call(const std::function<void()>& function) const;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr int waits_to_expect = 4;                    // in a row
  static constexpr auto soon = std::chrono::microseconds(50);  // from a push to a wait
  static constexpr std::uint64_t most_expected = 16;           // tasks before a wait
  static constexpr auto nap = std::chrono::milliseconds(1);    // between two looks
  /// Time that a task found by a look has to be picked up by a waiting thread.
  static constexpr auto patience = std::chrono::microseconds(100);
  static constexpr int most_looks = 20;  // without a new task, before the thread sleeps

  bool expects_wait() const noexcept { return waits_ >= waits_to_expect; }
  void record(Task task);
  void begin_push(Lock& lock);
  void end_push(Lock& lock);
  void note_wait();
  void work();
  void look(Lock& lock);
  void run_front(Lock& lock);
  void end_task();
  bool begin_run();
  void end_run();
  void drain(Lock& lock);

  // The lock of `progress_` guards these members unless noted otherwise.
  const std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  TaskQueue queue_;
  std::exception_ptr failure_;    // the first exception of a task
  int waits_ = 0;                 // consecutive waits that came soon after their push
  std::uint64_t waited_ = 0;      // tasks pushed before the last wait
  Clock::time_point first_push_;  // since the last wait, where no wait was expected
  std::uint64_t seen_ = 0;        // tasks pushed before the last look
  int looks_ = 0;                 // consecutive looks without a new task
  bool stop_ = false;
  std::atomic<bool> capturing_ = false;  // written under the lock
  std::shared_ptr<TaskList> capture_;
  const sigset_t makers_mask_ = SignalMask::of_thread();
  Pool pool_;           // used by the thread that runs a task
  std::thread worker_;  // started with the first task
};

}  // namespace plait::host
