#include "communicator/resources/resources.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"

namespace plait {
namespace {

/// Whether a kernel has started and not ended, as far as is known.
bool runs(const std::shared_ptr<BlockLog>& log) {
  if (log == nullptr) return false;
  try {
    const Progress progress = log->read();
    return progress.started != progress.completed;
  } catch (const Error&) {  // a lost device
    return false;
  }
}

Selector make_selector(const CommunicatorResources& own, const Topology& topology) {
  const CommunicatorSettings& settings = own.settings;
  return {topology, own.algorithms.choices(), own.rank(),
          settings.tuning ? tuning_rules(*settings.tuning, topology) : RuleList(), settings.order};
}

}  // namespace

std::optional<std::string> name_part(const std::vector<int>& parent_ranks) {
  std::vector<int> own(parent_ranks.size());
  std::iota(own.begin(), own.end(), 0);
  if (own == parent_ranks) return std::nullopt;
  return fmt::format("the part of ranks {} (its ranks {})", fmt::join(parent_ranks, ", "),
                     fmt::join(own, ", "));
}

CommunicatorResources::CommunicatorResources(std::unique_ptr<Bootstrap> b,
                                             const CommunicatorOptions& options,
                                             const CommunicatorResources* parent, HostDevices host)
    : bootstrap(std::move(b)),
      creating(std::in_place, *bootstrap, "creating a communicator"),
      made_with(options),
      settings(agree_on_settings(*bootstrap, options, parent != nullptr, places)),
      nodes(*bootstrap, places),
      found(open_devices(*bootstrap, nodes, options, settings,
                         parent != nullptr ? parent->backend.get() : nullptr, host)),
      backend(std::move(found.backend)),
      counted(*backend),
      heap(backend, *bootstrap, nodes.are_several() ? &nodes : nullptr),
      birth(found.birth),
      selector(make_selector(*this, found.topology)) {
  places = std::vector<Nodes::Place>();
  const auto share_memory = [&] {  // of the ranks of this node
    board = std::make_shared<Board>(*bootstrap, nodes, birth.token_of(0), found.processes);
    in_calls.emplace(board->desks(), rank());
    agree_here(nodes, "loading kernels", [&] { backend->load_kernels(); });
    memory =
        std::make_unique<AlgorithmMemory>(backend, *bootstrap, nodes, birth.token_of(1), *in_calls,
                                          heap, selector.topology(), algorithms.all());
    found = {};
  };
  if (!nodes.are_several()) {
    share_memory();
    return;
  }
  auto wishes = gather_agreed(*bootstrap, connecting_nodes, [&] {
    share_memory();
    return NetWish::own();
  });
  auto channels = std::make_unique<NodeChannels>(backend, *bootstrap, nodes, selector.topology(),
                                                 std::move(wishes), settings.network,
                                                 memory->channels(), heap, birth.token_of(2));
  selector.set_network(channels->network());
  other_nodes = std::make_unique<OtherNodes>(std::move(channels), nodes, *board, rank());
}

void CommunicatorResources::make_local(const CommunicatorResources* parent) {
  const Topology& topology = selector.topology();
  watchdog = std::make_shared<Watchdog>(
      backend, board, algorithms.names(), memory->claimed(), settings.timeout, rank(),
      topology.backend == BackendKind::host ? 1 : topology.ranks_per_device, nodes.are_several());
  start_log(parent);
  watchdog->introduce(parent == nullptr
                          ? "the one of all ranks"
                          : name_part(bootstrap->parent_ranks()).value_or("a duplicate"),
                      [kept = std::weak_ptr(log)] { return runs(kept.lock()); });
  order.emplace(backend);
  if (other_nodes) other_nodes->start(*watchdog);
}

void CommunicatorResources::start_log(const CommunicatorResources* parent) {
  std::shared_ptr<TraceFile> file;
  if (parent != nullptr && parent->trace) file = parent->trace->file();
  else if (settings.trace) file = TraceFile::open(*settings.trace, rank(), size());
  if (settings.progress) log = std::make_shared<BlockLog>(backend, file != nullptr);
  if (!file) return;
  const DeviceInfo& device = backend->info();
  trace = std::make_unique<Trace>(std::move(file), *log,
                                  fmt::format("rank {} of {}, {} device {}", rank(), size(),
                                              name_of(device.backend), device.ordinal),
                                  algorithms.names(), device.backend == BackendKind::host);
}

void CommunicatorResources::refuse_stream(std::string_view what, NativeStream stream) const {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "{}: rank {}: {} is no stream: it has been destroyed, or is the stream of another target",
          what, rank(), stream));
}

}  // namespace plait
