#include "core/device_threads.hpp"

#include <utility>

#include "core/start_thread.hpp"

namespace plait {

DeviceThreads::DeviceThreads(std::size_t count) {
  threads_.reserve(count);
  try {
    for (std::size_t i = 0; i < count; ++i)
      threads_.push_back(start_thread("a thread for each device", [this, i] { work(i); }));
  } catch (...) {
    stop();
    throw;
  }
}

DeviceThreads::~DeviceThreads() { stop(); }

void DeviceThreads::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::run(const std::function<void(std::size_t)>& step) {
  std::unique_lock lock(mutex_);
  step_ = &step;
  unfinished_ = threads_.size();
  ++round_;
  wake_.notify_all();
  finished_.wait(lock, [this] { return unfinished_ == 0; });
  if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
}

void DeviceThreads::work(std::size_t index) {
  std::unique_lock lock(mutex_);
  for (std::size_t seen = 0;;) {
    wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto& step = *step_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      step(index);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !first_) first_ = std::move(failure);
    failure = nullptr;  // whoever rethrows it owns it alone
    if (--unfinished_ == 0) finished_.notify_one();
  }
}

}  // namespace plait
