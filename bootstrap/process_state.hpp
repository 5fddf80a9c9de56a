// The state of another rank's process, as the system reports it.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace plait::detail {

/// `process`, the PID of a rank, if `its_space` is this process's PID namespace. 0 otherwise: then
/// nothing can be said of that process.
std::int32_t visible_process(std::int32_t process, std::uint64_t its_space);

/// True if the process with this PID has ended. False for 0.
bool has_ended(std::int32_t process);
/// True if it has ended or is stopped.
bool is_out_of_action(std::int32_t process);

/// Finds ranks that a wait has lost because their processes have ended: long before the deadline,
/// or without one. Messages that they have sent may still be on their way, so a rank counts as lost
/// only after the wait has gone on for a moment.
class LostRanks {
 public:
  /// `ended(rank)`: whether the rank's process is known to have ended. Looks at `missing` every
  /// 20 ms. Calls in between find no lost rank.
  template <class HasEnded>
  std::vector<int> among(const std::vector<int>& missing, HasEnded has_ended) {
    if (!is_time()) return {};
    std::vector<int> ended;
    for (const int rank : missing)
      if (has_ended(rank)) ended.push_back(rank);
    return confirm(ended);
  }
  bool is_time() const { return Clock::now() >= next_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<int> confirm(const std::vector<int>& ended);

  Clock::time_point next_ = Clock::now() + std::chrono::milliseconds(20);
  std::optional<Clock::time_point> since_;  // since when the missing ranks include ended ones
};

}  // namespace plait::detail
