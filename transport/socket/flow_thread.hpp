// Threads that move the bytes of large messages.
//
// Copying between sockets and memory takes most of a proxy's time: one thread that sends and
// receives moved 2.4 to 3.6 GB/s each way, and one thread for each way 4.8 to 6.2 GB/s (loopback,
// 2 processes, Intel Xeon Processor with 16 cores, 2026-11-26).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "core/process.hpp"
#include "transport/socket/waiter.hpp"

namespace plait::transport {

/// A flow, as its thread sees it.
class MovedFlow {
 public:
  /// `news`: for the flow's user, because a message is complete or the flow has broken.
  enum class Moved : std::uint8_t { nothing, bytes, news };

  virtual ~MovedFlow() = default;
  /// Moves what can be moved now, without waiting.
  virtual Moved move() noexcept = 0;
};

/// Moves the bytes of its flows while there are any to move, and sleeps otherwise.
class FlowThread {
 public:
  /// Rings `done` when a flow has news for its user. Throws Error(bootstrap) or Error(backend) if
  /// the system refuses.
  explicit FlowThread(std::shared_ptr<Waiter> done);
  ~FlowThread();
  FlowThread(const FlowThread&) = delete;
  FlowThread& operator=(const FlowThread&) = delete;

  /// What the sockets of its flows must be watched by.
  const std::shared_ptr<Waiter>& waiter() const noexcept { return waiter_; }
  /// From now on this thread alone moves the flow, until `remove` has returned.
  void add(MovedFlow& flow);
  /// Waits until the thread uses neither the flow nor its sockets, which leave the waiter's set.
  void remove(MovedFlow& flow, std::span<WatchedSocket> sockets) noexcept;
  /// There is something to move.
  void wake() noexcept;

 private:
  void run() noexcept;
  MovedFlow::Moved move_all() noexcept;

  std::shared_ptr<Waiter> done_, waiter_;
  std::mutex mutex_;
  std::vector<MovedFlow*> flows_;
  std::atomic<unsigned> wanted_{0};  // callers that want the mutex
  std::atomic<bool> woken_{false}, sleeping_{false}, ending_{false};
  Origin origin_;
  std::thread thread_;
};

/// The threads of a transport. The first flow starts them.
class FlowThreads {
 public:
  FlowThreads(int number, std::shared_ptr<Waiter> done)
      : done_(std::move(done)), threads_(static_cast<std::size_t>(number)) {}
  /// The one for the next flow, or null if there is none. Flows to other ranks and flows from them
  /// get different ones.
  std::shared_ptr<FlowThread> next(bool sends);

 private:
  std::shared_ptr<Waiter> done_;
  std::vector<std::shared_ptr<FlowThread>> threads_;
  std::size_t flows_[2] = {0, 0};
};

}  // namespace plait::transport
