#include "algorithms/all_reduce/oneshot_sentinel/kernel.hpp"
#include "algorithms/blocks/flags/marked_algorithm.hpp"

namespace plait::oneshot_sentinel {
namespace {

class OneshotSentinel final : public MarkedAlgorithm {
 public:
  StaticName name() const override { return "oneshot_sentinel"; }
  std::string_view summary() const override {
    return "push floats that mark their own arrival to every peer, reduce in rank order: one hop";
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double peers = std::max(topology.ranks - 1, 1);
    return estimate_of(1, peers * static_cast<double>(call.bytes()), topology);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return peers(topology); }
  std::size_t parallel_units(std::size_t units, const Topology&) const override { return units; }
  std::size_t grain(LaunchShape shape, const Topology&) const override { return shape.threads; }
};

const AlgorithmRegistration<OneshotSentinel> registration;

}  // namespace
}  // namespace plait::oneshot_sentinel
