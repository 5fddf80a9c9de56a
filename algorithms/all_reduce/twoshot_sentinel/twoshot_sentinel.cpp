#include "algorithms/all_reduce/twoshot_sentinel/kernel.hpp"
#include "algorithms/blocks/flags/marked_algorithm.hpp"

namespace plait::twoshot_sentinel {
namespace {

class TwoshotSentinel final : public MarkedAlgorithm {
 public:
  StaticName name() const override { return "twoshot_sentinel"; }
  std::string_view summary() const override {
    return "push slices of floats that mark their own arrival, reduce, push the results: two hops";
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved = 2.0 * (topology.ranks - 1) / topology.ranks;
    return estimate_of(2, moved * static_cast<double>(call.bytes()), topology);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return 2 * peers(topology); }
  std::size_t parallel_units(std::size_t units, const Topology& topology) const override {
    const auto n = static_cast<std::size_t>(topology.ranks);
    return (units + n - 1) / n;
  }
  std::size_t grain(LaunchShape, const Topology& topology) const override {
    return static_cast<std::size_t>(topology.ranks);
  }
};

const AlgorithmRegistration<TwoshotSentinel> registration;

}  // namespace
}  // namespace plait::twoshot_sentinel
