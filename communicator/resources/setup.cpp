#include "communicator/resources/setup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/contract/work_ring.hpp"
#include "backends/host/processes.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/resources/algorithm_list.hpp"
#include "communicator/resources/algorithm_memory.hpp"
#include "communicator/resources/compared.hpp"
#include "communicator/resources/ring.hpp"
#include "communicator/selection/selection.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

template <class T>
std::vector<T> gather(Bootstrap& bootstrap, const T& mine) {
  return on_behalf_of(bootstrap, creating_communicator, [&] { return bootstrap.all_gather(mine); });
}

/// A device's name, cut where it is longer than any is.
using DeviceName = std::array<char, 64>;

/// A rank's device, and the process that uses it.
struct OfDevice {
  DeviceName id;  // unique on the node
  std::uint64_t process;
  ProcessFacts facts;
};

/// The devices of this node's ranks, once each has opened its own.
struct OpenDevices {
  std::shared_ptr<Backend> backend;  // this rank's
  std::vector<OfDevice> of_ranks;
};

/// Opens this rank's device by `open`. Collective over a node (`agree_here`).
template <class Open>
OpenDevices open_here(const Nodes& nodes, Open open) {
  OpenDevices devices;
  devices.of_ranks = gather_agreed(
      nodes.group_here(), "opening the devices",
      [&] {
        devices.backend = open();
        return OfDevice{as_text<DeviceName>(devices.backend->info().id), process_number(),
                        devices.backend->process_facts()};
      },
      &nodes.ranks_here());
  return devices;
}

/// The two lowest of a node's ranks that name the same device, if any. `of_one_process`: only if
/// they are in one process.
std::optional<std::pair<std::size_t, std::size_t>> sharing(const std::vector<OfDevice>& devices,
                                                           bool of_one_process) {
  for (std::size_t b = 1; b < devices.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (devices[a].id == devices[b].id &&
          (!of_one_process || devices[a].process == devices[b].process))
        return std::pair{a, b};
  return std::nullopt;
}

/// The reason why the ranks of a node can't use these devices together; empty if they can. Threads
/// may not share a GPU even where processes may: threads have the default stream in common, and
/// kernels in one stream run one after another, so kernels that wait for each other would never
/// meet.
std::string why_not_together(const Nodes& nodes, const OpenDevices& devices, bool may_share) {
  const std::string& id = devices.backend->info().id;
  const std::string_view kind = name_of(devices.backend->info().backend);
  const std::vector<int>& ranks = nodes.ranks_here();
  if (const auto shared = sharing(devices.of_ranks, may_share))
    return fmt::format("ranks {} and {} {}share {} device {}", ranks[shared->first],
                       ranks[shared->second], may_share ? "are threads of one process and " : "",
                       kind, id);
  if (const auto shared = sharing(devices.of_ranks, false); shared && nodes.local_rank() == 0)
    log::warn(
        "ranks {} and {} share one {} device, as PLAIT_SHARE_DEVICES=1 permits: they take turns, "
        "which is slow, unless a service such as NVIDIA's MPS joins their work (tools/mps-run.sh)",
        ranks[shared->first], ranks[shared->second], kind);
  return {};
}

/// The device of this thread's last communicator, per target; -1: none. So a communicator over a
/// part of the ranks gets the device that the rank already has, not that of its new number.
thread_local std::array<int, gpu_targets.size() + 1> thread_device = {-1, -1, -1};
int& device_of_thread(BackendKind kind) { return thread_device[static_cast<std::size_t>(kind)]; }

std::shared_ptr<Backend> open_for(const Bootstrap& bootstrap, BackendKind kind, int wanted) {
  int ordinal = wanted;
  if (ordinal < 0) ordinal = device_of_thread(kind);
  // On the host a device is only a number with default streams. Ranks that are threads of one
  // process get one device each, because one thread may drive several of them.
  if (ordinal < 0)
    ordinal = kind == BackendKind::host ? bootstrap.local_rank()
                                        : bootstrap.local_rank() % std::max(device_count(kind), 1);
  return open_backend(kind, ordinal);
}

/// The GPU of this target that each rank opens. Collective. `why_not`: why the ranks of a node
/// can't use theirs together, the same on all ranks; empty if they can.
OpenDevices open_gpus(Bootstrap& bootstrap, const Nodes& nodes, BackendKind kind, int device,
                      bool may_share, std::string& why_not) {
  OpenDevices devices;
  const auto can = gather_agreed(bootstrap, creating_communicator, [&] {
    devices = open_here(nodes, [&] { return open_for(bootstrap, kind, device); });
    why_not = why_not_together(nodes, devices, may_share);
    return static_cast<std::uint8_t>(why_not.empty());
  });
  if (const auto first = std::find(can.begin(), can.end(), 0); first != can.end())
    why_not =
        words_of(bootstrap, creating_communicator, static_cast<int>(first - can.begin()), why_not);
  return devices;
}

/// The GPUs that are asked for or, if no target is, those of the first one on which every rank has
/// its own, or one that it may share. No backend: the ranks run on the host.
OpenDevices choose_gpus(Bootstrap& bootstrap, const Nodes& nodes, int device,
                        const CommunicatorSettings& settings) {
  for (std::size_t i = 0; i < gpu_targets.size(); ++i) {
    const BackendKind kind = gpu_targets[i];
    if (settings.backend ? *settings.backend != kind : settings.fewest_devices[i] == 0) continue;
    std::string why_not;
    OpenDevices devices =
        open_gpus(bootstrap, nodes, kind, device, settings.share_devices, why_not);
    if (why_not.empty()) return devices;
    if (settings.backend)
      throw Error(
          ErrorCode::unsupported,
          fmt::format("{}: start at most one rank per GPU, or set PLAIT_BACKEND=host", why_not));
    if (bootstrap.rank() == 0)
      log::warn("{}, so all ranks run on the host target; start one rank per GPU", why_not);
  }
  return {};
}

/// Decides where symmetric memory lies, once the devices of all ranks are open; not for the host
/// target. It tries to map memory, because a driver's answer does not cover devices that only
/// another process sees.
void choose_memory(Bootstrap& all, const Nodes& nodes, const std::shared_ptr<Backend>& backend,
                   bool peer_access) {
  Bootstrap& bootstrap = nodes.group_here();
  if (all.size() == 1) return;
  if (!peer_access) {
    log::info("PLAIT_DISABLE_P2P=1: symmetric memory lies in host memory");
    return backend->use_host_memory();
  }
  int reach = 1;
  const auto trying = [&] {
    try {
      SymmetricHeap(backend, bootstrap)
          .allocate_range(1, "trying whether devices reach each other's memory");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_peer_access) throw;
      if (bootstrap.rank() == 0)
        log::warn("{}; symmetric memory lies in host memory, which is slower", error.what());
      reach = 0;
    }
  };
  if (!nodes.are_several()) {
    trying();
  } else {
    agree(all, "trying the memory of each node's devices", trying);
    // The weaker nodes decide for all, so that all ranks make equal choices.
    const auto every = gather(all, reach);
    reach = *std::min_element(every.begin(), every.end());
  }
  if (reach == 0) backend->use_host_memory();
}

