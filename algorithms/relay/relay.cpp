#include "algorithms/building_blocks/moved_as.hpp"
#include "algorithms/relay/kernel.hpp"
#include "core/budget.hpp"
#include "core/collective_algorithm.hpp"

namespace plait::relay {
namespace {

constexpr unsigned max_blocks = 256;
constexpr std::uint32_t longest_piece = 128 << 10;  // bytes: there is a signal for each

class Relay final : public CollectiveAlgorithm {
 public:
  Relay() : CollectiveAlgorithm(Collective::broadcast) {}
  std::string_view name() const override { return "relay"; }
  std::string_view summary() const override {
    return "the root stores a slice at each rank, which passes it on: symmetric memory, no scratch, two hops";
  }

  Resources resources(const Topology& topology) const override {
    const std::size_t words = block_barrier_signals(max_blocks, topology.ranks);
    return {.scratch_bytes = 0, .signals = 2 * words, .counters = max_blocks + words * sizeof(PieceCounts) / sizeof(std::uint32_t)};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return {{.blocks = topology.units, .threads = topology.block_threads}};
    const unsigned threads = topology.block_threads;
    const std::size_t slice = call.bytes() / static_cast<unsigned>(slices_of(topology.ranks));
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {most_units(topology.units), topology.units / 2, topology.units / 4, 16u})
      shapes.push_back({blocks_for(slice, std::size_t{threads} * 16, std::clamp(most, 1u, max_blocks)), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    // The second hop ends a piece after the first: a quarter of a stripe, or less.
    return topology.launch_us + 3 * topology.signal_us + 1.1 * static_cast<double>(call.bytes()) / topology.push_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    shape.blocks = std::min(shape.blocks, max_blocks);
    const Grant& grant = context.grant();
    const std::size_t grain = stripe_grain(shape.threads);
    const Parts slices = Parts::of(call.bytes(), static_cast<unsigned>(slices_of(context.ranks())), stripe_grain(1));
    const Parts stripes = Parts::of(slices.each, shape.blocks, grain);
    const Args args{.signals = grant.signals,
                    .arrived = grant.signals.at(block_barrier_signals(max_blocks, context.ranks()) * sizeof(std::uint32_t)),
                    .recv = buffers.recv_window,
                    .send = buffers.send,
                    .count = call.count,
                    .slices = slices,
                    .stripes = stripes,
                    .pieces = Pieces::of(stripes.each, 4, grain, longest_piece),
                    .epochs = grant.counters,
                    .counts = reinterpret_cast<PieceCounts*>(grant.counters + max_blocks),
                    .rank = context.rank(),
                    .ranks = context.ranks(),
                    .root = call.root};
    context.launch(name(), moved_as(call.type), shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return call.symmetric ? Support() : Support::no("the buffers that every rank has must be in symmetric memory (Communicator::allocate)");
  }
};

const AlgorithmRegistration<Relay> registration;

}  // namespace
}  // namespace plait::relay
