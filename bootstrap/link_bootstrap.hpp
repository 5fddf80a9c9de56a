// Ranks that a link connects. In every call, each rank sends every other rank a message that names
// the call. So errors name a rank that does not arrive, and ranks that are in different calls. The
// messages are few and small, and Open MPI's MPI_Iallgather works in the same way.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/link.hpp"
#include "bootstrap/support.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/error.hpp"

namespace plait::detail {

class LinkBootstrap final : public Bootstrap {
 public:
  /// `ranks`: the group's ranks by their numbers in the link. `nodes`: the node of each.
  LinkBootstrap(std::shared_ptr<Link> link, std::uint64_t context, std::vector<int> ranks,
                const std::vector<int>& nodes, int rank, std::chrono::nanoseconds timeout);
  ~LinkBootstrap() override;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(ranks_.size()); }

  using Bootstrap::all_gather;
  using Bootstrap::broadcast;
  void all_gather(const void* in, void* out, std::size_t bytes) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void barrier() override { exchange({CallKind::barrier, 0, 0, purposes()}, {}); }
  std::unique_ptr<Bootstrap> split(int color, int key) override { return make_part(color, key); }
  /// The same ranks once more, as a group that was not split from another. Every rank calls it as
  /// often, and none waits.
  std::unique_ptr<Bootstrap> again();
  Link& link() const noexcept { return *link_; }
  void abandon(const std::string& why, bool rank_lost) noexcept override {
    if (failure_.empty()) give_up(why, sequence_ + 1);
    if (rank_lost) link_->lose_rank();
  }

 private:
  using Bytes = std::vector<std::byte>;
  class Exchange;

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int in_link(int rank) const { return ranks_[index(rank)]; }
  /// Gives every rank's `mine` to every rank. The entry of this rank is empty.
  std::vector<Bytes> exchange(const CallId& call, std::span<const std::byte> mine);
  std::unique_ptr<Bootstrap> part_of_node(const std::vector<int>& node_of_rank) override;
  std::unique_ptr<LinkBootstrap> make_part(int color, int key);
  /// `members`: this group's ranks that form the part. `nodes`: the node of each.
  std::unique_ptr<LinkBootstrap> part_of(const std::vector<int>& members,
                                         const std::vector<int>& nodes, std::uint64_t context);
  std::uint64_t next_context();
  void require_usable(const char* call);
  struct Sent {
    int peer;
    std::uint64_t message;
  };
  /// Sends to all other ranks.
  std::vector<Sent> send(MessageHead::Type type, std::uint64_t sequence, const CallId& call,
                         std::span<const std::byte> data);
  /// Makes this call and all later ones fail, and tells the other ranks.
  void give_up(const std::string& why, std::uint64_t sequence,
               ErrorCode code = ErrorCode::bootstrap) noexcept;
  [[noreturn]] void fail(ErrorCode code, const CallId& call, const std::string& why);

  std::shared_ptr<Link> link_;
  std::uint64_t context_, sequence_ = 0, derived_ = 0;
  std::vector<int> ranks_, node_of_rank_;
  int rank_;
  Origin origin_;
  std::string failure_;  // the first one: after it the ranks may be in different calls
};

}  // namespace plait::detail
