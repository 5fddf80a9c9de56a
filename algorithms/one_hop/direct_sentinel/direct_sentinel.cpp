#include "algorithms/blocks/flags/marked_algorithm.hpp"

namespace plait::direct_sentinel {
namespace {

class DirectSentinel final : public MarkedAlgorithm {
 public:
  DirectSentinel() : MarkedAlgorithm(Collective::reduce_scatter) {}
  StaticName name() const override { return "direct_sentinel"; }
  std::string_view summary() const override {
    return "push blocks that mark their own arrival to their ranks, which reduce: one hop, no "
           "barrier, floats";
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double peers = std::max(topology.ranks - 1, 1);
    return estimate_of(1, peers * static_cast<double>(call.block_bytes()), topology);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return peers(topology); }
  std::size_t parallel_units(std::size_t units, const Topology&) const override { return units; }
  std::size_t grain(LaunchShape shape, const Topology&) const override { return shape.threads; }
};

const AlgorithmRegistration<DirectSentinel> registration;

}  // namespace
}  // namespace plait::direct_sentinel
