#include "core/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
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
                                 const Topology& topology, const std::vector<const Algorithm*>& algorithms) {
  const MemoryLayout layout(topology, algorithms);
  window_ = heap.allocate(layout.symmetric, "allocating scratch memory");
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

}  // namespace plait
