// Streams of the target that the tests run on, and memory to copy between.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "backends/backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// Polls until the condition holds, or for too long, and says whether it holds.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto late = std::chrono::steady_clock::now() + patience;
  while (!condition() && std::chrono::steady_clock::now() < late)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return condition();
}

/// Holds a stream until it is opened.
class Gate {
 public:
  void hold(Backend& backend, NativeStream stream) {
    backend.host_call(stream, [this] {
      reached_.set_value();
      open_.get_future().wait();
    });
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> reached_, open_;
};

class Streams : public testing::Test {
 protected:
  static constexpr std::size_t count = 1000;
  static constexpr std::size_t bytes = count * sizeof(int);

  Streams() {
    backend().bind();
    host_ = pinned();
    result_ = pinned();
    device_ = backend().allocate(bytes);
  }
  ~Streams() override {
    backend().synchronize_device();
    for (int* memory : all_) backend().deallocate_pinned(memory);
    backend().deallocate(device_);
    for (NativeStream stream : streams_) backend().destroy_stream(stream);
  }
  Backend& backend() { return *backend_; }
  NativeStream stream() { return streams_.emplace_back(backend().create_stream()); }
  int* pinned() { return all_.emplace_back(static_cast<int*>(backend().allocate_pinned(bytes))); }

  std::shared_ptr<Backend> backend_ = open_backend(target(), 0);
  std::vector<NativeStream> streams_;
  std::vector<int*> all_;
  int *host_ = nullptr, *result_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace plait::test
