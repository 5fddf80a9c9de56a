#include "communicator/resources/algorithm_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

constexpr std::size_t line = 256;  // so no two algorithms share a cache line on any target
constexpr std::size_t word = sizeof(std::uint32_t);
constexpr unsigned any_blocks = std::numeric_limits<unsigned>::max();
std::size_t lines(std::size_t bytes) { return (bytes + line - 1) / line * line; }

/// The memory of one family of algorithms, or of one shared name.
struct Share {
  Resources need;
  std::string_view first;  // the first algorithm that asks for it
  bool for_messages = false;
  MemoryLayout::Place at{};
  std::size_t bytes() const { return lines(need.scratch_bytes) + lines(need.signals * word); }
};

/// The shares that algorithms ask for. The first is for algorithms that need none.
class Shares {
 public:
  struct Needs {
    std::size_t own, shared = 0, reserved = 0;  // indices of shares
  };

  Shares(const Topology& topology, const std::vector<const Algorithm*>& algorithms)
      : topology_(topology) {
    for (const Algorithm* algorithm : algorithms) of_algorithms.push_back(needs_of(*algorithm));
  }

  std::vector<Share> all = std::vector<Share>(1);
  std::vector<Needs> of_algorithms;

 private:
  Needs needs_of(const Algorithm& algorithm) {
    const bool serves = topology_.nodes == 1 || algorithm.spans_nodes(),
               reserves = serves && topology_.base_limit != 0;
    const Needs needs{
        .own = own(algorithm, serves ? algorithm.resources(topology_) : Resources{}),
        .shared = serves ? shared(algorithm, algorithm.shared(topology_)) : 0,
        .reserved = reserves ? shared(algorithm, algorithm.shared_once_reserved(topology_)) : 0};
    if (algorithm.collective() == Collective::send_recv)
      all[needs.own].for_messages = all[needs.shared].for_messages = true;
    return needs;
  }
  std::size_t own(const Algorithm& algorithm, const Resources& need) {
    const std::pair<std::string_view, Collective> family(algorithm.family(),
                                                         algorithm.collective());
    const std::size_t share = find(families_, family, need, algorithm);
    if (all[share].need != need)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} asks for another amount of memory than an algorithm of its family, {}",
                      algorithm.name(), all[share].first));
    return share;
  }
  std::size_t shared(const Algorithm& algorithm, const SharedResources& need) {
    if (need.name.empty()) return 0;
    const std::size_t share = find(names_, need.name, need.resources, algorithm);
    if (all[share].need != need.resources)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format(
              "{} asks for another amount of the shared memory \"{}\" than an algorithm before it",
              algorithm.name(), need.name));
    return share;
  }
  /// The share of this key; a new one for the algorithm if there is none.
  template <class Key>
  std::size_t find(std::map<Key, std::size_t>& known, const Key& key, const Resources& need,
                   const Algorithm& algorithm) {
    const auto [found, is_new] = known.try_emplace(key, all.size());
    if (is_new) all.push_back({.need = need, .first = algorithm.name()});
    return found->second;
  }

  const Topology& topology_;
  std::map<std::string_view, std::size_t> names_;
  std::map<std::pair<std::string_view, Collective>, std::size_t> families_;
};

}  // namespace

MemoryLayout::MemoryLayout(const Topology& topology,
                           const std::vector<const Algorithm*>& algorithms)
    : local(line) {
  const bool grows = topology.base_limit != 0;
  Shares asked(topology, algorithms);
  std::vector<Share>& shares = asked.all;
  const auto place = [&](Share& share, std::size_t window) {
    share.at = {window, windows[window], windows[window] + lines(share.need.scratch_bytes), local};
    windows[window] += share.bytes();
    local += lines(share.need.counters * word);
  };
  std::vector<std::size_t> order(shares.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{1});
  if (grows)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(!shares[a].for_messages, shares[a].bytes()) <
             std::pair(!shares[b].for_messages, shares[b].bytes());
    });
  for (const std::size_t i : order) {
    const bool in_base = !grows || shares[i].for_messages ||
                         windows.front() + shares[i].bytes() <= topology.base_limit;
    if (!in_base) windows.push_back(0);
    place(shares[i], in_base ? 0 : windows.size() - 1);
  }
  const auto place_of = [&](std::size_t share) {
    return share != 0 ? std::optional(shares[share].at) : std::nullopt;
  };
  for (const Shares::Needs& needs : asked.of_algorithms)
    places.push_back({.own = shares[needs.own].at,
                      .shared = place_of(needs.shared),
                      .reserved = place_of(needs.reserved)});
}

std::size_t MemoryLayout::bytes() const {
  return std::accumulate(windows.begin(), windows.end(), local);
}

