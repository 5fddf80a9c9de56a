#include "core/workspace.hpp"

#include <fmt/format.h>

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

AlgorithmMemory::AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, SymmetricHeap& heap,
                                 const Topology& topology, const std::vector<const Algorithm*>& algorithms) {
  std::size_t symmetric = 0, local = line;
  struct Offsets {
    std::size_t scratch, signals, counters;
  };
  const auto place = [&](const Resources& need) {
    const Offsets offsets{symmetric, symmetric + lines(need.scratch_bytes), local};
    symmetric += lines(need.scratch_bytes) + lines(need.signals * word);
    local += lines(need.counters * word);
    return offsets;
  };
  std::vector<std::pair<Offsets, Offsets>> offsets;  // own, shared
  std::map<std::string_view, std::pair<Resources, Offsets>> shared;
  std::map<std::pair<std::string_view, Collective>, std::pair<Resources, Offsets>> families;
  for (const Algorithm* algorithm : algorithms) {
    const Resources own = algorithm->resources(topology);
    const std::pair family(algorithm->family(), algorithm->collective());
    if (!families.contains(family)) families.emplace(family, std::pair(own, place(own)));
    if (families.at(family).first != own)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} asks for another amount of memory than an algorithm of its family, {}", algorithm->name(), family.first));
    offsets.emplace_back(families.at(family).second, Offsets{});
    const SharedResources need = algorithm->shared(topology);
    if (need.name.empty()) continue;
    if (!shared.contains(need.name)) shared.emplace(need.name, std::pair(need.resources, place(need.resources)));
    const auto& [resources, place_of_all] = shared.at(need.name);
    if (resources != need.resources)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{} asks for another amount of the shared memory \"{}\" than an algorithm before it", algorithm->name(), need.name));
    offsets.back().second = place_of_all;
  }
  bytes_ = symmetric + local;
  if (bytes_ > topology.scratch_limit)
    throw Error(ErrorCode::invalid_argument, fmt::format("PLAIT_SCRATCH_BYTES={}: the algorithms need at least {} bytes for {} ranks",
                                                         format_bytes(topology.scratch_limit), bytes_, topology.ranks));
  window_ = heap.allocate(symmetric, "allocating scratch memory");
  agree(bootstrap, "allocating counters", [&] {
    counters_ = {static_cast<std::uint32_t*>(backend->allocate(local)), Deallocate{backend}};
    backend->zero(counters_.get(), local);
  });
  const WindowView view = window_->view();
  const auto grant = [&](const Offsets& at) {
    return Grant{.scratch = view.at(at.scratch), .signals = view.at(at.signals), .counters = counters_.get() + at.counters / word};
  };
  for (const auto& [own, common] : offsets) grants_.push_back({.own = grant(own), .shared = grant(common)});
}

}  // namespace plait
