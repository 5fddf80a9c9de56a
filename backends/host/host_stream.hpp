// Streams of the host target: tasks run in order, on a thread of the stream's own or on the thread
// that waits for it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
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

namespace plait::host {

class HostStream;
/// Gets the stream that runs it: a captured task may run on another than the one it was captured
/// on.
using Task = std::function<void(HostStream&)>;

/// Tasks in the order they were captured.
using TaskList = std::vector<Task>;

/// How far a stream has come. Events hold it, also longer than the stream lives.
class StreamProgress {
 public:
  /// Counts tasks: how many have run.
  std::uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Returns when so many have. Wakes the stream's thread where nobody is at it.
  void wait_for(std::uint64_t tasks);

 private:
  friend class HostStream;
  static constexpr auto nobody = std::numeric_limits<std::uint64_t>::max();
  void wait_for(std::uint64_t tasks, std::unique_lock<std::mutex>& lock);
  void hurry();

  std::mutex mutex_;
  std::condition_variable wake_, reached_;
  std::atomic<std::uint64_t> pushed_ = 0, done_ = 0;  // tasks; written under the lock
  std::uint64_t awaited_ = nobody;  // the lowest count of `done_` that a thread sleeps for
  bool running_ = false;            // a thread is inside a task
  bool hurried_ = false;            // the stream's thread is to run tasks at once
  bool asleep_ = false,
       napping_ = false;  // it waits to be woken; or for the time of its next look, too
};

/// A blocking call, which waits right after its push, runs on the caller's thread: waking another
/// one takes several times as long as a small call. So once a few waits in a row came right after
/// the push, the stream expects the next one and wakes nobody. Its own thread then looks every
/// millisecond whether a task has been left lying (`look`), and if so, takes over and stops
/// expecting. With nothing to do for long it sleeps until the next push.
///
/// No task is left for good. While the queue holds one and no thread is inside a task, one of these
/// is true, as each change is made under the lock: the stream's thread is awake or has been
/// notified; it naps, and looks when that is over; or a thread in `drain` is about to run the next
/// task. `push` notifies the thread if it is asleep, a thread that ends its `drain` hurries it if
/// tasks are left, and a thread that needs a task of another stream (`StreamProgress::wait_for`)
/// hurries that one's. Nobody waits without the lock for what was changed under it, so no wake-up
/// is lost.
class HostStream {
 public:
  HostStream() = default;
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Appends a task, which gets the stream that runs it. Returns at once, unless
  /// `TaskQueue::most_bytes` of tasks are waiting: then when half of them have run. While
  /// capturing, the task is recorded instead.
  template <class F>
  void push(F&& task) {
    if (is_capturing()) return record(Task(std::forward<F>(task)));
    std::unique_lock lock(progress_->mutex_);
    begin_push(lock);
    queue_.push(std::forward<F>(task));
    end_push(lock);
  }
  /// The same for a launch, with a copy of `bytes` bytes of arguments.
  void push(const Launch& launch, const void* args, std::size_t bytes);
  /// Returns when all tasks pushed so far have run. Runs them itself where the stream's thread is
  /// not at it. Rethrows the first exception of a task since the last call.
  void synchronize();
  /// The same, but throws nothing, and also while capturing: what was pushed before the capture
  /// runs.
  void finish() noexcept;

  /// The point behind all that was pushed so far.
  std::uint64_t end() const noexcept { return progress_->pushed_.load(std::memory_order_acquire); }
  const std::shared_ptr<StreamProgress>& progress() const noexcept { return progress_; }

  /// Whether all that was pushed has run.
  bool is_idle() const noexcept { return progress_->done() == end(); }
  bool is_capturing() const noexcept { return capturing_.load(std::memory_order_acquire); }
  void begin_capture();
  std::shared_ptr<TaskList> end_capture();

  Pool& pool() { return pool_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr int waits_to_expect = 4;                    // in a row
  static constexpr auto soon = std::chrono::microseconds(50);  // from a push to a wait
  static constexpr std::uint64_t most_expected = 16;           // tasks before a wait
  static constexpr auto nap = std::chrono::milliseconds(1);    // between two looks
  static constexpr auto patience =
      std::chrono::microseconds(100);    // for a task that was found at a look
  static constexpr int most_looks = 20;  // at nothing, before the thread sleeps

  bool expects_wait() const noexcept { return waits_ >= waits_to_expect; }
  void record(Task task);
  void begin_push(Lock& lock);
  void end_push(Lock& lock);
  void note_wait();
  void work();
  void look(Lock& lock);
  void run_front(Lock& lock);
  void drain(Lock& lock);

  // What is not said to be otherwise is under the lock of `progress_`.
  const std::shared_ptr<StreamProgress> progress_ = std::make_shared<StreamProgress>();
  TaskQueue queue_;
  std::exception_ptr failure_;    // the first of a task
  int waits_ = 0;                 // in a row that came soon after their push
  std::uint64_t waited_ = 0;      // what was pushed before the last wait
  Clock::time_point first_push_;  // since the last wait, where no wait was expected
  std::uint64_t seen_ = 0;        // what was pushed at the last look
  int looks_ = 0;                 // in a row at nothing
  bool stop_ = false;
  std::atomic<bool> capturing_ = false;  // written under the lock
  std::shared_ptr<TaskList> capture_;
  Pool pool_;           // by the thread that runs a task
  std::thread worker_;  // started with the first task
};

}  // namespace plait::host
