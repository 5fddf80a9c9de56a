#include "communicator/resources/setup.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
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
#include "plait/version.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

template <class T>
std::vector<T> gather(Bootstrap& bootstrap, const T& mine) {
  return on_behalf_of(bootstrap, creating_communicator, [&] { return bootstrap.all_gather(mine); });
}

/// A rank's device, and the process that uses it.
struct Place {
  int node;
  GatheredText id;  // unique on the node
  std::uint64_t process;
};

/// The two lowest ranks that name the same device, if any. `of_one_process`: only if they are in
/// one process.
std::optional<std::pair<std::size_t, std::size_t>> sharing(const std::vector<Place>& places,
                                                           bool of_one_process) {
  for (std::size_t b = 1; b < places.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (places[a].node == places[b].node && places[a].id == places[b].id &&
          (!of_one_process || places[a].process == places[b].process))
        return std::pair{a, b};
  return std::nullopt;
}

/// The reason why the ranks can't use these devices together; empty if they can. Threads may not
/// share a GPU even where processes may: threads have the default stream in common, and kernels in
/// one stream run one after another, so kernels that wait for each other would never meet.
std::string why_not_together(Bootstrap& bootstrap, const Backend& backend, bool may_share) {
  const std::string& id = backend.info().id;
  const std::string_view kind = name_of(backend.info().backend);
  const auto places = gather(bootstrap, Place{.node = bootstrap.node(),
                                              .id = as_text<GatheredText>(id),
                                              .process = process_number()});
  if (const auto shared = sharing(places, may_share))
    return fmt::format("ranks {} and {} {}share {} device {}", shared->first, shared->second,
                       may_share ? "are threads of one process and " : "", kind, id);
  if (const auto shared = sharing(places, false); shared && bootstrap.rank() == 0)
    log::warn(
        "ranks {} and {} share one {} device, as PLAIT_SHARE_DEVICES=1 permits: they take turns, "
        "which is slow, unless a service such as NVIDIA's MPS joins their work (tools/mps-run.sh)",
        shared->first, shared->second, kind);
  return {};
}

/// The device of this thread's last communicator, per target; -1: none. So a communicator over a
/// part of the ranks gets the device that the rank already has, not that of its new number.
thread_local std::array<int, 3> thread_device = {-1, -1, -1};
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

/// The first GPU target on which every rank has its own device, or one that it may share. Null if
/// there is none.
std::shared_ptr<Backend> find_gpu(Bootstrap& bootstrap, int device, bool may_share) {
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip}) {
    const int mine = device_count(kind);
    const auto counts = gather(bootstrap, mine);
    if (*std::min_element(counts.begin(), counts.end()) == 0) continue;
    std::shared_ptr<Backend> backend;
    agree(bootstrap, "opening the devices", [&] { backend = open_for(bootstrap, kind, device); });
    const std::string why_not = why_not_together(bootstrap, *backend, may_share);
    if (why_not.empty()) return backend;
    if (bootstrap.rank() == 0)
      log::warn("{}, so all ranks run on the host target; start one rank per GPU", why_not);
  }
  return nullptr;
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

std::shared_ptr<Backend> open_chosen(Bootstrap& bootstrap, const CommunicatorOptions& options,
                                     bool may_share, HostDevices host) {
  std::optional<BackendKind> wanted = options.backend;
  require_equal_texts<1>(bootstrap, [&] {
    if (wanted && static_cast<std::size_t>(*wanted) >= thread_device.size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is no backend: they are 0 to {}", static_cast<int>(*wanted),
                              thread_device.size() - 1));
    if (options.device < -1)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is no device: they are numbered from 0, and -1 is the default",
                              options.device));
    if (const auto name = environment("PLAIT_BACKEND"); name && !wanted)
      wanted = parse_backend(*name);
    return std::array{
        Compared{"backend", std::string(wanted ? name_of(*wanted) : "no preference")}};
  });
  if (!wanted) {
    if (auto gpu = find_gpu(bootstrap, options.device, may_share)) return gpu;
    wanted = BackendKind::host;
  }
  std::shared_ptr<Backend> backend;
  agree(bootstrap, "opening the devices", [&] {
    if (*wanted == BackendKind::host && host == HostDevices::one_per_rank &&
        options.device >= bootstrap.local_size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("host device {} does not exist: the host target has one for each "
                              "rank of the node, 0 to {}",
                              options.device, bootstrap.local_size() - 1));
    backend = open_for(bootstrap, *wanted, options.device);
  });
  if (*wanted == BackendKind::host) return backend;
  if (const std::string why_not = why_not_together(bootstrap, *backend, may_share);
      !why_not.empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: start at most one rank per GPU, or set PLAIT_BACKEND=host", why_not));
  return backend;
}

