#include "algorithms/building_blocks/channel_algorithm.hpp"
#include "algorithms/building_blocks/relay_collectives.hpp"
#include "algorithms/relay_push/kernel.hpp"

#include <cstdlib>
namespace plait::relay_push {
namespace {

class RelayPush final : public ChannelAlgorithm {
 public:
  using ChannelAlgorithm::ChannelAlgorithm;
  std::string_view name() const override { return "relay_push"; }
  std::string_view summary() const override {
    return "every other rank passes on, or adds up, a slice of the message, in pieces through slots: any memory, two hops";
  }
  Resources resources(const Topology&) const override { return {}; }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return {{.blocks = topology.units, .threads = topology.block_threads}};
    // As direct_push: two small blocks a multiprocessor hide each other's waits, if there is enough for all.
    const unsigned threads = std::min(256u, topology.block_threads), enough = call.bytes() < (std::size_t{16} << 20) ? 128 : max_blocks;
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {enough, 128u, 192u, 256u})
      shapes.push_back({blocks_for(slices(call, topology).each, std::size_t{threads} * 16, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    // As direct_push, and for the first piece one hop more.
    const LaunchShape shape = shapes(call, topology).front();
    const std::size_t grain = stripe_grain(shape.threads), stripe = Parts::of(slices(call, topology).each, shape.blocks, grain).each;
    const double pieces = static_cast<double>(std::clamp<std::size_t>((stripe + grain - 1) / grain, 1, 8));
    const double steps = std::min(pieces, 4.0) + 2 * lag;
    return topology.launch_us + steps * topology.signal_us + (1 + 1 / pieces) * static_cast<double>(call.bytes()) / topology.push_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    shape.blocks = std::min(shape.blocks, blocks(context.topology()));
    const Channels own = channels(context, slots);
    const std::size_t grain = stripe_grain(shape.threads);
    const Parts slices = this->slices(call, context.topology());
    const Parts stripes = Parts::of(slices.each, shape.blocks, grain);
    const Args args{.channels = own,
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .slices = slices,
                    .stripes = stripes,
                    .pieces = Pieces::of(stripes.each, getenv("PLAIT_X_PARTS") ? atoi(getenv("PLAIT_X_PARTS")) : 8, grain, own.slot_bytes),
                    .reduction = reduction_of(call, context.topology()),
                    .reduces = call.collective == Collective::reduce,
                    .root = call.root};
    context.launch(name(), call.type, shape, args);
  }

 private:
  static Parts slices(const Call& call, const Topology& topology) {
    return Parts::of(call.bytes(), static_cast<unsigned>(RelayPattern::slices_of(topology.ranks)), stripe_grain(1));
  }
};

const RelayRegistration<RelayPush> registration;

}  // namespace
}  // namespace plait::relay_push
