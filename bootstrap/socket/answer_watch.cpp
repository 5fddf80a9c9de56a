#include "bootstrap/socket/answer_watch.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace plait::detail {

bool AnswerWatch::finds_silence(int socket) {
  // A full receiver is asked ever more seldom, up to every two minutes, so time alone says nothing.
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

}  // namespace plait::detail
