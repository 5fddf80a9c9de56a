#include "communicator/fault/monitor.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/process.hpp"
#include "core/start_thread.hpp"

namespace plait {
namespace {

/// The thread runs while there is a look to call. The object is never destroyed, because a
/// communicator may live as long as the process.
class Monitor {
 public:
  static Monitor& instance() {
    static OfProcess<Monitor> monitor;
    return monitor.get();
  }

  void add(const std::function<void()>* look) {
    const std::lock_guard changing(changing_);
    std::unique_lock lock(mutex_);
    // Before `look` is kept, because the caller does not call `remove` after an exception.
    if (!thread_.joinable()) start();
    looks_.push_back(look);
  }

  void remove(const std::function<void()>* look) {
    const std::lock_guard changing(changing_);
    std::unique_lock lock(mutex_);  // no look is under way while it is held
    std::erase(looks_, look);
    if (!looks_.empty()) return;
    stop_ = true;
    wake_.notify_one();
    lock.unlock();
    thread_.join();
    thread_ = {};
  }

 private:
  void start() {
    stop_ = false;
    thread_ = start_thread("the thread that looks after communicators", [this] { run(); });
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, monitor_period, [&] { return stop_; }))
      for (const auto* look : looks_) (*look)();
  }

  std::mutex changing_;  // one `add` or `remove` at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<const std::function<void()>*> looks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

Monitored::Monitored(std::function<void()> look) : look_(std::move(look)) {
  Monitor::instance().add(&look_);
}
Monitored::~Monitored() { Monitor::instance().remove(&look_); }

}  // namespace plait
