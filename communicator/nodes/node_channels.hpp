// The way to ranks of other nodes: a proxy, and the memory that it serves.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "backends/device/channel_words.hpp"
#include "bootstrap/nodes.hpp"
#include "communicator/nodes/choose_transport.hpp"
#include "communicator/nodes/network_device.hpp"
#include "communicator/nodes/stand_ins.hpp"
#include "communicator/nodes/window_server.hpp"
#include "plait/bootstrap.hpp"
#include "symm_mem/own_memory.hpp"
#include "symm_mem/window.hpp"
#include "transport/proxy.hpp"

namespace plait {

/// The slots of all channels in device memory: GPUDirect.
struct DeviceSlots {
  StandIns ways;
  std::shared_ptr<Window> window;  // its destructor waits for kernels
};

class NodeChannels {
 public:
  /// Collective. `wishes`: those of all ranks. `channels`: the memory of the channels between
  /// nodes, which outlives this object, as `nodes` does. `heap`: of memory that the ranks of a node
  /// share, with all windows. `token`: as for `SymmetricHeap::allocate_here`.
  NodeChannels(std::shared_ptr<Backend> backend, Bootstrap& bootstrap, const Nodes& nodes,
               const Topology& topology, std::vector<NetWish> wishes, const WishedNetwork& wished,
               const ChannelStandIns& channels, SymmetricHeap& heap, std::uint64_t token);
  /// Waits until everything that kernels have published is on its way.
  ~NodeChannels();
  NodeChannels(const NodeChannels&) = delete;
  NodeChannels& operator=(const NodeChannels&) = delete;

  /// Begins to serve the channels, and windows for ranks of other nodes. Local. `refuse`: called
  /// where that is not possible.
  void start(transport::Listening listening, std::function<void(const Error& why)> refuse);
  const NodeSetting& setting() const noexcept { return setting_; }
  /// Lets the threads of kernels on the host do the proxy's work while they wait.
  void put_into(Watch& watch) const noexcept;
  /// A kernel has been enqueued or, if `captured`, may be enqueued by graphs from now on.
  void launched(bool captured) noexcept {
    if (is_host()) return;  // its kernels call
    if (captured) proxy_->stay_awake();
    proxy_->wake();
  }
  void tell(int peer, std::span<const std::byte> words) { proxy_->tell(peer, words); }
  void tell_all(std::span<const std::byte> words, transport::Reach reach) {
    proxy_->tell_all(words, reach);
  }
  /// Waits until all that was told is on its way, at most `patience`.
  void flush(std::chrono::milliseconds patience) noexcept;
  /// The communicator is broken, so its end waits no longer than its last words need.
  void hurry() noexcept { patience_ = std::chrono::milliseconds(500); }
  /// The network as estimates take it to be, equal on all ranks.
  const NetworkFacts& network() const noexcept { return network_; }
  /// Throws Error(bootstrap) if the transport has ended, as that over MPI does in MPI_Finalize.
  void require_open() const;
  const std::string& transport_name() const { return proxy_->properties().name; }
  /// "sockets over eth0 (10.0.0.2)". If chunks lie in device memory, that is said, too.
  std::string way() const;
  transport::Counters counters() const { return proxy_->counters(); }

 private:
  /// The memory by which the ranks of a node meet, collective over these (`agree_here`).
  void share_node_window(const Topology& topology, SymmetricHeap& heap, std::uint64_t token);
  /// The channels between this rank and `peer`; none if it is on this node.
  std::optional<transport::Lane> lane_to(int peer) const;
  void place_tables(const std::shared_ptr<Backend>& backend, const Nodes& nodes,
                    const Topology& topology);

  bool is_host() const noexcept { return backend_->info().backend == BackendKind::host; }

  std::shared_ptr<Backend> backend_;
  const Nodes& nodes_;
  int rank_;
  ChannelMemory memory_;
  const ChannelStandIns& channels_;
  NetworkFacts network_;
  NodeSetting setting_;
  PinnedMemory<ChunkNote> notes_;
  DeviceMemory<std::int32_t> tables_;
  DeviceMemory<std::uint32_t> counters_;
  std::shared_ptr<Window> node_window_;
  std::optional<DeviceSlots> device_slots_;
  bool is_checked_ = false;
  struct Introduction {
    transport::Address address;
    NetworkDevice device;
  };
  std::vector<Introduction> introductions_;  // of all ranks
  std::unique_ptr<WindowServer> server_;
  std::unique_ptr<transport::Proxy> proxy_;
  std::chrono::milliseconds patience_{5000};
};

}  // namespace plait
