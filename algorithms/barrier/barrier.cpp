#include "algorithms/barrier/kernel.hpp"
#include "core/algorithm.hpp"

namespace plait::barrier {
namespace {

class Barrier final : public Algorithm {
 public:
  std::string_view name() const override { return "barrier"; }
  Collective collective() const override { return Collective::barrier; }
  std::string_view summary() const override { return "every rank signals every other and waits for all"; }

  Support supports(const Call& call, const Topology&) const override {
    return call.collective == collective() ? Support() : Support::no("only barrier");
  }
  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = 0, .signals = block_barrier_signals(1, topology.ranks), .counters = 1};
  }
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    return {{.blocks = 1, .threads = std::min(32u, topology.block_threads)}};
  }
  double estimate(const Call&, const Topology& topology) const override { return topology.launch_us + topology.signal_us; }

  void enqueue(const Call&, const Buffers&, LaunchShape shape, LaunchContext& context) const override {
    const Args args{
        .signals = context.grant().signals, .epoch = context.grant().counters, .rank = context.rank(), .ranks = context.ranks()};
    context.launch(name(), DataType::u8, shape, args);
  }
};

const AlgorithmRegistration<Barrier> registration;

}  // namespace
}  // namespace plait::barrier
