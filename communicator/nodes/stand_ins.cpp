#include "communicator/nodes/stand_ins.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace plait {

StandIns::StandIns(const std::shared_ptr<Backend>& backend, const SymmetricRange& range,
                   std::size_t offset, std::size_t bytes, const ChannelMemory& channels,
                   const Nodes& nodes, int rank, std::shared_ptr<std::byte> memory)
    : nodes_(&nodes), lane_(channels.lane() * bytes), memory_(std::move(memory)) {
  std::byte* const own = range.address(rank) + offset;
  std::vector<std::ptrdiff_t> distances;
  for (int peer = 0; peer < channels.ranks; ++peer)
    distances.push_back(nodes.is_here(peer)
                            ? range.address(peer) - range.address(rank)
                            : of(peer) - own -
                                  static_cast<std::ptrdiff_t>(channels.first(peer, rank) * bytes));
  distances_ = on_device(backend, distances);
  view_ = {.own = own, .stride = 0, .distances = distances_.get(), .rank = rank};
}

std::size_t StandIns::needed(std::size_t bytes, const ChannelMemory& channels, const Nodes& nodes) {
  return (static_cast<std::size_t>(channels.ranks) - nodes.ranks_here().size()) * channels.lane() *
         bytes;
}

std::byte* StandIns::of(int peer) const {
  const std::vector<int>& here = nodes_->ranks_here();
  const auto before = std::lower_bound(here.begin(), here.end(), peer) - here.begin();
  return memory_.get() + static_cast<std::size_t>(peer - before) * lane_;
}

}  // namespace plait
