// A plug-in with an algorithm that does nothing, and so is fast and wrong.
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait {
namespace {

class Idle final : public CollectiveAlgorithm {
 public:
  StaticName name() const override { return "idle"; }
  std::string_view summary() const override { return "nothing"; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override { return {{}}; }
  double estimate(const Call&, const Topology&) const override { return 1; }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext&) const override {}
};

const AlgorithmRegistration<Idle> registration;

}  // namespace
}  // namespace plait
