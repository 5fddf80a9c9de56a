// Finds out that the machine at the other end of a connection is gone.
#pragma once
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

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
  bool finds_silence(int socket) {
    // A full receiver is asked ever more seldom, up to every two minutes, so time alone says
    // nothing.
    constexpr int most_unanswered = 2;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(1);
    tcp_info info{};
    socklen_t length = sizeof info;
    return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           std::chrono::milliseconds(info.tcpi_last_ack_recv) > limit_ &&
           info.tcpi_retransmits + info.tcpi_probes > most_unanswered;
  }

 private:
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace plait::detail
