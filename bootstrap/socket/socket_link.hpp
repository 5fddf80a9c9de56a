// Messages between ranks over one connection for each pair.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "bootstrap/link.hpp"
#include "bootstrap/socket/answer_watch.hpp"
#include "bootstrap/socket/group_fd.hpp"

namespace plait::detail {

/// Each message travels behind its length. A connection whose peer sends anything else is closed.
class SocketLink final : public Link {
 public:
  /// `connections`: one per rank, in blocking or non-blocking mode; this rank's is not valid.
  /// `processes`: the PID of each rank, or 0 where it means nothing here. A rank whose machine has
  /// acknowledged nothing for `silence` has ended.
  SocketLink(std::vector<GroupFd> connections, std::vector<int> processes,
             std::chrono::milliseconds silence = AnswerWatch::default_limit);

  std::uint64_t send(int to, const MessageHead& head, std::span<const std::byte> data) override;
  bool is_sent(std::uint64_t message) override;
  void advance() override;
  int process(int rank) const override { return peers_[static_cast<std::size_t>(rank)].process; }
  bool has_ended(int rank) const override;

 private:
  struct Outgoing {
    std::uint64_t number;
    std::vector<std::byte> bytes;  // with the length in front
  };
  struct Peer {
    GroupFd socket;  // not valid once the peer has closed it
    int process;
    AnswerWatch watch;
    bool ended = false;
    std::deque<Outgoing> outgoing;
    std::size_t sent = 0;  // bytes of the first outgoing message
    std::vector<std::byte> incoming;
  };

  void write(Peer& peer);
  void read(int from, Peer& peer);
  static void drop(Peer& peer);

  std::vector<Peer> peers_;
  std::uint64_t sends_ = 0;
};

}  // namespace plait::detail