std::size_t scratch_within(std::size_t limit, Topology topology,
                           const std::vector<const Algorithm*>& algorithms,
                           std::optional<std::size_t> wished) {
  // Scratch memory is a fraction of `scratch_limit`; signals and counters come on top. With a
  // `scratch_limit` of 0, algorithms ask for the least that they can work with, so a `limit` that
  // suffices still suffices when it grows.
  const std::size_t step = limit / 64 + 1;
  for (topology.scratch_limit = wished.value_or(limit);;
       topology.scratch_limit -= std::min(topology.scratch_limit, step)) {
    const std::size_t bytes = MemoryLayout(topology, algorithms).bytes();
    if (bytes <= limit) return topology.scratch_limit;
    if (topology.scratch_limit == 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("PLAIT_SCRATCH_BYTES={}: the algorithms need at least {} bytes for {} ranks",
                      format_bytes(limit), bytes, topology.ranks));
  }
}

namespace {

/// A window in host memory of the ranks of this node, where there are several. Collective over
/// these ranks.
std::shared_ptr<Window> in_host_memory(const std::shared_ptr<Backend>& backend,
                                       Bootstrap& bootstrap, const Nodes& nodes, std::size_t bytes,
                                       std::uint64_t token, const char* what) {
  std::shared_ptr<Backend> own = backend;
  if (backend->info().backend != BackendKind::host)
    agree_here(nodes, what, [&] {
      own = backend->again();
      own->use_host_memory();
    });
  auto range =
      SymmetricHeap(own, bootstrap, &nodes).allocate_here(bytes, token, what, Commit::on_touch);
  return std::make_shared<Window>(own, std::move(range), bootstrap.rank(), bytes, 0);
}

}  // namespace

AlgorithmMemory::AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap,
                                 const Nodes& nodes, std::uint64_t token, Bootstrap& in_calls,
                                 SymmetricHeap& heap, const Topology& topology,
                                 const std::vector<const Algorithm*>& algorithms)
    : backend_(backend),
      in_calls_(in_calls),
      layout_(topology, algorithms),
      windows_(layout_.windows.size()),
      grants_(algorithms.size()) {
  constexpr const char* what = "allocating scratch memory";
  windows_.front() =
      nodes.are_several()
          ? in_host_memory(backend, bootstrap, nodes, layout_.windows.front(), token, what)
          : heap.allocate(layout_.windows.front(), what, Commit::on_touch);
  const bool on_touch = windows_.front()->range().commits_on_touch();
  for (const Algorithm* algorithm : algorithms) {
    const auto bytes_of = [](const Resources& resources) {
      return resources.scratch_bytes + resources.signals * word;
    };
    const unsigned most =
        algorithm->fitted({.blocks = any_blocks, .threads = 1}, {}, topology).blocks;
    room_for_.push_back(
        {.blocks = 0,
         .most = most == any_blocks ? 1 : most,  // without a limit, one block may touch all of it
         .bytes = bytes_of(algorithm->resources(topology)) +
                  bytes_of(algorithm->shared(topology).resources)});
    names_.emplace_back(algorithm->name());
  }
  // `on_touch` is equal on all ranks, because their target is. The system of each node accounts for
  // its ranks' memory.
  if (on_touch) {
    std::array<std::uint64_t, 12> mine{};
    mine.fill(std::numeric_limits<std::uint64_t>::max());
    std::size_t count = 0;
    for (const MemoryLimit& limit : backend->memory_limits())
      if (count < mine.size()) mine[count++] = limit.id;
    Bootstrap& here = nodes.group_here();
    for (const auto& of_rank : on_behalf_of(here, what, [&] { return here.all_gather(mine); }))
      for (const std::uint64_t id : of_rank) ++ranks_under_[id];
  }
  agree_here(nodes, "allocating counters", [&] {
    counters_ = allocate_zeroed<std::uint32_t>(backend, layout_.local / word);
    std::vector<std::int32_t> in_order(static_cast<std::size_t>(bootstrap.size()));
    std::iota(in_order.begin(), in_order.end(), 0);
    if (!nodes.are_several()) ranks_in_order_ = on_device(backend, in_order);
    else make_stand_ins(nodes, channel_memory(topology), bootstrap.rank(), algorithms);
  });
  grant();
}

