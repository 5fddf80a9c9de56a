// `Ops` of backends/device/block_log.hpp for the host target.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "backends/device/block_log.hpp"

namespace plait::host {

struct LogOps {
  /// Not atomic as a whole: the word has one writer at a time.
  static void count(std::uint64_t* word) { store_relaxed(word, load_relaxed(word) + 1); }
  static std::uint64_t load_relaxed(std::uint64_t* word) {
    return std::atomic_ref(*word).load(std::memory_order_relaxed);
  }
  static void store_relaxed(std::uint64_t* word, std::uint64_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }
  static std::uint64_t nanoseconds() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
};

}  // namespace plait::host
