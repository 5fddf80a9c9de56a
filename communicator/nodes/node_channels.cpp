#include "communicator/nodes/node_channels.hpp"

#include <utility>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/nodes/choose_transport.hpp"

namespace plait {
namespace {

constexpr const char* what = "connecting the nodes";

/// The channels between this rank and `peer`, of another node.
transport::Lane lane_to(int rank, int peer, int ranks, const ChannelMemory& memory,
                        const Grant& granted, const ChunkNote* notes) {
  const unsigned channels = memory.blocks * Channels::ways;
  const std::size_t here = std::size_t{Channels::lane(rank, peer, ranks)} * channels,
                    there = std::size_t{Channels::lane(peer, rank, ranks)} * channels;
  return {.peer = peer,
          .channels = channels,
          .channel_bytes = memory.bytes,
          .outgoing = granted.scratch.peer_ptr(peer, there * memory.bytes),
          .out_signals = reinterpret_cast<ChannelSignals*>(granted.signals.peer_ptr(peer)) + there,
          .notes = notes + here * chunk_notes,
          .incoming = granted.scratch.own + here * memory.bytes,
          .in_signals = reinterpret_cast<ChannelSignals*>(granted.signals.own) + here};
}

}  // namespace

NodeChannels::NodeChannels(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                           const Nodes& nodes, const Topology& topology, const Grant& channels) {
  const int rank = bootstrap.rank(), ranks = bootstrap.size();
  const ChannelMemory memory = channel_memory(topology);
  auto transport = choose_transport(bootstrap);
  agree(bootstrap, what, [&] {
    const std::size_t bytes =
        Channels::count(ranks, memory.blocks) * chunk_notes * sizeof(ChunkNote);
    notes_ = {static_cast<ChunkNote*>(backend->allocate_pinned(bytes)), Deallocate{backend}};
    proxy_ = std::make_unique<transport::Proxy>(std::move(transport), rank);
  });
  const auto addresses =
      on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(proxy_->address()); });
  for (int peer = 0; peer < ranks; ++peer) {
    if (nodes.is_here(peer)) continue;
    lanes_.push_back(lane_to(rank, peer, ranks, memory, channels, notes_.get()));
    addresses_.push_back(addresses[static_cast<std::size_t>(peer)]);
  }
}

NodeChannels::~NodeChannels() { proxy_->stop(std::chrono::seconds(5)); }

void NodeChannels::start(transport::Listening listening) {
  proxy_->start(lanes_, addresses_, std::move(listening));
}

}  // namespace plait
