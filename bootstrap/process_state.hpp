// What the system says of another rank's process.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace plait::detail {

/// A process number that means the same process to this one. 0: there is none, so nothing can be
/// said of the rank.
std::int32_t visible_process(std::int32_t process, std::uint64_t its_space);

/// Whether a process of this machine has ended. False for 0.
bool has_ended(std::int32_t process);
/// The same, or it is stopped.
bool is_out_of_action(std::int32_t process);

/// Finds ranks that a wait has lost because their processes have ended, long before a deadline, or
/// without one. What they sent before may still be on its way, so a rank counts as lost only after
/// a moment in which the wait went on.
class LostRanks {
 public:
  /// `process_of(rank)`: as `visible_process` gives it. Looks at `missing` every 20 ms; else the
  /// answer is that none is lost.
  template <class ProcessOf>
  std::vector<int> among(const std::vector<int>& missing, ProcessOf process_of) {
    if (!is_time()) return {};
    std::vector<int> ended;
    for (const int rank : missing)
      if (has_ended(process_of(rank))) ended.push_back(rank);
    return confirm(ended);
  }
  bool is_time() const { return Clock::now() >= next_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<int> confirm(const std::vector<int>& ended);

  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(20);
  std::optional<Clock::time_point> since_;  // ranks have ended
};

}  // namespace plait::detail
