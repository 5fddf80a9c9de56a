#include "communicator/nodes/other_nodes.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "transport/proxy.hpp"

namespace plait {

void OtherNodes::start(Watchdog& watchdog) {
  channels_->start(
      {.hear = [this](int rank, std::span<const std::byte> news) { board_.hear(rank, news); },
       .lose =
           [this, &watchdog](int rank, const Error& why) {
             const std::string name = nodes_.name_of_rank(rank);
             const bool is_there = why.code() == ErrorCode::bootstrap;
             watchdog.lose_connection(rank,
                                      is_there ? fmt::format("{} can't hear {} any more",
                                                             nodes_.name_of_rank(rank_), name)
                                               : name + " is gone",
                                      why);
           },
       .unanswered =
           [this, &watchdog](int rank, const std::string& why) {
             watchdog.note_unanswered(rank, nodes_.name_of_rank(rank), why);
           },
       .end =
           [this] {
             board_.announce(Board::State::ending);
             tell();
           }},
      [&watchdog](const Error& why) {
        watchdog.abort(why.code(), fmt::format("{}; the communicator is broken", why.what()),
                       false);
      });
}

void OtherNodes::tell() {
  const std::lock_guard lock(telling_);
  // First, because the reason is asked for once the call is known.
  for (auto refusal = board_.refusal_news(); !refusal.empty(); refusal = board_.refusal_news())
    channels_->tell_all(refusal, transport::Reach::all);
  const std::vector<int>& next = nodes_.ranks((nodes_.here() + 1) % nodes_.count());
  if (const auto calls = board_.call_news(); !calls.empty())
    channels_->tell(next[static_cast<std::size_t>(nodes_.local_rank()) % next.size()], calls);
  const bool has_messages = board_.has_message_news();
  for (int peer = 0; has_messages && peer < board_.ranks(); ++peer) {
    if (nodes_.is_here(peer)) continue;
    if (const auto messages = board_.message_news(peer); !messages.empty())
      channels_->tell(peer, messages);
  }
  const auto news = board_.news();
  if (news.empty()) return;
  // A rank that leaves in peace opens no connection to say so.
  const Board::State state = board_.state(rank_);
  channels_->tell_all(
      news, state == Board::State::left ? transport::Reach::known : transport::Reach::all);
}

void OtherNodes::tell_last(std::chrono::nanoseconds patience) {
  tell();
  channels_->flush(std::chrono::duration_cast<std::chrono::milliseconds>(patience));
}

std::string OtherNodes::describe(const Topology& topology) const {
  const int rail = nodes_.local_rank();
  return fmt::format(", on node {} of {} nodes, {} of {} rails, by {}, {:.3g} GB/s per node",
                     nodes_.name(nodes_.here()), nodes_.count(),
                     rail < topology.rails ? fmt::format("rail {}", rail) : "none", topology.rails,
                     channels_->way(), topology.network.bandwidth / 1e3);
}

}  // namespace plait
