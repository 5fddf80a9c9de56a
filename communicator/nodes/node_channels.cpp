#include "communicator/nodes/node_channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "plait/error.hpp"
#include "transport/registration_trial.hpp"

namespace plait {
namespace {

/// Threads that move large messages between nodes: one per direction if there are many processors.
/// On the host target the ranks need their processors themselves.
int network_threads(const Backend& backend, const Nodes& nodes) {
  constexpr std::size_t many = 4;  // per rank
  if (backend.info().backend == BackendKind::host) return 0;
  return std::thread::hardware_concurrency() >= many * nodes.ranks_here().size() ? 2 : 0;
}

void require_device_memory(const DeviceInfo& device, const transport::Properties& transport) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::unsupported, why); };
  if (device.backend == BackendKind::host) refuse("the host target has no device memory");
  if (!device.facts.peer_access) refuse("the devices of a node can't reach each other's memory");
  if (!transport.device_memory)
    refuse(fmt::format("{} does not reach device memory", transport.name));
}

/// False if the communicator works without what is missing.
bool is_fatal(ErrorCode code) {
  return code != ErrorCode::unsupported && code != ErrorCode::out_of_memory &&
         code != ErrorCode::no_peer_access;
}

/// The kind of the target's device memory; `host` on the host target.
transport::MemoryKind device_memory_kind(BackendKind backend) {
  switch (backend) {
    case BackendKind::cuda:
      return transport::MemoryKind::cuda;
    case BackendKind::hip:
      return transport::MemoryKind::hip;
    default:
      return transport::MemoryKind::host;
  }
}

/// Slots of all channels in device memory: GPUDirect. None: chunks lie in host memory, because
/// PLAIT_NET_GDR=0 or PLAIT_NET_CHECK, or because a rank's transport can't register the memory.
/// Collective: the result is the same on all ranks. All throw the same Error(unsupported) or
/// Error(out_of_memory) if PLAIT_NET_GDR is 1 and the memory can't be had or registered.
std::optional<DeviceSlots> make_device_slots(const std::shared_ptr<Backend>& backend,
                                             Bootstrap& bootstrap, const Nodes& nodes,
                                             const ChannelMemory& memory, SymmetricHeap& heap,
                                             const ChosenTransport& chosen,
                                             std::unique_ptr<transport::Transport>& transport) {
  const DirectMemory wanted = chosen.direct_memory;
  const bool may_want = backend->info().backend != BackendKind::host && !chosen.is_checked;
  if (wanted == DirectMemory::on && chosen.is_checked)
    throw Error(ErrorCode::unsupported,
                "PLAIT_NET_GDR=1: PLAIT_NET_CHECK reads chunks, so they lie in host memory");
  if (wanted == DirectMemory::off || (wanted == DirectMemory::none && !may_want)) return {};
  const int rank = bootstrap.rank();
  const std::size_t bytes = memory.resources().resources.scratch_bytes,
                    needed = StandIns::needed(memory.bytes, memory, nodes);
  try {
    agree(bootstrap, connecting_nodes, [&] {
      transport = chosen.make();
      require_device_memory(backend->info(), transport->properties());
    });
    DeviceSlots slots;
    auto range = heap.allocate_range(bytes, connecting_nodes, Commit::on_touch);
    agree(bootstrap, connecting_nodes, [&] {
      // Memory of the same kind, which the card reaches as well.
      auto apart = backend->reserve(1, needed, draw_token());
      static_cast<void>(apart->create_local(0));
      std::shared_ptr<std::byte> stand_ins(apart, apart->address(0));
      transport::try_to_register(
          *transport, std::span(stand_ins.get(), memory.lane() * memory.bytes),
          std::span(range->address(rank), bytes), device_memory_kind(backend->info().backend));
      slots.ways = StandIns(backend, *range, 0, memory.bytes, memory, nodes, rank, stand_ins);
    });
    slots.window = std::make_shared<Window>(backend, std::move(range), rank, bytes, 0);
    return slots;
  } catch (const Error& error) {
    if (wanted == DirectMemory::on || is_fatal(error.code())) throw;
    if (rank == 0 && transport != nullptr && transport->properties().device_memory)
      log::info("chunks between nodes lie in host memory: {}", error.what());
    return {};
  }
}

}  // namespace

