#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"
#include "algorithms/one_hop/direct_pull/kernel.hpp"

namespace plait::direct_pull {
namespace {

constexpr unsigned max_blocks = 256;

class DirectPull final : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;
  std::string_view name() const override { return "direct_pull"; }
  std::string_view summary() const override {
    return "load blocks from the inputs of all ranks and add them up: symmetric memory, no "
           "scratch, two barriers";
  }

  Resources resources(const Topology&) const override { return {}; }
  SharedResources shared(const Topology& topology) const override {
    return {.name = name(),
            .resources = {.scratch_bytes = 0,
                          .signals = block_barrier_signals(max_blocks, topology.ranks),
                          .counters = max_blocks}};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host)
      return {{.blocks = topology.units, .threads = topology.block_threads}};
    // 2 H200, reduce of 1 GB: 64 blocks of 256 threads 2870 us, 131 of 512 2874, 32 of 256 2907, 16
    // of 512 2928; reduce_scatter of 64 MB 107.3, 107.7, 108.5, 109.7 (2026-11-23,
    // tools/gpu-sweep.sh). With more ranks, many blocks that pull at once collide in the switch
    // (twoshot.cpp).
    const unsigned threads = std::min(256u, topology.block_threads), units = topology.units;
    std::vector<LaunchShape> shapes;
    for (const unsigned most :
         {topology.ranks <= 2 ? units / 2 : units / 4, most_units(units), units / 4, 16u})
      shapes.push_back({blocks_for(call.block_bytes(), std::size_t{threads} * 16,
                                   std::clamp(most, 1u, max_blocks)),
                        threads});
    return shapes;
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks), shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + 2 * topology.signal_us +
           direct_bytes(call, topology) / topology.link_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Args args{
        .signals = context.shared().signals,
        .send = buffers.send_window,
        .pattern = direct_pattern(call),
        .recv = buffers.recv,
        .count = call.count,
        .stripes = Parts::of(call.block_bytes(), shape.blocks, stripe_grain(shape.threads)),
        .epochs = context.shared().counters,
        .reduction = reduction_of(call, context.topology()),
        .rank = context.rank(),
        .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    if (!call.symmetric)
      return Support::no(
          "the buffers that every rank has must be in symmetric memory (Communicator::allocate)");
    constexpr std::size_t pack_bytes = 16;
    if (call.collective == Collective::reduce_scatter && call.block_bytes() % pack_bytes != 0)
      return Support::no(
          "blocks that begin between multiples of 16 bytes would be loaded element by element");
    return {};
  }
};

const FamilyRegistration<DirectPull, adding_collectives> registration;

}  // namespace
}  // namespace plait::direct_pull
