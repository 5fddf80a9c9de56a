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
};

const AlgorithmRegistration<DirectSentinel> registration;

}  // namespace
}  // namespace plait::direct_sentinel