NodeChannels::NodeChannels(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                           const Nodes& nodes, const Topology& topology,
                           std::vector<NetWish> wishes, const WishedNetwork& wished,
                           const ChannelStandIns& channels, SymmetricHeap& heap,
                           std::uint64_t token)
    : backend_(backend),
      nodes_(nodes),
      rank_(bootstrap.rank()),
      memory_(channel_memory(topology)),
      channels_(channels) {
  const int ranks = bootstrap.size();
  const ChosenTransport chosen =
      choose_transport(bootstrap, nodes, wishes, backend, network_threads(*backend, nodes));
  wishes = std::vector<NetWish>();
  is_checked_ = chosen.is_checked;
  std::unique_ptr<transport::Transport> transport;
  device_slots_ = make_device_slots(backend, bootstrap, nodes, memory_, heap, chosen, transport);
  introductions_ = gather_agreed(bootstrap, connecting_nodes, [&] {
    agree_here(nodes, connecting_nodes, [&] {
      notes_ = allocate_pinned<ChunkNote>(
          backend, Channels::count(ranks, memory_.all_blocks()) * chunk_notes);
      server_ = std::make_unique<WindowServer>(backend, heap.table(), nodes, rank_, memory_,
                                               notes_.get());
      if (transport == nullptr) transport = chosen.make();
      proxy_ = std::make_unique<transport::Proxy>(std::move(transport), rank_);
      place_tables(backend, nodes, topology);
    });
    share_node_window(topology, heap, token);
    return Introduction{proxy_->address(), NetworkDevice::of(proxy_->properties())};
  });
  setting_.notes = notes_.get();
  setting_.signals = server_->signals();
  if (device_slots_) setting_.device_slots = device_slots_->ways.view();
  std::vector<std::vector<NetworkDevice>> devices(static_cast<std::size_t>(nodes.count()));
  for (int peer = 0; peer < ranks; ++peer)
    devices[static_cast<std::size_t>(nodes.of(peer))].push_back(
        introductions_[static_cast<std::size_t>(peer)].device);
  network_ = network_of(devices, wished);
}

void NodeChannels::share_node_window(const Topology& topology, SymmetricHeap& heap,
                                     std::uint64_t token) {
  const Resources here = node_channel_memory(topology).resources().resources;
  const std::size_t bytes = here.scratch_bytes + here.signals * sizeof(std::uint32_t);
  node_window_ = std::make_shared<Window>(
      backend_, heap.allocate_here(bytes, token, connecting_nodes, Commit::on_touch), rank_, bytes,
      0);
  setting_.channels = {.scratch = node_window_->view(),
                       .signals = node_window_->view().at(here.scratch_bytes),
                       .counters = counters_.get()};
}

std::optional<transport::Lane> NodeChannels::lane_to(int peer) const {
  if (nodes_.is_here(peer)) return std::nullopt;
  const auto& [slots, words] = channels_;
  const std::size_t first = memory_.first(rank_, peer), bytes = first * memory_.bytes;
  transport::Lane lane{.peer = peer,
                       .address = &introductions_[static_cast<std::size_t>(peer)].address,
                       .channels = static_cast<std::uint32_t>(memory_.lane()),
                       .channel_bytes = memory_.bytes,
                       .outgoing = slots.of(peer),
                       .out_signals = reinterpret_cast<ChannelSignals*>(words.of(peer)),
                       .notes = notes_.get() + first * chunk_notes,
                       .incoming = slots.view().own + bytes,
                       .in_signals = reinterpret_cast<ChannelSignals*>(words.view().own) + first,
                       .device_kind = device_memory_kind(backend_->info().backend),
                       .is_checked = is_checked_};
  if (device_slots_) {
    lane.device_outgoing = device_slots_->ways.of(peer);
    lane.device_incoming = device_slots_->ways.view().own + bytes;
  }
  return lane;
}

void NodeChannels::place_tables(const std::shared_ptr<Backend>& backend, const Nodes& nodes,
                                const Topology& topology) {
  const std::vector<int>& here = nodes.ranks_here();
  std::vector<std::int32_t> table(here.begin(), here.end());
  for (int node = 0; node < nodes.count(); ++node)
    table.insert(table.end(), nodes.ranks(node).begin(),
                 nodes.ranks(node).begin() + topology.rails);
  tables_ = on_device(backend, table);
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
  if (!is_host()) {
    try {
      const DeviceScope device(*backend_);
      return proxy_->flush(patience);
    } catch (const std::exception&) {  // the transport finds out, too
    }
  }
  proxy_->flush(patience);
}

std::string NodeChannels::way() const {
  return proxy_->properties().name + (device_slots_ ? " from device memory" : "") +
         (is_checked_ ? " with CRC-32C" : "");
}

void NodeChannels::start(transport::Listening listening,
                         std::function<void(const Error& why)> refuse) {
  server_->start(std::move(refuse));
  listening.meet = [this](const transport::Lane& lane) { server_->add(lane); };
  listening.serve = [this] { return server_->serve(); };
  // The server copies, and transports that reach device memory may call its driver.
  if (!is_host())
    listening.begin = [this] {
      try {
        backend_->enter();
      } catch (const std::exception&) {  // the transport finds out, too
      }
    };
  proxy_->start(
      memory_.ranks, [this](int peer) { return lane_to(peer); }, std::move(listening));
}

}  // namespace plait