/// Gives the channels to ranks of other nodes memory of this rank's, and kernels the way there.
void AlgorithmMemory::make_stand_ins(const Nodes& nodes, const ChannelMemory& channels, int rank,
                                     const std::vector<const Algorithm*>& algorithms) {
  const auto user = std::find_if(algorithms.begin(), algorithms.end(),
                                 [](const Algorithm* one) { return one->spans_nodes(); });
  channels_ = layout_.places[static_cast<std::size_t>(user - algorithms.begin())].shared;
  const auto stand_ins = [&](std::size_t offset, std::size_t bytes) {
    const std::size_t needed = StandIns::needed(bytes, channels, nodes);
    return StandIns(backend_, windows_.front()->range(), offset, bytes, channels, nodes, rank,
                    allocate_pinned<std::byte>(backend_, needed));
  };
  between_nodes_ = ChannelStandIns{stand_ins(channels_->scratch, channels.bytes),
                                   stand_ins(channels_->signals, sizeof(ChannelSignals))};
}

/// Hands out the memory that is allocated so far.
void AlgorithmMemory::grant() {
  ++granted_;
  const auto granted = [&](const MemoryLayout::Place& at) {
    if (windows_[at.window] == nullptr) return Grant{};
    const WindowView view = windows_[at.window]->view();
    return Grant{.scratch = view.at(at.scratch),
                 .signals = view.at(at.signals),
                 .counters = counters_.get() + at.counters / word};
  };
  const bool on_touch = windows_.front()->range().commits_on_touch();
  for (std::size_t i = 0; i < grants_.size(); ++i) {
    const MemoryLayout::Places& at = layout_.places[i];
    grants_[i] = {.own = granted(at.own), .shared = {}, .reserved = {}};
    if (at.shared) grants_[i].shared = granted(*at.shared);
    if (between_nodes_ && at.shared && at.shared->scratch == channels_->scratch) {
      grants_[i].shared->scratch = between_nodes_->slots.view();
      grants_[i].shared->signals = between_nodes_->words.view();
    }
    if (is_reserved_ && at.reserved) grants_[i].reserved = granted(*at.reserved);
    if (!on_touch && has_all_of(i)) room_for_[i].blocks = any_blocks;
  }
}

bool AlgorithmMemory::has_all_of(std::size_t algorithm) const noexcept {
  const MemoryLayout::Places& at = layout_.places[algorithm];
  return windows_[at.own.window] != nullptr &&
         (!at.shared || windows_[at.shared->window] != nullptr);
}

/// The window is no allocation of the user's, so it gets no number, and calls don't look for their
/// buffers in it.
void AlgorithmMemory::allocate(std::size_t window, Bootstrap& bootstrap, const char* what) {
  if (windows_[window] != nullptr) return;
  const std::size_t bytes = layout_.windows[window];
  auto range = SymmetricHeap(backend_, bootstrap).allocate_range(bytes, what);
  windows_[window] =
      std::make_shared<Window>(backend_, std::move(range), bootstrap.rank(), bytes, 0);
  grant();
}

void AlgorithmMemory::reserve(Bootstrap& bootstrap, const char* what) {
  for (std::size_t window = 0; window < windows_.size(); ++window)
    allocate(window, bootstrap, what);
  is_reserved_ = true;
  grant();
}

void AlgorithmMemory::make_room(std::size_t algorithm, unsigned blocks) {
  if (has_all_of(algorithm)) return find_room(algorithm, blocks);
  const MemoryLayout::Places& at = layout_.places[algorithm];
  for (const std::size_t window : {at.own.window, at.shared.value_or(at.own).window}) {
    const std::string what =
        fmt::format("scratch memory of {}, {} bytes", names_[algorithm], layout_.windows[window]);
    allocate(window, in_calls_, what.c_str());
  }
}

/// Each rank checks alone, but for room for all ranks under the same limit, because all of them
/// make this launch. The room may be gone when the pages are touched, as with any memory of the
/// system.
void AlgorithmMemory::find_room(std::size_t algorithm, unsigned blocks) {
  Room& room = room_for_[algorithm];
  const unsigned touched = std::min(blocks, room.most);
  const auto bytes =
      static_cast<std::size_t>(std::ceil(static_cast<double>(room.bytes) * touched / room.most));
  for (const MemoryLimit& limit : backend_->memory_limits()) {
    const auto sharing = ranks_under_.find(limit.id);
    const std::size_t ranks = sharing == ranks_under_.end() ? 1 : sharing->second;
    if (bytes > limit.left / ranks)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("scratch memory of {} in {} blocks: rank {}: up to {} bytes on each "
                              "of {} ranks, and {} has {} bytes left",
                              names_[algorithm], blocks, in_calls_.rank(), bytes, ranks,
                              limit.name.data(), limit.left));
  }
  room.blocks = blocks;
}

std::size_t AlgorithmMemory::committed() const {
  std::size_t bytes = layout_.local;
  for (const auto& window : windows_)
    if (window != nullptr)
      bytes += window->range().commits_on_touch() ? window->committed() : window->bytes();
  return bytes;
}

}  // namespace plait
