// One thread per process that looks after all its communicators: it notices peers that have ended,
// aborted or given up.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

namespace plait {

/// While this object lives, the monitor's thread calls `look` every `monitor_period`. The
/// destructor waits for a look under way. `look` must not make or destroy a Monitored. The
/// constructor throws `Error(backend)` if there is no thread yet and none can be started.
class Monitored {
 public:
  explicit Monitored(std::function<void()> look);
  ~Monitored();
  Monitored(const Monitored&) = delete;
  Monitored& operator=(const Monitored&) = delete;

 private:
  std::function<void()> look_;
};

/// Short against the second in which an abort must reach all ranks, long against the cost of a look
/// (some loads per peer).
inline constexpr std::chrono::milliseconds monitor_period{50};

}  // namespace plait