std::shared_ptr<Backend> open_host(const Bootstrap& bootstrap, int device, HostDevices host) {
  if (host == HostDevices::one_per_rank && device >= bootstrap.local_size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host device {} does not exist: the host target has one for each rank "
                            "of the node, 0 to {}",
                            device, bootstrap.local_size() - 1));
  return open_for(bootstrap, BackendKind::host, device);
}

/// One rank's part of the topology.
struct OfRank {
  DeviceFacts facts;
  std::uint64_t process;
  bool commits_on_touch;
  std::size_t architecture, device;  // hashes of their names
  int node;
  double turns;  // that the ranks of the node take, as of `take_turns`
  std::int32_t pid;
  Birth birth;
};

OfRank this_rank(Backend& backend, const Nodes& nodes, const std::vector<OfDevice>& here) {
  std::vector<ProcessFacts> processes;
  for (const OfDevice& device : here) processes.push_back(device.facts);
  backend.meet(processes);
  const DeviceInfo& info = backend.info();
  return {.facts = info.facts,
          .process = process_number(),
          .commits_on_touch = backend.commits_on_touch(),
          .architecture = std::hash<std::string>{}(info.architecture),
          .device = std::hash<std::string>{}(info.id),
          .node = nodes.here(),
          .turns = host::turns_of(processes, info.facts.units * info.facts.block_threads),
          .pid = static_cast<std::int32_t>(getpid()),
          .birth = propose_birth()};
}

/// True if scratch memory may be allocated in the calls that need it, in which all ranks then meet.
/// If memory costs nothing until it is touched, nothing would be gained. If two ranks are in one
/// process, one thread may drive both in turn, and would deadlock.
bool may_grow(const std::vector<OfRank>& ranks) {
  std::vector<std::uint64_t> processes;
  for (const OfRank& rank : ranks) processes.push_back(rank.process);
  std::sort(processes.begin(), processes.end());
  return std::adjacent_find(processes.begin(), processes.end()) == processes.end() &&
         std::none_of(ranks.begin(), ranks.end(),
                      [](const OfRank& rank) { return rank.commits_on_touch; });
}

/// The most ranks that have the same device.
int most_on_one_device(const std::vector<OfRank>& ranks) {
  std::map<std::pair<int, std::size_t>, int> on;
  int most = 0;
  for (const OfRank& rank : ranks) most = std::max(most, ++on[{rank.node, rank.device}]);
  return most;
}

