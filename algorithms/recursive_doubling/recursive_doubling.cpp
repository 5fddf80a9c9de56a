#include "algorithms/recursive_doubling/kernel.hpp"
#include "core/all_reduce_algorithm.hpp"
#include "core/budget.hpp"

namespace plait::recursive_doubling {
namespace {

constexpr unsigned max_blocks = 64;

class RecursiveDoubling final : public AllReduceAlgorithm {
 public:
  std::string_view name() const override { return "recursive_doubling"; }
  std::string_view summary() const override {
    return "exchange partial results with rank XOR 2^s; extra ranks fold in before and out after";
  }

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
    const Schedule schedule{0, topology.ranks};
    const int hops = std::max(schedule.rounds() + (schedule.has_guest() ? 2 : 0), 1);
    return topology.launch_us + hops * (topology.hop_us + 2.0 * static_cast<double>(call.bytes()) / topology.packet_bandwidth);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    shape.blocks = std::min(shape.blocks, max_blocks);
    const Args args{.scratch = context.grant().scratch,
                    .layout = layout(context.topology()),
                    .schedule = {context.rank(), context.ranks()},
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Parts::of(packets_of(call), shape.blocks, shape.threads),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 private:
  static std::size_t packets_of(const Call& call) { return (call.bytes() + packet_bytes - 1) / packet_bytes; }
  static Layout layout(const Topology& topology) {
    Layout one{.slots = 1, .steps = Schedule{0, topology.ranks}.steps()};
    one.slots = slots_within(topology.scratch_limit / 8, one.packets(max_blocks) * sizeof(Packet), 16, 512);
    return one;
  }
};

const AlgorithmRegistration<RecursiveDoubling> registration;

}  // namespace
}  // namespace plait::recursive_doubling
