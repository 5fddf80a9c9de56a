#include "algorithms/all_reduce/tree/kernel.hpp"
#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"

namespace plait::tree {
namespace {

class DoubleTree final : public ChannelAlgorithm {
 public:
  StaticName name() const override { return "tree"; }
  std::string_view summary() const override {
    return "partial sums go up a binary tree and results come down, in chunks; half of the blocks "
           "use a second tree";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    const unsigned threads = topology.block_threads;
    std::vector<LaunchShape> shapes;
    if (small_blocks(call, topology)) shapes.push_back({max_blocks, 256});
    // Registers allow one block per multiprocessor.
    for (const unsigned limit :
         {most_units(topology.units), topology.units / 2, topology.units / 4}) {
      const unsigned most = std::clamp(limit / 2 * 2, 2u, max_blocks);
      const unsigned blocks = blocks_for(call.bytes(), std::size_t{threads} * 16 * 2, most);
      shapes.push_back({(blocks + 1) / 2 * 2, threads});  // equally many in both trees
    }
    return shapes;
  }

  /// A rank sends twice the message (kernel.hpp). Before that, the first chunk takes a hop up and a
  /// hop down per level. Each hop costs a signal and the first loads of a slot. Both together also
  /// cost three quarters of the bytes that a rank sends in a step: of four chunks, one goes up and
  /// two go down.
  double estimate(const Call& call, const Topology& topology) const override {
    const int depth = TreePlace::height(topology.ranks);
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const Partition stripes = stripes_of(call, shape, topology);
    const double chunks = std::max(chunks_of(stripes, shape, topology).count(stripes.at(0)), 1u);
    const double sending =
        topology.ranks == 1 ? 0 : 2.0 * static_cast<double>(call.bytes()) / topology.push_bandwidth;
    return time_between_nodes(topology.launch_us + 2 * depth * 1.5 * topology.signal_us,
                              sending * (1 + 0.75 * depth / chunks),
                              network_use(call, shape.blocks, topology), topology);
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return two_terms_travel(call, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Partition stripes = stripes_of(call, shape, context.topology());
    const Chunks chunks = chunks_of(stripes, shape, context.topology());
    const Args args{.channels = with_chunks(channels(context, Steps::slots), chunks.bytes, context),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = stripes,
                    .chunks = chunks,
                    .relatives = {TreeRelatives::of({context.rank(), context.ranks(), 0}),
                                  TreeRelatives::of({context.rank(), context.ranks(), 1})},
                    .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 private:
  /// Half of the message goes up each tree, and comes down.
  static NetworkUse network_use(const Call& call, unsigned blocks, const Topology& topology) {
    if (topology.nodes == 1) return {};
    const double bytes = static_cast<double>(call.bytes());
    NetworkUse use{.hops = 2.0 * hops_between_nodes(TreePlace::height(topology.ranks), topology),
                   .bytes = bytes / 2 * most_edges(topology.ranks, topology.node_ranks)};
    constexpr double relatives = 3;
    add_flows(use, bytes / 2, relatives, Steps::slots, std::max(blocks / 2, 1u), topology);
    return use;
  }
  static Partition stripes_of(const Call& call, const LaunchShape& shape,
                              const Topology& topology) {
    return Partition::of(call.bytes(), shape.blocks, chunk_grain(shape, topology));
  }
  static Chunks chunks_of(const Partition& stripes, const LaunchShape& shape,
                          const Topology& topology) {
    return Chunks::of(stripes.each, 8, chunk_grain(shape, topology),
                      channel_bytes(topology) / Steps::slots);
  }
};

const AlgorithmRegistration<DoubleTree> registration;

}  // namespace
}  // namespace plait::tree
