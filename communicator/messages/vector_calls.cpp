#include "communicator/messages/vector_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::string_view verb(bool sends) { return sends ? "send" : "recv"; }

/// True if this rank's block already lies in its place among the others.
bool are_one(const void* block, const void* other) { return block != nullptr && block == other; }

}  // namespace

VectorCall::VectorCall(std::string_view what, DataType type, int rank, int ranks)
    : what_(what), type_(type), rank_(rank), ranks_(ranks) {
  if (!is_valid(type)) refuse(fmt::format("{} is no data type", static_cast<int>(type)));
  size_ = size_of(type);
  most_ = std::numeric_limits<std::size_t>::max() / 4 / size_;
}

void VectorCall::refuse(const std::string& why) const {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: rank {}: {}", what_, rank_, why));
}

void VectorCall::check_sizes(Direction direction, const BlocksOf& blocks) const {
  for (const auto& [name, values] :
       {std::pair("counts", blocks.counts), std::pair("displacements", blocks.displacements)})
    if (values.size() != static_cast<std::size_t>(ranks_))
      refuse(fmt::format("{} {} {}, with {} ranks", values.size(),
                         verb(direction == Direction::send), name, ranks_));
}

void VectorCall::check_root(int root) const {
  if (root < 0 || root >= ranks_)
    refuse(fmt::format("root {} is none of the ranks 0 to {}", root, ranks_ - 1));
}

/// Checks that the two counts of this rank's own block agree.
void VectorCall::check_own_block(std::size_t block, std::size_t count, std::string_view of) const {
  if (block != count)
    refuse(fmt::format("its block has {} elements, and its block of {} has {}", count, of, block));
}

/// No message reads or writes the root's block of a gather in place, so the check of all messages
/// does not see that another block overlaps it.
void VectorCall::check_block_is_apart(const BlocksOf& blocks) const {
  const auto begin = [&](int rank) { return blocks.displacements[static_cast<std::size_t>(rank)]; };
  const auto count = [&](int rank) { return blocks.counts[static_cast<std::size_t>(rank)]; };
  const auto is_behind = [&](int a, int b) {
    return begin(a) >= begin(b) && begin(a) - begin(b) >= count(b);
  };
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_ && count(peer) != 0 && !is_behind(peer, rank_) && !is_behind(rank_, peer))
      refuse(fmt::format("the block from rank {} and the root's own, which is in place, overlap",
                         peer));
}

MessageEnd VectorCall::end(Direction direction, int peer, const void* buffer, std::size_t at,
                           std::size_t count) const {
  const bool moves = count != 0 && peer != proc_null;
  if (moves && at > most_)
    refuse(fmt::format("displacement {} of {} overflows", at, name_of(type_)));
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(buffer));
  return {.sends = direction == Direction::send,
          .peer = peer,
          .buffer = begin == nullptr || !moves ? nullptr : begin + at * size_,
          .count = count,
          .always = true};
}

MessageEnd VectorCall::block(Direction direction, const void* buffer, const BlocksOf& blocks,
                             int peer) const {
  const auto i = static_cast<std::size_t>(peer);
  return end(direction, peer, buffer, blocks.displacements[i], blocks.counts[i]);
}

VectorCall::Ends VectorCall::all_to_all(const void* send, const BlocksOf& sent, void* recv,
                                        const BlocksOf& received) const {
  check_sizes(Direction::send, sent);
  check_sizes(Direction::receive, received);
  Ends ends;
  ends.reserve(2 * static_cast<std::size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer)
    ends.push_back(block(Direction::send, send, sent, peer));
  for (int peer = 0; peer < ranks_; ++peer)
    ends.push_back(block(Direction::receive, recv, received, peer));
  return ends;
}

VectorCall::Ends VectorCall::all_gather(const void* send, std::size_t count, void* recv,
                                        const BlocksOf& received) const {
  check_sizes(Direction::receive, received);
  check_own_block(received.counts[static_cast<std::size_t>(rank_)], count, "recv");
  const bool in_place = are_one(block(Direction::receive, recv, received, rank_).buffer, send);
  Ends ends;
  ends.reserve(2 * static_cast<std::size_t>(ranks_));
  for (const Direction direction : {Direction::send, Direction::receive})
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_ || !in_place)
        ends.push_back(direction == Direction::send ? end(direction, peer, send, 0, count)
                                                    : block(direction, recv, received, peer));
  return ends;
}

