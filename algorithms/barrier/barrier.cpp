#include "algorithms/barrier/launch.hpp"

namespace plait::barrier {
namespace {

class Barrier final : public Algorithm {
 public:
  StaticName name() const override { return "barrier"; }
  Collective collective() const override { return Collective::barrier; }
  std::string_view summary() const override {
    return "every rank signals every other and waits for all";
  }

  Support supports(const Call& call, const Topology&) const override {
    return call.collective == collective() ? Support() : Support::no("only barrier");
  }
  Resources resources(const Topology& topology) const override {
    return barrier::resources(topology);
  }
  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const override {
    return {shape(topology)};
  }
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return one_block(shape);
  }
  double estimate(const Call&, const Topology& topology) const override {
    return topology.launch_us + topology.signal_us;
  }

  void enqueue(const Call&, const Buffers&, LaunchShape shape,
               LaunchContext& context) const override {
    launch(context, context.grant(), shape);
  }
};

const AlgorithmRegistration<Barrier> registration;

}  // namespace
}  // namespace plait::barrier