/// One rank's part of the topology.
struct OfRank {
  DeviceFacts facts;
  std::uint64_t process;
  bool commits_on_touch;
  GatheredText architecture, device;
  int node;
};

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
  std::map<std::pair<int, GatheredText>, int> on;
  int most = 0;
  for (const OfRank& rank : ranks) most = std::max(most, ++on[{rank.node, rank.device}]);
  return most;
}

}  // namespace

void remember_device(const Backend& backend) {
  device_of_thread(backend.info().backend) = backend.info().ordinal;
}

std::shared_ptr<Backend> open_device(Bootstrap& bootstrap, const Nodes& nodes,
                                     const CommunicatorOptions& options,
                                     const CommunicatorSettings& settings, const Backend* parent,
                                     HostDevices host) {
  std::shared_ptr<Backend> backend;
  if (parent == nullptr) backend = open_chosen(bootstrap, options, settings.share_devices, host);
  else agree(bootstrap, "opening the devices", [&] { backend = parent->again(); });
  // If all ranks of the parent reach each other's memory, so do those of a part.
  const bool is_known =
      parent != nullptr && parent->info().facts.peer_access && settings.peer_access;
  if (backend->info().backend != BackendKind::host && !is_known)
    choose_memory(bootstrap, nodes, backend, settings.peer_access);
  return backend;
}

Topology discover_topology(Bootstrap& bootstrap, const Nodes& nodes, Backend& backend,
                           const CommunicatorSettings& settings) {
  const auto processes = gather(bootstrap, backend.process_facts());
  const auto of_ranks = [&](const std::vector<int>& some) {
    std::vector<ProcessFacts> those;
    for (const int rank : some) those.push_back(processes[static_cast<std::size_t>(rank)]);
    return those;
  };
  backend.meet(of_ranks(nodes.ranks_here()));
  const DeviceInfo& info = backend.info();
  const auto ranks =
      gather(bootstrap, OfRank{info.facts, process_number(), backend.commits_on_touch(),
                               as_text<GatheredText>(info.architecture),
                               as_text<GatheredText>(info.id), nodes.here()});
  const auto weakest = [](const DeviceFacts& facts, const OfRank& rank) {
    return weaker(facts, rank.facts);
  };
  Topology topology{std::accumulate(ranks.begin(), ranks.end(), info.facts, weakest)};
  topology.backend = info.backend;
  topology.ranks = bootstrap.size();
  topology.nodes = nodes.count();
  double turns = 1;
  for (int node = 0; node < nodes.count(); ++node) {
    const int size = static_cast<int>(nodes.ranks(node).size());
    topology.rails = node == 0 ? size : std::min(topology.rails, size);
    topology.node_ranks = std::max(topology.node_ranks, size);
    turns = std::max(turns, host::turns_of(of_ranks(nodes.ranks(node)),
                                           topology.units * topology.block_threads));
  }
  const bool mixed = std::any_of(ranks.begin(), ranks.end(), [&](const OfRank& rank) {
    return rank.architecture != ranks[0].architecture;
  });
  topology.architecture = mixed ? "mixed" : info.architecture;
  if (topology.backend == BackendKind::host) take_turns(topology, turns);
  else share_bandwidth(topology, most_on_one_device(ranks));
  if (!nodes.are_several() && settings.ring.size() == ranks.size()) {
    topology.ring = settings.ring;
  } else if (!nodes.are_several() && topology.peer_access) {
    std::vector<std::string> ids;
    for (const OfRank& rank : ranks) ids.emplace_back(rank.device.data());
    topology.ring = find_ring(bootstrap, backend, ids);
  }
  const std::size_t shares = settings.scratch_bytes.value_or(default_scratch(topology));
  if (!nodes.are_several() && may_grow(ranks) && shares > base_scratch)
    topology.base_limit = base_scratch;
  // Messages then have memory that collectives don't share. It comes on top of the default, so the
  // shares of collectives stay as they are. So does the memory of collectives that end in a
  // function, which few programs call: 256 blocks for 2 ranks, 64 for 8.
  const bool has_more = !settings.scratch_bytes && topology.base_limit != 0;
  const std::size_t limit = has_more ? shares + topology.base_limit / 2 : shares;
  topology.rows_limit = has_more ? std::size_t{48} << 20 : shares / 16;
  std::vector<const Algorithm*> limited = AlgorithmList().all();
  if (has_more) std::erase(limited, Registry::instance().own_rows.get());
  topology.scratch_limit = scratch_within(limit, topology, limited, shares);
  return topology;
}

}  // namespace plait
