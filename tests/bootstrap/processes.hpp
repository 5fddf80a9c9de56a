// Ranks that are forked processes.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace plait::test {

/// A child that runs `body`. It exits with 0 if `body` returns and no expectation has failed in it.
class Process {
 public:
  explicit Process(const std::function<void()>& body) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Process() {
    if (pid_ <= 0) return;
    kill();
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  Process& operator=(Process&&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  /// The exit status, or minus the signal that has ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// Runs `body(rank)` in `size` processes, which must all succeed.
inline void run_processes(int size, const std::function<void(int rank)>& body) {
  std::vector<Process> all;
  for (int rank = 0; rank < size; ++rank) all.emplace_back([&] { body(rank); });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)].wait(), 0) << "rank " << rank;
}

}  // namespace plait::test
