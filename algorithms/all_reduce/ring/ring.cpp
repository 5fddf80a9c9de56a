#include <algorithm>
#include <cmath>

#include "algorithms/all_reduce/ring/kernel.hpp"
#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"

namespace plait::ring {
namespace {

class Ring final : public ChannelAlgorithm {
 public:
  StaticName name() const override { return "ring"; }
  std::string_view summary() const override {
    return "chunks travel round the ring through slots with credits, half of the channels each way";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    // Four packs per thread in each chunk: fewer blocks are slower for large messages, more blocks
    // for small ones. 4 H200, 4 MB: 43 us with 64 blocks of 256 threads, 55 us with 256; 256 MB:
    // 165 and 290 GB/s (2026-11-21, tools/gpu-sweep.sh).
    const unsigned threads = std::min(256u, topology.block_threads);
    const std::size_t share = std::size_t{threads} * 64 * static_cast<unsigned>(topology.ranks);
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {256u, 128u, 64u, 32u})
      shapes.push_back({blocks_for(call.bytes(), share, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const int n = topology.ranks;
    const double moved = 2.0 * (n - 1) / n * static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + 2 * (n - 1) * 1.5 * topology.signal_us,
                              moved / topology.link_bandwidth, network_use(call, topology),
                              topology);
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return two_terms_travel(call, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Partition stripes =
        Partition::of(call.bytes(), shape.blocks, stripe_grain(shape.threads));
    const Channels own = channels(context, slots);
    const std::size_t chunk = stripes.each / static_cast<unsigned>(context.ranks());
    const Args args{
        .channels = with_chunks(own, chunk, context),
        .send = buffers.send,
        .recv = buffers.recv,
        .count = call.count,
        .stripes = stripes,
        .reduction = reduction_of(call, context.topology()),
        .place = RingPlace::of(context.topology().ring, context.rank(), context.ranks())};
    context.launch(name(), call.type, shape, args);
  }

 private:
  /// Each way round, the ring leaves a node once. In every step a chunk passes there.
  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const double n = topology.ranks, steps = 2 * (n - 1);
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const std::uint32_t slot = channel_bytes(topology) / slots;
    const double bytes = static_cast<double>(call.bytes()),
                 passed = steps * std::max(bytes / n / shape.blocks / slot, 1.0);
    const double hops = std::ceil(steps / topology.node_ranks);
    return {.hops = hops, .messages = passed, .bytes = steps / n * bytes, .waits = passed - hops};
  }
};

const AlgorithmRegistration<Ring> registration;

}  // namespace
}  // namespace plait::ring
