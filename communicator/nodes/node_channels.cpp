#include "communicator/nodes/node_channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/nodes/choose_transport.hpp"
#include "plait/error.hpp"

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

/// Threads that move large messages between nodes: one for each way where the processors are many.
/// On the host target the ranks need their processors themselves.
int network_threads(const Nodes& nodes) {
  constexpr std::size_t many = 4;  // per rank
  return std::thread::hardware_concurrency() >= many * nodes.ranks_here().size() ? 2 : 0;
}

}  // namespace

NodeChannels::NodeChannels(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                           const Nodes& nodes, const Topology& topology,
                           const WishedNetwork& wished, const Grant& channels, SymmetricHeap& heap)
    : is_host_(backend->info().backend == BackendKind::host) {
  const int rank = bootstrap.rank(), ranks = bootstrap.size();
  const ChannelMemory memory = channel_memory(topology);
  auto transport =
      choose_transport(bootstrap, backend->info().ordinal, is_host_ ? 0 : network_threads(nodes));
  agree(bootstrap, what, [&] {
    const std::size_t bytes =
        Channels::count(ranks, memory.blocks) * chunk_notes * sizeof(ChunkNote);
    notes_ = {static_cast<ChunkNote*>(backend->allocate_pinned(bytes)), Deallocate{backend}};
    proxy_ = std::make_unique<transport::Proxy>(std::move(transport), rank);
    place_tables(backend, nodes, topology);
  });
  const Resources here = node_channel_memory(topology).resources().resources;
  const std::size_t window_bytes = here.scratch_bytes + here.signals * sizeof(std::uint32_t);
  node_window_ = std::make_shared<Window>(
      backend, heap.allocate_range(window_bytes, what, Commit::on_touch), rank, window_bytes, 0);
  setting_.channels = {.scratch = node_window_->view(),
                       .signals = node_window_->view().at(here.scratch_bytes),
                       .counters = static_cast<std::uint32_t*>(counters_.get())};
  setting_.notes = notes_.get();
  struct Introduction {
    transport::Address address;
    Uplink uplink;
  };
  const Introduction mine{proxy_->address(), Uplink::of(proxy_->properties())};
  const auto introductions =
      on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(mine); });
  std::vector<std::vector<Uplink>> uplinks(static_cast<std::size_t>(nodes.count()));
  for (int peer = 0; peer < ranks; ++peer)
    uplinks[static_cast<std::size_t>(nodes.of(peer))].push_back(
        introductions[static_cast<std::size_t>(peer)].uplink);
  network_ = network_of(uplinks, wished);
  for (int peer = 0; peer < ranks; ++peer) {
    if (nodes.is_here(peer)) continue;
    lanes_.push_back(lane_to(rank, peer, ranks, memory, channels, notes_.get()));
    addresses_.push_back(introductions[static_cast<std::size_t>(peer)].address);
  }
}

void NodeChannels::place_tables(const std::shared_ptr<Backend>& backend, const Nodes& nodes,
                                const Topology& topology) {
  const std::vector<int>& here = nodes.ranks_here();
  std::vector<std::int32_t> table(here.begin(), here.end());
  for (int node = 0; node < nodes.count(); ++node)
    table.insert(table.end(), nodes.ranks(node).begin(),
                 nodes.ranks(node).begin() + topology.rails);
  const std::size_t bytes = table.size() * sizeof(std::int32_t),
                    counter_bytes = node_channel_memory(topology).resources().resources.counters *
                                    sizeof(std::uint32_t);
  tables_ = {backend->allocate(bytes), DeallocateOnDevice{backend}};
  const NativeStream stream = backend->resolve(nullptr);
  backend->copy(tables_.get(), table.data(), bytes, stream);
  backend->synchronize(stream);
  counters_ = {backend->allocate(std::max<std::size_t>(counter_bytes, 1)),
               DeallocateOnDevice{backend}};
  backend->zero(counters_.get(), counter_bytes);
  setting_.node = nodes.here();
  setting_.local_rank = nodes.local_rank();
  setting_.local_ranks = static_cast<int>(here.size());
  setting_.ranks_here = static_cast<const std::int32_t*>(tables_.get());
  setting_.owners = setting_.ranks_here + here.size();
}

NodeChannels::~NodeChannels() { proxy_->stop(std::chrono::seconds(5)); }

void NodeChannels::put_into(Watch& watch) const noexcept {
  if (!is_host_) return;
  watch.carrier = proxy_.get();
  watch.carry = [](void* proxy, int peer) { static_cast<transport::Proxy*>(proxy)->carry(peer); };
}

void NodeChannels::require_open() const {
  if (!proxy_->is_open())
    throw Error(ErrorCode::bootstrap,
                fmt::format("ranks of other nodes can't be reached any more: {} has ended",
                            transport_name()));
}

void NodeChannels::start(transport::Listening listening) {
  proxy_->start(lanes_, addresses_, std::move(listening));
}

}  // namespace plait
