// Tells whether a rank still runs while it is in an MPI call that can't say which rank is missing.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/unique_fd.hpp"

namespace plait::detail {

/// A rank that waits beats, and the others read when it last did. The beat lies in a memory file
/// without a name, which the others open through /proc. So it works between processes of one user
/// that see each other's PIDs, and it leaves nothing behind. Other users can't open it.
class Heartbeat {
 public:
  /// No other heartbeat has this `number`, and the caller tells it to the other ranks. If memory is
  /// short there is no heartbeat, and the other ranks learn nothing of this one.
  explicit Heartbeat(std::uint64_t number);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// For the other ranks, together with this process's PID. -1 if there is no heartbeat.
  std::int32_t descriptor() const noexcept { return file_.get(); }
  void beat() noexcept;

  /// The time since the last beat of `process`. None if it can't be known, or if the heartbeat is
  /// gone because the process waits no longer.
  static std::optional<std::chrono::nanoseconds> silence(std::int32_t process,
                                                         std::int32_t descriptor,
                                                         std::uint64_t number);

 private:
  struct Page {
    std::uint64_t number;
    std::atomic<std::int64_t> beat;  // on the steady clock, which is one for all processes
  };
  UniqueFd file_;
  Page* page_ = nullptr;
};

}  // namespace plait::detail
