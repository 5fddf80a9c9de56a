#include "algorithms/all_reduce/twoshot/kernel.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait::twoshot {
namespace {

constexpr unsigned max_blocks = 256;

class Twoshot final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "twoshot"; }
  std::string_view summary() const override {
    return "pull and reduce the own slice, push the result: symmetric memory, no scratch, two "
           "barriers";
  }

  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = 0,
            .signals = block_barrier_signals(max_blocks, topology.ranks),
            .counters = max_blocks};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host)
      return {{.blocks = topology.units, .threads = topology.block_threads}};
    const std::size_t slice = call.bytes() / static_cast<unsigned>(topology.ranks);
    const unsigned threads = topology.block_threads;
    // With more than two ranks, many blocks that pull at once collide in the switch: 4 H200, 256
    // MB, 318 GB/s with 24 blocks, 297 with 132, 279 with 256; 2 H200: 333 with 32, 341 with 132
    // (2026-11-21, tools/gpu-sweep.sh).
    const unsigned most = topology.ranks <= 2 ? most_units(topology.units) : topology.units / 4;
    std::vector<LaunchShape> shapes;
    for (const unsigned limit : {most, topology.units, topology.units / 2, topology.units / 4, 16u})
      shapes.push_back(
          {blocks_for(slice, std::size_t{threads} * 16, std::clamp(limit, 1u, max_blocks)),
           threads});
    return shapes;
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks), shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    return topology.launch_us + 2 * topology.signal_us + moved / topology.link_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Parts slices =
        Parts::of(call.bytes(), static_cast<unsigned>(context.ranks()), stripe_grain(1));
    const Args args{.signals = context.grant().signals,
                    .send = buffers.send_window,
                    .recv = buffers.recv_window,
                    .count = call.count,
                    .slices = slices,
                    .stripes = Parts::of(slices.each, shape.blocks, stripe_grain(shape.threads)),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, context.topology()),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return call.symmetric
               ? Support()
               : Support::no("both buffers must be in symmetric memory (Communicator::allocate)");
  }
};

const AlgorithmRegistration<Twoshot> registration;

}  // namespace
}  // namespace plait::twoshot
