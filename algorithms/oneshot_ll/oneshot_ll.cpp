#include "algorithms/oneshot_ll/kernel.hpp"
#include "core/all_reduce_algorithm.hpp"
#include "core/budget.hpp"

namespace plait::oneshot_ll {
namespace {

constexpr unsigned max_blocks = 64;

class OneshotLL final : public AllReduceAlgorithm {
 public:
  std::string_view name() const override { return "oneshot_ll"; }
  std::string_view summary() const override { return "push packets to every peer, reduce in rank order: one hop, no barrier"; }

  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = layout(topology).packets(max_blocks) * sizeof(Packet), .signals = 0, .counters = max_blocks};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return {{.blocks = topology.units, .threads = topology.block_threads}};
    std::vector<LaunchShape> shapes;
    for (const unsigned threads : {128u, 256u, 512u}) shapes.push_back({blocks_for(packets_of(call), threads, max_blocks), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double pushed = 2.0 * std::max(topology.ranks - 1, 1) * static_cast<double>(call.bytes());
    return topology.launch_us + topology.hop_us + pushed / topology.packet_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    shape.blocks = std::min(shape.blocks, max_blocks);
    const Args args{.scratch = context.grant().scratch,
                    .layout = layout(context.topology()),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Parts::of(packets_of(call), shape.blocks, shape.threads),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, context.topology()),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 private:
  static std::size_t packets_of(const Call& call) { return (call.bytes() + packet_bytes - 1) / packet_bytes; }
  static Layout layout(const Topology& topology) {
    Layout one{.slots = 1, .ranks = topology.ranks};
    one.slots = slots_within(topology.scratch_limit / 8, one.packets(max_blocks) * sizeof(Packet), 16, 512);
    return one;
  }
};

const AlgorithmRegistration<OneshotLL> registration;

}  // namespace
}  // namespace plait::oneshot_ll
