#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"
#include "slices/kernel.hpp"

namespace plait::slices {
namespace {

constexpr unsigned max_blocks = 64;

class Slices final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "slices"; }
  std::string_view summary() const override {
    return "pull and reduce the own slice, push the result, a pack at a time: symmetric memory";
  }

  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = 0,
            .signals = block_barrier_signals(max_blocks, topology.ranks),
            .counters = max_blocks};
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host)
      return {{.blocks = topology.units, .threads = topology.block_threads}};
    const unsigned threads = topology.block_threads;
    return {{blocks_for(call.bytes() / static_cast<unsigned>(topology.ranks),
                        std::size_t{threads} * 16, max_blocks),
             threads}};
  }

  /// Signals and counters are there for max_blocks blocks.
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks), shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    // Few loads are in flight, so links run at half their speed.
    return topology.launch_us + 2 * topology.signal_us + 2 * moved / topology.link_bandwidth;
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Parts parts =
        Parts::of(call.bytes(), static_cast<unsigned>(context.ranks()), stripe_grain(1));
    const Args args{.signals = context.grant().signals,
                    .send = buffers.send_window,
                    .recv = buffers.recv_window,
                    .count = call.count,
                    .parts = parts,
                    .stripes = Parts::of(parts.each, shape.blocks, stripe_grain(shape.threads)),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, context.topology()),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return call.symmetric
               ? Support()
               : Support::no("both buffers must be in symmetric memory (Communicator::allocate)");
  }
};

const AlgorithmRegistration<Slices> registration;

}  // namespace
}  // namespace plait::slices
