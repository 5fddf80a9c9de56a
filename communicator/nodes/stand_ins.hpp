// Where kernels find the channels of all ranks if these are on several nodes.
#pragma once
#include <cstddef>
#include <memory>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "symm_mem/own_memory.hpp"

namespace plait {

/// The slots of all channels, or their words. On this node a rank stores into the memory of its
/// peer. A peer of another node has a stand-in: memory of this rank alone, from which the proxy
/// sends. A table says where each begins, so no addresses are taken for memory of other nodes.
class StandIns {
 public:
  StandIns() = default;
  /// In the copy of each rank of this node in `range`, the channels begin at `offset`. Each has
  /// `bytes` bytes. `memory`: `needed` zeros. `nodes` outlives this object. Local.
  StandIns(const std::shared_ptr<Backend>& backend, const SymmetricRange& range, std::size_t offset,
           std::size_t bytes, const ChannelMemory& channels, const Nodes& nodes, int rank,
           std::shared_ptr<std::byte> memory);
  /// The bytes of stand-ins for the channels to all ranks of other nodes.
  static std::size_t needed(std::size_t bytes, const ChannelMemory& channels, const Nodes& nodes);

  /// For kernels of this rank.
  const WindowView& view() const noexcept { return view_; }
  /// The stand-in for the channels from this rank to `peer`, of another node.
  std::byte* of(int peer) const;

 private:
  const Nodes* nodes_ = nullptr;
  std::size_t lane_ = 0;  // bytes
  std::shared_ptr<std::byte> memory_;
  DeviceMemory<std::ptrdiff_t> distances_;
  WindowView view_;
};

struct ChannelStandIns {
  StandIns slots, words;
};

}  // namespace plait
