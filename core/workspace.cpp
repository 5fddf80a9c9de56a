#include "core/workspace.hpp"

#include <fmt/format.h>

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
  std::vector<Offsets> offsets;
  for (const Algorithm* algorithm : algorithms) {
    const Resources need = algorithm->resources(topology);
    offsets.push_back({symmetric, symmetric + lines(need.scratch_bytes), local});
    symmetric += lines(need.scratch_bytes) + lines(need.signals * word);
    local += lines(need.counters * word);
  }
  bytes_ = symmetric + local;
  if (bytes_ > topology.scratch_limit)
    throw Error(ErrorCode::invalid_argument, fmt::format("PLAIT_SCRATCH_BYTES={}: the algorithms need at least {} bytes for {} ranks",
                                                         format_bytes(topology.scratch_limit), bytes_, topology.ranks));
  window_ = heap.allocate(symmetric, "allocating scratch memory");
  agree(bootstrap, "allocating counters", [&] {
    counters_ = {static_cast<std::uint32_t*>(backend->allocate(local)), Deallocate{backend}};
    backend->fill(counters_.get(), 0, local, nullptr);
    backend->synchronize(nullptr);
  });
  const WindowView view = window_->view();
  for (const Offsets& offset : offsets)
    grants_.push_back(
        {.scratch = view.at(offset.scratch), .signals = view.at(offset.signals), .counters = counters_.get() + offset.counters / word});
}

}  // namespace plait
