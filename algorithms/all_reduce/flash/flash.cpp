#include "algorithms/all_reduce/flash/kernel.hpp"
#include "algorithms/blocks/flags/peer_algorithm.hpp"

namespace plait::flash {
namespace {

class Flash final : public PeerAlgorithm {
 public:
  Flash() : PeerAlgorithm(256) {}
  StaticName name() const override { return "flash"; }
  std::string_view summary() const override {
    return "pull through a pipeline of asynchronous copies; two ranks the whole input, more a "
           "slice, pushed: symmetric memory, no scratch";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    const auto n = static_cast<unsigned>(topology.ranks);
    const std::size_t bytes = n == 2 ? call.bytes() : call.bytes() / n;
    // One block per multiprocessor, but half as many for large messages: 4 H200, 256 MB: 319 GB/s
    // with 64 blocks and 307 with 132; 64 MB: 310 to 325 and 187 to 260, for reasons unknown;
    // 16 MB: no difference (2026-11-21, tools/gpu-sweep.sh).
    const std::size_t large = std::size_t{n == 2 ? 128u : 16u} << 20;
    const unsigned most = topology.ranks_per_device > 1 ? shared_blocks(topology.units, 3)
                          : call.bytes() < large        ? most_units(topology.units)
                                                        : topology.units / 2;
    std::vector<LaunchShape> shapes;
    for (const unsigned threads : {topology.block_threads, topology.block_threads / 2})
      for (const unsigned limit :
           {most, topology.units, topology.units / 2, topology.units / 4, 16u})
        shapes.push_back(
            {blocks_for_stages(bytes, topology.ranks - 1, Stage::of(size_of(call.type), threads),
                               std::clamp(limit, 1u, max_blocks())),
             threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    // The way through shared memory: a guess. It puts flash behind twoshot, which moves as much.
    const double staging_us = 0.5;
    return overhead_us(topology) + staging_us + moved / topology.link_bandwidth;
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const bool whole = context.ranks() == 2 && buffers.send != buffers.recv;
    const Args args{
        .peers = signals(context),
        .send = buffers.send_window,
        .recv = buffers.recv_window,
        .count = call.count,
        .stripes = stripes(call.bytes(), whole, context.rank(), context.ranks(), shape.blocks),
        .reduction = reduction_of(call, context.topology()),
        .whole = whole};
    context.launch(name(), call.type, shape, args);
  }
};

const AlgorithmRegistration<Flash> registration;

}  // namespace
}  // namespace plait::flash
