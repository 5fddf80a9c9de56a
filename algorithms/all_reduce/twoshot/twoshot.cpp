#include "algorithms/all_reduce/twoshot/kernel.hpp"
#include "algorithms/blocks/flags/sliced_algorithm.hpp"

namespace plait::twoshot {
namespace {

class Twoshot final : public SlicedAlgorithm {
 public:
  Twoshot() : SlicedAlgorithm(256) {}
  StaticName name() const override { return "twoshot"; }
  std::string_view summary() const override {
    return "pull and reduce the own slice, push the result: symmetric memory, no scratch, two "
           "barriers";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    // With more than two ranks, many blocks that pull at once collide in the switch: 4 H200, 256
    // MB, 318 GB/s with 24 blocks, 297 with 132, 279 with 256; 2 H200: 333 with 32, 341 with 132
    // (2026-11-21, tools/gpu-sweep.sh).
    const unsigned most = topology.ranks_per_device > 1 ? shared_blocks(topology.units, 3)
                          : topology.ranks <= 2         ? most_units(topology.units)
                                                        : topology.units / 4;
    const unsigned units = topology.units;
    return shapes_for(call.bytes() / static_cast<unsigned>(topology.ranks), topology.block_threads,
                      {most, units, units / 2, units / 4, 16u}, topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return meets_in_tree(topology);
  }
};

const AlgorithmRegistration<Twoshot> registration;

}  // namespace
}  // namespace plait::twoshot
