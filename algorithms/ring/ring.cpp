#include "algorithms/building_blocks/channel_algorithm.hpp"
#include "algorithms/ring/kernel.hpp"

namespace plait::ring {
namespace {

constexpr std::uint32_t slots = 2;  // the least: large slots hide a step's latency

class Ring final : public ChannelAlgorithm {
 public:
  std::string_view name() const override { return "ring"; }
  std::string_view summary() const override {
    return "chunks travel round the ring through slots with credits, half of the channels each way";
  }

  Resources resources(const Topology&) const override { return {}; }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return {{.blocks = topology.units, .threads = topology.block_threads}};
    const unsigned threads = topology.block_threads;
    const std::size_t share = std::size_t{threads} * 16 * static_cast<unsigned>(topology.ranks);  // a pack a thread and chunk
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {128u, 64u, 32u, 256u}) shapes.push_back({blocks_for(call.bytes(), share, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const int n = topology.ranks;
    const double moved = 2.0 * (n - 1) / n * static_cast<double>(call.bytes());
    return topology.launch_us + 2 * (n - 1) * 1.5 * topology.signal_us + moved / topology.bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    shape.blocks = std::min(shape.blocks, max_blocks);
    const Args args{.channels = channels(context, slots),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Parts::of(call.bytes(), shape.blocks, stripe_grain(shape.threads)),
                    .reduction = reduction_of(call, context.topology()),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }
};

const AlgorithmRegistration<Ring> registration;

}  // namespace
}  // namespace plait::ring
