// Whether a rank still runs while it is in a call of MPI's that can't say who is missing.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/unique_fd.hpp"

namespace plait::detail {

/// A rank that waits beats; others read when it last did. The beat lies in a memory file without a
/// name, which the others open through /proc: so it works between processes of one user that see
/// each other's numbers, and leaves nothing behind. Other users can't open it.
class Heartbeat {
 public:
  /// `number` is told to the others and no other heartbeat's. Without memory there is none, and the
  /// others know nothing of this rank.
  explicit Heartbeat(std::uint64_t number);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// For the others, with this process's number; -1: there is none.
  std::int32_t descriptor() const noexcept { return file_.get(); }
  void beat() noexcept;

  /// How long the process has not beaten. None if that can't be known, or its heartbeat is gone:
  /// then it waits no longer.
  static std::optional<std::chrono::nanoseconds> silence(std::int32_t process,
                                                         std::int32_t descriptor,
                                                         std::uint64_t number);

 private:
  struct Page {
    std::uint64_t number;
    std::atomic<std::int64_t> beat;  // on the steady clock, which is the machine's
  };
  UniqueFd file_;
  Page* page_ = nullptr;
};

}  // namespace plait::detail
