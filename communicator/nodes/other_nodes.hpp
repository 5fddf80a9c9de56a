// What a communicator has to do with other nodes: the channels to their ranks, and the news that
// ranks of one node read on the board.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bootstrap/nodes.hpp"
#include "communicator/fault/board.hpp"
#include "communicator/fault/watchdog.hpp"
#include "communicator/nodes/node_channels.hpp"

namespace plait {

class OtherNodes {
 public:
  /// `channels`, whose destructor ends the proxy, `nodes` and `board`: the communicator's.
  OtherNodes(std::unique_ptr<NodeChannels> channels, const Nodes& nodes, Board& board, int rank)
      : nodes_(nodes), board_(board), rank_(rank), channels_(std::move(channels)) {}
  OtherNodes(const OtherNodes&) = delete;
  OtherNodes& operator=(const OtherNodes&) = delete;

  /// From here on the proxy serves the channels, and the board and `watchdog`, which outlive this
  /// object, hear of ranks of other nodes. Local.
  void start(Watchdog& watchdog);
  NodeChannels& channels() const noexcept { return *channels_; }
  /// Tells ranks of other nodes what those of this node read on the board. Calls are told to one
  /// rank of the next node, so each node's calls are compared with those of the one before, and
  /// messages to their receivers. From any thread.
  void tell();
  /// `tell`, and a wait until all has arrived, at most `patience`. Otherwise the program may end
  /// its process first, and other nodes would take that for the cause.
  void tell_last(std::chrono::nanoseconds patience);
  /// ", on node n1 of 2 nodes, rail 0 of 2 rails, by sockets over eth0 (10.0.0.2), 1.25 GB/s per
  /// node".
  std::string describe(const Topology& topology) const;

 private:
  const Nodes& nodes_;
  Board& board_;
  int rank_;
  std::mutex telling_;                      // one `tell` at a time
  std::unique_ptr<NodeChannels> channels_;  // last: its proxy calls the others
};

}  // namespace plait
