#include "algorithms/blocks/flags/peer_algorithm.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/direct_pull/kernel.hpp"

namespace plait::direct_pull {
namespace {

class DirectPull final : public PeerAlgorithm {
 public:
  explicit DirectPull(Collective collective) : PeerAlgorithm(256, collective) {}
  StaticName name() const override { return "direct_pull"; }
  std::string_view summary() const override {
    return "load blocks from the inputs of all ranks and add them up: symmetric memory, no "
           "scratch, two barriers";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    // 2 H200, reduce of 1 GB: 64 blocks of 256 threads 2870 us, 131 of 512 2874, 32 of 256 2907, 16
    // of 512 2928; reduce_scatter of 64 MB 107.3, 107.7, 108.5, 109.7 (2026-11-23,
    // tools/gpu-sweep.sh). With more ranks, many blocks that pull at once collide in the switch
    // (twoshot.cpp).
    const unsigned threads = std::min(256u, topology.block_threads), units = topology.units;
    return shapes_for(
        call.block_bytes(), threads,
        {topology.ranks <= 2 ? units / 2 : units / 4, most_units(units), units / 4, 16u}, topology);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    return overhead_us(topology) + direct_bytes(call, topology) / topology.link_bandwidth;
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return meets_in_tree(topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Args args{
        .peers = signals(context),
        .send = buffers.send_window,
        .pattern = direct_pattern(call),
        .recv = buffers.recv,
        .count = call.count,
        .stripes = Partition::of(call.block_bytes(), shape.blocks, stripe_grain(shape.threads)),
        .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    if (Support memory = in_symmetric_memory(call); !memory) return memory;
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
