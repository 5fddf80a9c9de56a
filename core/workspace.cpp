#include "core/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/environment.hpp"
#include "plait/error.hpp"
#include "symm_mem/agreement.hpp"

namespace plait {
namespace {

constexpr std::size_t line = 256;  // no two algorithms share a cache line of any target
constexpr std::size_t word = sizeof(std::uint32_t);
std::size_t lines(std::size_t bytes) { return (bytes + line - 1) / line * line; }

}  // namespace

MemoryLayout::MemoryLayout(const Topology& topology, const std::vector<const Algorithm*>& algorithms) : local(line) {
  const auto place = [&](const Resources& need) {
    const Place at{symmetric, symmetric + lines(need.scratch_bytes), local};
    symmetric += lines(need.scratch_bytes) + lines(need.signals * word);
    local += lines(need.counters * word);
    return at;
  };
  std::map<std::string_view, std::pair<Resources, Place>> shared;
  std::map<std::pair<std::string_view, Collective>, std::pair<Resources, Place>> families;
  for (const Algorithm* algorithm : algorithms) {
    const Resources own = algorithm->resources(topology);
    const std::pair family(algorithm->family(), algorithm->collective());
    if (!families.contains(family)) families.emplace(family, std::pair(own, place(own)));
    if (families.at(family).first != own)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} asks for another amount of memory than an algorithm of its family, {}", algorithm->name(), family.first));
    places.emplace_back(families.at(family).second, Place{});
    const SharedResources need = algorithm->shared(topology);
    if (need.name.empty()) continue;
    if (!shared.contains(need.name)) shared.emplace(need.name, std::pair(need.resources, place(need.resources)));
    const auto& [resources, place_of_all] = shared.at(need.name);
    if (resources != need.resources)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} asks for another amount of the shared memory \"{}\" than an algorithm before it", algorithm->name(), need.name));
    places.back().second = place_of_all;
  }
}

std::size_t scratch_within(std::size_t limit, Topology topology, const std::vector<const Algorithm*>& algorithms) {
  // Shares are fractions, signals and counters come on top. With shares of nothing algorithms ask for the least that they can work with, so
  // a limit that is enough stays so when it grows.
  const std::size_t step = limit / 64 + 1;
  for (topology.scratch_limit = limit;; topology.scratch_limit -= std::min(topology.scratch_limit, step)) {
    const std::size_t bytes = MemoryLayout(topology, algorithms).bytes();
    if (bytes <= limit) return topology.scratch_limit;
    if (topology.scratch_limit == 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("PLAIT_SCRATCH_BYTES={}: the algorithms need at least {} bytes for {} ranks",
                                                           format_bytes(limit), bytes, topology.ranks));
  }
}

AlgorithmMemory::AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, SymmetricHeap& heap,
                                 const Topology& topology, const std::vector<const Algorithm*>& algorithms)
    : backend_(backend) {
  constexpr const char* what = "allocating scratch memory";
  const MemoryLayout layout(topology, algorithms);
  local_bytes_ = layout.local;
  window_ = heap.allocate(layout.symmetric, what, Commit::on_touch);
  const bool on_touch = window_->range().commits_on_touch();
  for (const Algorithm* algorithm : algorithms) {
    constexpr unsigned any = std::numeric_limits<unsigned>::max();
    const auto bytes_of = [](const Resources& resources) { return resources.scratch_bytes + resources.signals * word; };
    const unsigned most = algorithm->fitted({.blocks = any, .threads = 1}, {}, topology).blocks;
    room_for_.push_back({.blocks = on_touch ? 0 : any,
                         .most = most == any ? 1 : most,  // without a limit, any block may touch all of it
                         .bytes = bytes_of(algorithm->resources(topology)) + bytes_of(algorithm->shared(topology).resources)});
    names_.emplace_back(algorithm->name());
  }
  // Equal on all ranks: they have one machine, and what accounts for its memory is the machine's.
  if (on_touch) {
    std::array<std::uint64_t, 12> mine{};
    mine.fill(std::numeric_limits<std::uint64_t>::max());
    std::size_t count = 0;
    for (const MemoryLimit& limit : backend->memory_limits())
      if (count < mine.size()) mine[count++] = limit.id;
    for (const auto& ids : on_behalf_of(bootstrap, what, [&] { return bootstrap.all_gather(mine); }))
      for (const std::uint64_t id : ids) ++ranks_under_[id];
  }
  agree(bootstrap, "allocating counters", [&] {
    counters_ = {static_cast<std::uint32_t*>(backend->allocate(layout.local)), Deallocate{backend}};
    backend->zero(counters_.get(), layout.local);
  });
  const WindowView view = window_->view();
  const auto grant = [&](const MemoryLayout::Place& at) {
    return Grant{.scratch = view.at(at.scratch), .signals = view.at(at.signals), .counters = counters_.get() + at.counters / word};
  };
  for (const auto& [own, common] : layout.places) grants_.push_back({.own = grant(own), .shared = grant(common)});
}

/// A rank looks for itself, but for as much on every rank with the same limit: they all make this launch. What is found may be gone when
/// the pages are touched, as with any memory of the system.
void AlgorithmMemory::make_room(std::size_t algorithm, unsigned blocks) {
  Room& room = room_for_[algorithm];
  const unsigned part = std::min(blocks, room.most);
  const auto bytes = static_cast<std::size_t>(std::ceil(static_cast<double>(room.bytes) * part / room.most));
  for (const MemoryLimit& limit : backend_->memory_limits()) {
    const auto sharing = ranks_under_.find(limit.id);
    const std::size_t ranks = sharing == ranks_under_.end() ? 1 : sharing->second;
    if (bytes > limit.left / ranks)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("scratch memory of {} in {} blocks: up to {} bytes on each of {} ranks, and {} has {} bytes left",
                              names_[algorithm], blocks, bytes, ranks, limit.name.data(), limit.left));
  }
  room.blocks = blocks;
}

std::size_t AlgorithmMemory::committed() const {
  return local_bytes_ + (window_->range().commits_on_touch() ? window_->committed() : window_->bytes());
}

}  // namespace plait
