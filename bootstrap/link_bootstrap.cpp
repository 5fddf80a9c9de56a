#include "bootstrap/link_bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

namespace plait::detail {
namespace {

/// Copies a message of a call that both ranks have described alike.
void copy_exactly(void* to, const std::vector<std::byte>& message, std::size_t bytes) {
  if (message.size() != bytes)
    throw Error(ErrorCode::bootstrap,
                fmt::format("a message of {} bytes came where one of {} was expected",
                            message.size(), bytes));
  if (bytes > 0) std::memcpy(to, message.data(), bytes);
}

}  // namespace

LinkBootstrap::LinkBootstrap(std::shared_ptr<Link> link, std::uint64_t context,
                             std::vector<int> ranks, const std::vector<int>& nodes, int rank,
                             std::chrono::nanoseconds timeout)
    : link_(std::move(link)),
      context_(context),
      ranks_(std::move(ranks)),
      node_of_rank_(nodes),
      rank_(rank) {
  set_timeout(timeout);
  set_nodes(nodes);
  link_->opened(*this);
}

LinkBootstrap::~LinkBootstrap() {
  if (!origin_.is_here()) {  // a child of fork() has no part in this
    keep_for_ever(std::move(link_));
    return;
  }
  link_->closed(*this);
  if (!link_->is_open()) return;
  try {
    send(MessageHead::Type::left, sequence_, {}, {});
    link_->advance();
  } catch (const std::exception&) {  // the others will find this rank missing
  }
  std::vector<int> others = ranks_;
  others.erase(others.begin() + rank_);
  link_->close(context_, others);
}

void LinkBootstrap::require_usable(const char* call) {
  origin_.require(call, "bootstrap");
  if (!link_->is_open())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: MPI is already finalised", call, rank_));
  try {
    throw_if_interrupted();
  } catch (const std::exception& error) {
    if (failure_.empty()) give_up(gave_up(rank_, error.what()), sequence_ + 1);
    throw;
  }
  if (!failure_.empty())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: rank {}: an earlier call failed: {}", call, rank_, failure_));
}

std::vector<LinkBootstrap::Sent> LinkBootstrap::send(MessageHead::Type type, std::uint64_t sequence,
                                                     const CallId& call,
                                                     std::span<const std::byte> data) {
  std::vector<Sent> sent;
  const MessageHead head{context_, sequence, type, call};
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    sent.push_back({peer, link_->send(in_link(peer), head, data)});
  }
  return sent;
}

void LinkBootstrap::give_up(const std::string& why, std::uint64_t sequence,
                            ErrorCode code) noexcept {
  failure_ = why;
  if (!origin_.is_here() || !link_->is_open()) return;
  try {
    send(MessageHead::Type::failed, sequence, {}, Link::pack_failure(code, why));
  } catch (const std::exception&) {  // then the others' time will run out
  }
}

void LinkBootstrap::fail(ErrorCode code, const CallId& call, const std::string& why) {
  give_up(why, sequence_);
  throw Error(code, fmt::format("{}: rank {}: {}", name_of(call.kind), rank_, why));
}

void LinkBootstrap::all_gather(const void* in, void* out, std::size_t bytes) {
  check_all_gather(rank_, size(), in, out, bytes);
  const CallId call(CallKind::all_gather, bytes, 0, purposes());
  // The input may lie at this rank's place in the output, so that place is written last.
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  std::size_t begin = 0;
  do {
    const std::size_t part = std::min(bytes - begin, largest_message / index(size()));
    const std::vector<Bytes> all = exchange(call, std::span(from, bytes).subspan(begin, part));
    if (part == 0) return;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank != index(rank_)) copy_exactly(to + rank * bytes + begin, all[rank], part);
    }
    begin += part;
  } while (begin < bytes);
  std::memmove(to + index(rank_) * bytes, from, bytes);
}

void LinkBootstrap::broadcast(void* data, std::size_t bytes, int root) {
  check_broadcast(rank_, size(), data, bytes, root);
  const CallId call(CallKind::broadcast, bytes, root, purposes());
  auto* const begin = static_cast<std::byte*>(data);
  std::size_t at = 0;
  do {
    const std::size_t part = std::min(bytes - at, largest_message);
    const std::vector<Bytes> all =
        exchange(call, rank_ == root ? std::span(begin + at, part) : std::span<std::byte>());
    if (rank_ != root) copy_exactly(begin + at, all[index(root)], part);
    at += part;
  } while (at < bytes);
}

std::unique_ptr<LinkBootstrap> LinkBootstrap::make_part(int color, int key) {
  const SplitKey mine{color, key, node(), draw_number()};
  const auto all =
      exchange({CallKind::split, sizeof mine, 0, purposes()}, std::as_bytes(std::span(&mine, 1)));
  std::vector<SplitKey> keys(all.size(), mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank != index(rank_)) copy_exactly(&keys[rank], all[rank], sizeof mine);
  }
  const std::vector<int> members = split_members(keys, rank_);
  // One number serves all colors, because no two have a rank in common.
  return part_of(members, nodes_of(keys, members), keys[0].drawn);
}

std::unique_ptr<Bootstrap> LinkBootstrap::part_of_node(const std::vector<int>& node_of_rank) {
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank)
    if (node_of_rank[index(rank)] == node_of_rank[index(rank_)]) members.push_back(rank);
  return part_of(members, std::vector<int>(members.size()), next_context());
}

std::unique_ptr<LinkBootstrap> LinkBootstrap::part_of(const std::vector<int>& members,
                                                      const std::vector<int>& nodes,
                                                      std::uint64_t context) {
  std::vector<int> ranks;
  for (const int member : members) ranks.push_back(in_link(member));
  const auto place =
      static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  auto part =
      std::make_unique<LinkBootstrap>(link_, context, std::move(ranks), nodes, place, timeout());
  part->set_parent_ranks(members);
  return part;
}

/// All ranks derive the same number from one that was drawn.
std::uint64_t LinkBootstrap::next_context() { return mixed(context_ + ++derived_); }

std::unique_ptr<Bootstrap> LinkBootstrap::again() {
  require_usable("making a group again");
  std::vector<int> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  auto copy = part_of(all, node_of_rank_, next_context());
  copy->set_parent_ranks({});
  return copy;
}

}  // namespace plait::detail
