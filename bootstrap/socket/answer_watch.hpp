// Finds out that the machine at the other end of a connection is gone.
#pragma once
#include <chrono>

namespace plait::detail {

/// Tells a machine that is gone from a process that does not read. TCP_USER_TIMEOUT can't: it
/// counts from the moment the other side has no room, also while its machine answers. So it would
/// end the connection to a rank that is late.
class AnswerWatch {
 public:
  static constexpr std::chrono::milliseconds default_limit{45'000};
  explicit AnswerWatch(std::chrono::milliseconds limit = default_limit) : limit_(limit) {}
  /// True if data or a probe is on its way, and the other machine has acknowledged nothing for the
  /// limit. Looks once per second, and is false in between.
  bool finds_silence(int socket);

 private:
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace plait::detail
