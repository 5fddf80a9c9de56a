#include <bit>

#include "algorithms/barrier/dissemination_kernel.hpp"
#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"

namespace plait::dissemination {
namespace {

class Dissemination final : public ChannelAlgorithm {
 public:
  Dissemination() : ChannelAlgorithm(Collective::barrier) {}
  StaticName name() const override { return "dissemination"; }
  std::string_view summary() const override {
    return "empty chunks to ranks at distances 1, 2, 4, ...: also between nodes";
  }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override { return {{1, 1}}; }
  LaunchShape fitted(LaunchShape, const Call&, const Topology&) const override { return {1, 1}; }
  double estimate(const Call&, const Topology& topology) const override {
    const auto rounds = std::bit_width(static_cast<unsigned>(topology.ranks - 1));
    // Half a signal more: the rank waits for the credits of earlier calls, and returns them.
    const double between = hops_between_nodes(rounds, topology);
    return time_between_nodes(topology.launch_us + (rounds + 0.5) * topology.signal_us, 0,
                              {.hops = between, .messages = between}, topology);
  }
  void enqueue(const Call&, const Buffers&, LaunchShape shape,
               LaunchContext& context) const override {
    context.launch(name(), DataType::u8, shape, Args{.channels = channels(context, 1)});
  }
};

const AlgorithmRegistration<Dissemination> registration;

}  // namespace
}  // namespace plait::dissemination
