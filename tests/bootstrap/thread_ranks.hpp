// Ranks of a bootstrap that are threads of the test.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "plait/bootstrap.hpp"

namespace plait {

/// Runs `body` on a thread per rank. The pointer is the thread's own: the body may destroy its
/// bootstrap.
inline void run_ranks(int size, const std::function<void(std::unique_ptr<Bootstrap>&)>& body,
                      std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
  auto bootstraps = make_thread_bootstraps(size);
  std::vector<std::thread> threads;
  for (auto& bootstrap : bootstraps) {
    bootstrap->set_timeout(timeout);
    threads.emplace_back([&bootstrap, &body] { body(bootstrap); });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace plait
