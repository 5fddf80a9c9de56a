// One thread a process that looks after all its communicators: whether a peer has ended, aborted or
// given up.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

namespace plait {

/// As long as it lives, `look` is called on the monitor's thread, every `monitor_period`;
/// destroying it waits for a look under way. `look` must not make or destroy one. Throws
/// `Error(backend)` if there is no thread yet and none can be started.
class Monitored {
 public:
  explicit Monitored(std::function<void()> look);
  ~Monitored();
  Monitored(const Monitored&) = delete;
  Monitored& operator=(const Monitored&) = delete;

 private:
  std::function<void()> look_;
};

/// Short against the second in which an abort must have reached all ranks, long against what a look
/// costs (some loads a peer).
inline constexpr std::chrono::milliseconds monitor_period{50};

}  // namespace plait
