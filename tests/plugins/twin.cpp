// A plug-in with an algorithm of a name that the library has.
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait {
namespace {

class Twin final : public CollectiveAlgorithm {
 public:
  StaticName name() const override { return "ring"; }
  std::string_view summary() const override { return "nothing"; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override { return {{}}; }
  double estimate(const Call&, const Topology&) const override { return 1; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext&) const override {}
};

const AlgorithmRegistration<Twin> registration;

}  // namespace
}  // namespace plait
