// Finds out why a kernel gave up, and says so.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "core/board.hpp"
#include "plait/error.hpp"

namespace plait {

/// The words that kernels and host share to end a spin, and the report that follows.
class Watchdog {
 public:
  Watchdog(std::shared_ptr<Backend> backend, std::uint32_t* claimed, std::chrono::nanoseconds timeout, int rank);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// What a launch of call `call` by algorithm number `algorithm` gets.
  Watch watch(std::uint64_t call, std::uint32_t algorithm) const;

  /// The error that a kernel has recorded, if any: who waited for whom and in which call every rank is. The first call that sees it logs
  /// it.
  std::optional<Error> error(const Board& board, const std::vector<std::string>& algorithms) const;

 private:
  struct Shared {  // host memory that kernels reach
    std::uint32_t abort;
    DiagnosticRecord record;
  };

  std::shared_ptr<Backend> backend_;
  Shared* shared_;
  std::uint32_t* claimed_;
  std::chrono::nanoseconds timeout_;
  int rank_;
  mutable std::mutex mutex_;
  mutable std::optional<Error> error_;
};

}  // namespace plait