/// What the facts of all ranks come to; without what more exchanges find.
Topology topology_of(const DeviceInfo& info, const Nodes& nodes, const std::vector<OfRank>& ranks) {
  const auto weakest = [](const DeviceFacts& facts, const OfRank& rank) {
    return weaker(facts, rank.facts);
  };
  Topology topology{std::accumulate(ranks.begin(), ranks.end(), info.facts, weakest)};
  topology.backend = info.backend;
  topology.ranks = static_cast<int>(ranks.size());
  topology.nodes = nodes.count();
  for (int node = 0; node < nodes.count(); ++node) {
    const int size = static_cast<int>(nodes.ranks(node).size());
    topology.rails = node == 0 ? size : std::min(topology.rails, size);
    topology.node_ranks = std::max(topology.node_ranks, size);
  }
  const bool mixed = std::any_of(ranks.begin(), ranks.end(), [&](const OfRank& rank) {
    return rank.architecture != ranks[0].architecture;
  });
  topology.architecture = mixed ? "mixed" : info.architecture;
  double turns = 1;
  for (const OfRank& rank : ranks) turns = std::max(turns, rank.turns);
  if (topology.backend == BackendKind::host) take_turns(topology, turns);
  else share_bandwidth(topology, most_on_one_device(ranks));
  return topology;
}

/// Divides the memory that calls may use.
void limit_memory(Topology& topology, const CommunicatorSettings& settings, bool grows) {
  std::size_t shares = settings.scratch_bytes.value_or(default_scratch(topology));
  // With many ranks on several nodes, the default is what their channels need at least: addresses,
  // on the host, of which few are used.
  if (!settings.scratch_bytes && topology.nodes > 1)
    shares = std::max(shares, MemoryLayout(topology, AlgorithmList().all()).bytes());
  if (topology.nodes == 1 && grows && shares > base_scratch) topology.base_limit = base_scratch;
  // Messages then have memory that collectives don't share. It comes on top of the default, so the
  // shares of collectives stay as they are. So does the memory of collectives that end in a
  // function, which few programs call: 256 blocks for 2 ranks, 64 for 8.
  const bool has_more = !settings.scratch_bytes && topology.base_limit != 0;
  const std::size_t limit = has_more ? shares + topology.base_limit / 2 : shares;
  topology.rows_limit = has_more ? std::size_t{48} << 20 : shares / 16;
  std::vector<const Algorithm*> limited = AlgorithmList().all();
  if (has_more) std::erase(limited, Registry::instance().own_rows.get());
  topology.scratch_limit = scratch_within(limit, topology, limited, shares);
}

}  // namespace

void remember_device(const Backend& backend) {
  device_of_thread(backend.info().backend) = backend.info().ordinal;
}

Discovery open_devices(Bootstrap& bootstrap, const Nodes& nodes, const CommunicatorOptions& options,
                       const CommunicatorSettings& settings, const Backend* parent,
                       HostDevices host) {
  OpenDevices devices;
  const auto again = [&] { return parent->again(); };
  if (parent == nullptr) devices = choose_gpus(bootstrap, nodes, options.device, settings);
  else if (parent->info().backend != BackendKind::host)
    agree(bootstrap, creating_communicator, [&] { devices = open_here(nodes, again); });
  // If all ranks of the parent reach each other's memory, so do those of a part.
  const bool is_known =
      parent != nullptr && parent->info().facts.peer_access && settings.peer_access;
  if (devices.backend && !is_known)
    choose_memory(bootstrap, nodes, devices.backend, settings.peer_access);
  const auto ranks = gather_agreed(bootstrap, creating_communicator, [&] {
    if (!devices.backend && parent != nullptr) devices = open_here(nodes, again);
    else if (!devices.backend)
      devices = open_here(nodes, [&] { return open_host(bootstrap, options.device, host); });
    return this_rank(*devices.backend, nodes, devices.of_ranks);
  });
  Backend& backend = *devices.backend;
  Topology topology = topology_of(backend.info(), nodes, ranks);
  if (!nodes.are_several() && settings.ring.size() == ranks.size()) {
    topology.ring = settings.ring;
  } else if (!nodes.are_several() && topology.peer_access) {
    std::vector<std::string> ids;
    for (const OfDevice& device : devices.of_ranks) ids.emplace_back(device.id.data());
    topology.ring = find_ring(bootstrap, backend, ids);
  }
  limit_memory(topology, settings, may_grow(ranks));
  std::vector<std::int32_t> processes;
  std::vector<Birth> births;
  for (const OfRank& rank : ranks) {
    processes.push_back(rank.pid);
    births.push_back(rank.birth);
  }
  return {std::move(devices.backend), std::move(topology), settle_birth(births),
          std::move(processes)};
}

}  // namespace plait
