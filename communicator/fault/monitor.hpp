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
///
/// If the object still lives when the process leaves by `exit` or the end of `main`, the thread
/// that does so calls `announce`, that of all objects first, and then `await`, which must not wait
/// beyond `until`.
struct LastWords {
  std::function<void()> announce;
  std::function<void(std::chrono::steady_clock::time_point until)> await;
};
class Monitored {
 public:
  explicit Monitored(std::function<void()> look, LastWords last_words = {});
  ~Monitored();
  Monitored(const Monitored&) = delete;
  Monitored& operator=(const Monitored&) = delete;

 private:
  friend class Monitor;
  std::function<void()> look_;
  LastWords last_words_;
};

/// Short against the second in which an abort must reach all ranks, long against the cost of a look
/// (some loads per peer).
inline constexpr std::chrono::milliseconds monitor_period{50};

}  // namespace plait
