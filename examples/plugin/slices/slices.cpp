#include "algorithms/blocks/flags/sliced_algorithm.hpp"
#include "slices/kernel.hpp"

namespace plait::slices {

class Slices final : public SlicedAlgorithm {
 public:
  Slices() : SlicedAlgorithm(64) {}  // so many blocks at most
  StaticName name() const override { return "slices"; }
  std::string_view summary() const override {
    return "load and add up the own slice, store the sum everywhere, a pack at a time";
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return 2 * SlicedAlgorithm::estimate(call, topology);  // few loads are in flight
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
};

static const AlgorithmRegistration<Slices> registration;

}  // namespace plait::slices
