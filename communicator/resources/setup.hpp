// The choices that ranks make together when a communicator is created.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "communicator/calibration/calibration.hpp"
#include "communicator/groups/birth.hpp"
#include "communicator/nodes/network_device.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// In the order in which they are tried if none is asked for; then comes the host.
inline constexpr std::array gpu_targets{BackendKind::cuda, BackendKind::hip};

/// The settings of a communicator, from options and environment. Once `agree_on_settings` has
/// returned, they are equal on all ranks, except for `progress`, `profiler_ranges` and `trace`.
struct CommunicatorSettings {
  std::optional<std::size_t> scratch_bytes;  // PLAIT_SCRATCH_BYTES; else `default_scratch`
  std::size_t work_fifo_bytes;       // PLAIT_WORK_FIFO_BYTES, default 256 KB, a power of two
  std::chrono::nanoseconds timeout;  // PLAIT_TIMEOUT seconds, default 10 minutes, 0: none
  bool check_calls;         // PLAIT_CHECK=1: compare every call on the host before it is enqueued
  bool progress;            // PLAIT_PROGRESS, default 1: blocks count what they start and complete
  bool profiler_ranges;     // PLAIT_PROFILER_RANGES=1: launches are ranges in the vendor's profiler
  bool peer_access;         // PLAIT_DISABLE_P2P=0: devices use each other's memory if they reach it
  bool share_devices;       // PLAIT_SHARE_DEVICES=1: several processes may use one GPU
  SumOrder order;           // an option; the selector also reads PLAIT_ALGO
  WishedNetwork network;    // PLAIT_NET_LATENCY_US, PLAIT_NET_BANDWIDTH
  Calibration calibration;  // PLAIT_CALIBRATE: rules measured on this machine
  std::optional<TuningFile> tuning;    // PLAIT_TUNING: rules for the selection
  std::optional<std::string> trace;    // PLAIT_TRACE: the file to write a trace to
  std::vector<int> ring;               // PLAIT_RING: the order of as many ranks; empty: not set
  std::optional<BackendKind> backend;  // the option, else PLAIT_BACKEND
  /// Of each of `gpu_targets`, the devices of the rank that sees fewest; 0 if `backend` is given.
  std::array<int, gpu_targets.size()> fewest_devices;
};

/// 128 MB. For GPUs that reach each other's memory, 128 MB per peer, up to 384 MB, because a rank
/// divides its scratch memory among its peers: with 4 H200, a gigabyte from each rank to the next
/// then takes 2.98 ms instead of 3.02 ms, and a broadcast 2.97 ms instead of 3.00 ms (2026-11-22).
constexpr std::size_t default_scratch(const Topology& topology) {
  const bool grows = topology.backend != BackendKind::host && topology.peer_access;
  const int shares = grows ? std::clamp(topology.ranks - 1, 1, 3) : 1;
  return static_cast<std::size_t>(shares) << 27;
}

/// Reads the settings. Collective. If ranks differ in them, in PLAIT_ALGO, in the text of a tuning
/// file or in the version of the library, all ranks throw Error(mismatch), which names a rank and
/// both texts. `is_part`: a part of a communicator has its device. `places`: of all ranks.
CommunicatorSettings agree_on_settings(Bootstrap& bootstrap, const CommunicatorOptions& options,
                                       bool is_part, std::vector<Nodes::Place>& places);

/// The meaning of a device's number on the host target. `one_per_rank`: there is one device per
/// rank of the node. `named`: the number is only a name, as for the ranks of a device group.
enum class HostDevices { one_per_rank, named };

/// What ranks know once their devices are open.
struct Discovery {
  std::shared_ptr<Backend> backend;  // of this rank
  Topology topology;
  Birth birth;
  std::vector<std::int32_t> processes;  // the PIDs of all ranks
};

/// Opens each rank's device. Collective. The backend is that of the settings, else a GPU target if
/// every rank has its own device or may share one, else the host. Symmetric memory lies in host
/// memory if the devices don't reach each other's memory or must not use it. All ranks throw the
/// same Error if they share a device without permission, if one lacks a device, or if
/// PLAIT_SCRATCH_BYTES is too little for the algorithms. `parent`: the device of the communicator
/// that this one is a part of, or null. It is opened again, whatever the options say.
Discovery open_devices(Bootstrap& bootstrap, const Nodes& nodes, const CommunicatorOptions& options,
                       const CommunicatorSettings& settings, const Backend* parent,
                       HostDevices host = HostDevices::one_per_rank);

/// Makes later communicators of this thread take the same device by default, because one over a
/// part of the ranks numbers its ranks anew. Called once a communicator stands.
void remember_device(const Backend& backend);

/// Says that so many ranks share each GPU. They have no links between them, but share its memory.
/// The numbers are for all of them together, as fitted to the times of 2, 3, 4 and 8 ranks on one
/// H100 (docs/tuning.md). Inline, because plait-info asks, too.
inline void share_bandwidth(Topology& topology, int ranks) {
  topology.ranks_per_device = ranks;
  if (ranks == 1) return;
  topology.launch_us = 1.6;
  topology.hop_us = 1.2;
  topology.signal_us = 2.4;
  topology.link_bandwidth = 900e3 / ranks;
  topology.push_bandwidth = 660e3 / ranks;
  topology.packet_bandwidth = 520e3 / ranks;
  topology.copy_us = 2.8;
  topology.copy_bandwidth = 950e3 / ranks;
}

/// Says that so many CPU ranks take turns on each processor. A rank whose peer is not running waits
/// for its turn; ranks that wait give their processor away, so transfers suffer a little less (3, 4
/// and 8 ranks on 2 cores, docs/tuning.md). Inline, because plait-info asks, too.
inline void take_turns(Topology& topology, double turns) {
  if (turns <= 1) return;
  topology.ranks_per_device = static_cast<int>(std::ceil(turns));
  for (double* time :
       {&topology.launch_us, &topology.hop_us, &topology.signal_us, &topology.copy_us})
    *time *= turns;
  for (double* bandwidth : {&topology.link_bandwidth, &topology.push_bandwidth,
                            &topology.packet_bandwidth, &topology.copy_bandwidth})
    *bandwidth /= std::pow(turns, 0.85);
}

}  // namespace plait
