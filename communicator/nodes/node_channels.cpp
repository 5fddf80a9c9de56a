#include "communicator/nodes/node_channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/nodes/choose_transport.hpp"
#include "communicator/nodes/device_slots.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr const char* what = "connecting the nodes";

/// The channels between this rank and `peer`, of another node.
transport::Lane lane_to(int rank, int peer, const ChannelMemory& memory, const Grant& granted,
                        const ChunkNote* notes) {
  const std::size_t here = memory.first(rank, peer), there = memory.first(peer, rank);
  return {.peer = peer,
          .channels = static_cast<std::uint32_t>(memory.lane()),
          .channel_bytes = memory.bytes,
          .outgoing = granted.scratch.peer_ptr(peer, there * memory.bytes),
          .out_signals = reinterpret_cast<ChannelSignals*>(granted.signals.peer_ptr(peer)) + there,
          .notes = notes + here * chunk_notes,
          .incoming = granted.scratch.own + here * memory.bytes,
          .in_signals = reinterpret_cast<ChannelSignals*>(granted.signals.own) + here};
}

/// Threads that move large messages between nodes: one for each way where the processors are many.
/// On the host target the ranks need their processors themselves.
int network_threads(const Backend& backend, const Nodes& nodes) {
  constexpr std::size_t many = 4;  // per rank
  if (backend.info().backend == BackendKind::host) return 0;
  return std::thread::hardware_concurrency() >= many * nodes.ranks_here().size() ? 2 : 0;
}

/// Gives the lane its slots in device memory.
void add_device_slots(transport::Lane& lane, const Window& slots, int rank,
                      const ChannelMemory& memory, BackendKind backend) {
  lane.device_kind = device_memory_kind(backend);
  lane.device_outgoing = slots.peer(lane.peer, memory.first(lane.peer, rank) * memory.bytes);
  lane.device_incoming = slots.local() + memory.first(rank, lane.peer) * memory.bytes;
}

}  // namespace

NodeChannels::NodeChannels(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                           const Nodes& nodes, const Topology& topology,
                           const WishedNetwork& wished, const Grant& channels, SymmetricHeap& heap)
    : backend_(backend) {
  const int rank = bootstrap.rank(), ranks = bootstrap.size();
  const ChannelMemory memory = channel_memory(topology);
  auto transport = choose_transport(bootstrap, nodes, backend, network_threads(*backend, nodes));
  device_slots_ = make_device_slots(backend, bootstrap, nodes, memory, heap, *transport);
  agree(bootstrap, what, [&] {
    notes_ =
        allocate_pinned<ChunkNote>(backend, Channels::count(ranks, memory.blocks) * chunk_notes);
    proxy_ = std::make_unique<transport::Proxy>(std::move(transport), rank);
    place_tables(backend, nodes, topology);
  });
  const Resources here = node_channel_memory(topology).resources().resources;
  const std::size_t window_bytes = here.scratch_bytes + here.signals * sizeof(std::uint32_t);
  node_window_ = std::make_shared<Window>(
      backend, heap.allocate_range(window_bytes, what, Commit::on_touch), rank, window_bytes, 0);
  setting_.channels = {.scratch = node_window_->view(),
                       .signals = node_window_->view().at(here.scratch_bytes),
                       .counters = counters_.get()};
  setting_.notes = notes_.get();
  if (device_slots_) setting_.device_slots = device_slots_->view();
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
    lanes_.push_back(lane_to(rank, peer, memory, channels, notes_.get()));
    if (device_slots_)
      add_device_slots(lanes_.back(), *device_slots_, rank, memory, backend->info().backend);
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
  tables_ = allocate_zeroed<std::int32_t>(backend, table.size());
  const NativeStream stream = backend->resolve(nullptr);
  backend->copy(tables_.get(), table.data(), table.size() * sizeof(std::int32_t), stream);
  backend->synchronize(stream);
  const std::size_t counters = node_channel_memory(topology).resources().resources.counters;
  counters_ = allocate_zeroed<std::uint32_t>(backend, std::max<std::size_t>(counters, 1));
  setting_.node = nodes.here();
  setting_.local_rank = nodes.local_rank();
  setting_.local_ranks = static_cast<int>(here.size());
  setting_.ranks_here = tables_.get();
  setting_.owners = setting_.ranks_here + here.size();
}

NodeChannels::~NodeChannels() { proxy_->stop(patience_); }

void NodeChannels::put_into(Watch& watch) const noexcept {
  if (!is_host()) return;
  watch.carrier = proxy_.get();
  watch.carry = [](void* proxy, int peer) { static_cast<transport::Proxy*>(proxy)->carry(peer); };
}

void NodeChannels::require_open() const {
  if (!proxy_->is_open())
    throw Error(ErrorCode::bootstrap,
                fmt::format("ranks of other nodes can't be reached any more: {} has ended",
                            transport_name()));
}

void NodeChannels::flush(std::chrono::milliseconds patience) noexcept {
  if (device_slots_) {
    try {
      const DeviceScope device(*backend_);
      return proxy_->flush(patience);
    } catch (const std::exception&) {  // the transport finds out, too
    }
  }
  proxy_->flush(patience);
}

std::string NodeChannels::way() const {
  return proxy_->properties().name + (device_slots_ ? " from device memory" : "");
}

void NodeChannels::start(transport::Listening listening) {
  // Transports that reach device memory may call its driver.
  if (device_slots_)
    listening.begin = [this] {
      try {
        backend_->enter();
      } catch (const std::exception&) {  // the transport finds out, too
      }
    };
  proxy_->start(lanes_, addresses_, std::move(listening));
}

}  // namespace plait
