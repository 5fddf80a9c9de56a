#include "algorithms/blocks/flags/peer_algorithm.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/direct_put/kernel.hpp"

namespace plait::direct_put {
namespace {

class DirectPut final : public PeerAlgorithm {
 public:
  explicit DirectPut(Collective collective) : PeerAlgorithm(256, collective) {}
  StaticName name() const override { return "direct_put"; }
  std::string_view summary() const override {
    return "store blocks straight into the outputs that they are for: symmetric memory, no "
           "scratch, two barriers";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    const unsigned units = topology.units;
    return shapes_for(call.block_bytes(), topology.block_threads,
                      {most_units(units), units / 2, units / 4, 16u}, topology);
  }

  LaunchShape fitted(LaunchShape shape, const Call& call, const Topology&) const override {
    return {std::min(std::max(shape.blocks, least_blocks(call.block_bytes())), max_blocks()),
            shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double bandwidth =
        call.collective == Collective::gather ? topology.link_bandwidth : topology.push_bandwidth;
    return overhead_us(topology) + direct_bytes(call, topology) / bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const bool loads = call.collective == Collective::gather;
    const Args args{
        .peers = signals(context),
        .window = loads ? buffers.send_window : buffers.recv_window,
        .pattern = direct_pattern(call),
        .loads = loads,
        .send = buffers.send,
        .recv = buffers.recv,
        .count = call.count,
        .stripes = Partition::of(call.block_bytes(), shape.blocks, stripe_grain(shape.threads))};
    context.launch(name(), move_type(call.type), shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (Support memory = in_symmetric_memory(call); !memory) return memory;
    if (call.collective == Collective::all_to_all && call.in_place)
      return Support::no("a block would be overwritten before it is sent");
    // Blocks that are no multiple of a pack: on 3 H200 an all-gather of 64 MB took 1.2 ms, and 0.18
    // ms by direct_push (2026-11-22). The host's packs may begin anywhere.
    constexpr std::size_t pack_bytes = 16;
    if (topology.backend != BackendKind::host &&
        facts_of(call.collective).recv.size == BufferFacts::Size::one_per_rank &&
        call.collective != Collective::gather && call.block_bytes() % pack_bytes != 0)
      return Support::no(
          "blocks that begin between multiples of 16 bytes would be stored element by element");
    return {};
  }
};

const FamilyRegistration<DirectPut, moving_collectives> registration;

}  // namespace
}  // namespace plait::direct_put