/// The root sends or receives, as `direction` says, a block for each rank. `own`: a rank's only
/// block.
VectorCall::Ends VectorCall::at_root(Direction direction, const void* all, const BlocksOf& blocks,
                                     const void* own, std::size_t count, int root) const {
  const bool sends = direction == Direction::send;
  const Direction other = sends ? Direction::receive : Direction::send;
  check_root(root);
  if (rank_ != root) return {end(other, root, own, 0, count)};
  check_sizes(direction, blocks);
  check_own_block(blocks.counts[static_cast<std::size_t>(rank_)], count, verb(sends));
  const bool in_place = are_one(block(direction, all, blocks, rank_).buffer, own);
  if (in_place && !sends) check_block_is_apart(blocks);
  Ends ends;
  ends.reserve(static_cast<std::size_t>(ranks_) + 1);
  const auto add_own = [&] {
    if (!in_place) ends.push_back(end(other, rank_, own, 0, count));
  };
  if (!sends) add_own();
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_ || !in_place) ends.push_back(block(direction, all, blocks, peer));
  if (sends) add_own();
  return ends;
}

VectorCall::Ends VectorCall::gather(const void* send, std::size_t count, void* recv,
                                    const BlocksOf& received, int root) const {
  return at_root(Direction::receive, recv, received, send, count, root);
}
VectorCall::Ends VectorCall::scatter(const void* send, const BlocksOf& sent, void* recv,
                                     std::size_t count, int root) const {
  return at_root(Direction::send, send, sent, recv, count, root);
}

void VectorCall::add_neighbors(Ends& ends, Direction direction, const void* buffer,
                               const NeighborBlocks& blocks) const {
  const std::size_t peers = blocks.peers.size();
  if (blocks.counts.size() != peers || blocks.displacements.size() != peers)
    refuse(fmt::format("{} {} counts and {} displacements for {} peers", blocks.counts.size(),
                       verb(direction == Direction::send), blocks.displacements.size(), peers));
  for (std::size_t i = 0; i < peers; ++i)
    ends.push_back(
        end(direction, blocks.peers[i], buffer, blocks.displacements[i], blocks.counts[i]));
}

VectorCall::Ends VectorCall::neighbor_all_to_all(const void* send, const NeighborBlocks& sent,
                                                 void* recv, const NeighborBlocks& received) const {
  Ends ends;
  ends.reserve(sent.peers.size() + received.peers.size());
  add_neighbors(ends, Direction::send, send, sent);
  add_neighbors(ends, Direction::receive, recv, received);
  return ends;
}

std::vector<Request> VectorCall::reduce_scatter(const void* send,
                                                std::span<const std::size_t> counts, void* recv,
                                                ReduceOp op, const CallOptions& options) const {
  if (counts.size() != static_cast<std::size_t>(ranks_))
    refuse(fmt::format("{} counts, with {} ranks", counts.size(), ranks_));
  std::size_t sum = 0;
  for (const std::size_t count : counts) {
    if (count > most_ - sum) refuse(fmt::format("the counts of {} overflow", name_of(type_)));
    sum += count;
  }
  Call call{.collective = Collective::reduce_scatter, .type = type_, .op = op};
  call.count = counts.front();
  if (options.algorithm.empty() &&
      std::all_of(counts.begin(), counts.end(), [&](auto count) { return count == call.count; }))
    return {{.call = call, .send = send, .recv = recv, .options = options}};
  std::vector<Request> requests;
  requests.reserve(counts.size());
  call.collective = Collective::reduce;
  const auto* from = static_cast<const std::byte*>(send);
  for (call.root = 0; call.root < ranks_; ++call.root) {
    call.count = counts[static_cast<std::size_t>(call.root)];
    if (call.count == 0) continue;
    requests.push_back({.call = call, .send = from, .recv = recv, .options = options});
    if (from != nullptr) from += call.count * size_;
  }
  return requests;
}

}  // namespace plait
