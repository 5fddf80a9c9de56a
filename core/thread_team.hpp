// Threads that run one function together, call after call.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace plait {

/// Two uses: the threads of a host kernel, and one thread per device where the ranks of one process
/// make a collective call, which blocks until all ranks have come. The threads live as long as the
/// team, so each keeps its device current.
///
/// One thread at a time may call `run` or `run_with_caller`. Both return once all calls of `body`
/// have returned, and rethrow the exception that was thrown first, because later ones follow from
/// it. All calls of `body` run at the same time, so they may wait for each other.
class ThreadTeam {
 public:
  /// Threads start when a run first needs them. `name`, such as "the threads of a host kernel", is
  /// for error messages and must outlive the team.
  explicit ThreadTeam(const char* name) noexcept : name_(name) {}
  /// Starts `count` threads at once, so a run of at most `count` can't fail for want of threads.
  /// Throws `Error(backend)` if the system can't start them.
  ThreadTeam(const char* name, std::size_t count);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Runs `body(i)` on thread i of the team, for each i < count. Throws `Error(backend)` before any
  /// of it runs if the system can't start a missing thread. Allocates only to start threads.
  template <class Body>
  void run(std::size_t count, const Body& body) {
    dispatch(Task{&invoke<Body>, &body, 0, count});
  }
  /// The same, but `body(0)` runs on the calling thread, and `count - 1` threads run the rest.
  /// `count` is at least 1.
  template <class Body>
  void run_with_caller(std::size_t count, const Body& body) {
    dispatch(Task{&invoke<Body>, &body, 1, count});
  }

 private:
  struct Task {
    void (*call)(const void* body, std::size_t index) = nullptr;
    const void* body = nullptr;
    std::size_t first = 0, count = 0;  // thread t runs index first + t; if first is 1, the caller 0
  };
  template <class Body>
  static void invoke(const void* body, std::size_t index) {
    (*static_cast<const Body*>(body))(index);
  }

  void dispatch(const Task& task);
  void work(std::size_t thread, std::size_t seen);
  void start(std::size_t count);
  void attempt(const Task& task, std::size_t index, std::unique_lock<std::mutex>& lock);

  const char* name_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_, finished_;
  std::vector<std::thread> threads_;
  Task task_;  // of the latest round
  std::size_t round_ = 0, unfinished_ = 0;
  std::exception_ptr first_;
  bool stop_ = false;
};

}  // namespace plait
