#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"

namespace plait::oneshot_ll128 {
namespace {

class OneshotLL128 final : public oneshot_ll::OneshotAlgorithm {
 public:
  OneshotLL128()
      : OneshotAlgorithm(UnitKind::lines(192), 10) {
  }  // with 2 ranks: 2 MB, by whole passes, in a round
  std::string_view name() const override { return "oneshot_ll128"; }
  std::string_view summary() const override {
    return "as oneshot_ll, in lines of 128 bytes: half the traffic, where the target has lines";
  }
};

const AlgorithmRegistration<OneshotLL128> registration;

}  // namespace
}  // namespace plait::oneshot_ll128
