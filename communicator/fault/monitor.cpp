#include "communicator/fault/monitor.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/process.hpp"
#include "core/start_thread.hpp"

namespace plait {

/// The thread runs while there is a look to call. The object is never destroyed, because a
/// communicator may live as long as the process.
class Monitor {
 public:
  static Monitor& instance() {
    static OfProcess<Monitor> monitor;
    return monitor.get();
  }

  void add(const Monitored* one) {
    const std::lock_guard changing(changing_);
    std::unique_lock lock(mutex_);
    // Before `one` is kept, because the caller does not call `remove` after an exception.
    if (!thread_.joinable()) start();
    all_.push_back(one);
    [[maybe_unused]] static const int at_exit = std::atexit([] { instance().say_last_words(); });
  }

  void remove(const Monitored* one) {
    const std::lock_guard changing(changing_);
    std::unique_lock lock(mutex_);  // no look is under way while it is held
    std::erase(all_, one);
    if (!all_.empty()) return;
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
      for (const Monitored* one : all_) one->look_();
  }

  /// Also in a child made by fork, which has no objects yet.
  void say_last_words() {
    constexpr std::chrono::seconds patience{5};
    const std::lock_guard lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + patience;
    for (const Monitored* one : all_)
      if (one->last_words_.announce) one->last_words_.announce();
    for (const Monitored* one : all_)
      if (one->last_words_.await) one->last_words_.await(until);
  }

  std::mutex changing_;  // one `add` or `remove` at a time
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<const Monitored*> all_;
  bool stop_ = false;
  std::thread thread_;
};

Monitored::Monitored(std::function<void()> look, LastWords last_words)
    : look_(std::move(look)), last_words_(std::move(last_words)) {
  Monitor::instance().add(this);
}
Monitored::~Monitored() { Monitor::instance().remove(this); }

}  // namespace plait
