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
};

const AlgorithmRegistration<OneshotSentinel> registration;

}  // namespace
}  // namespace plait::oneshot_sentinel
