#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"

namespace plait::twoshot_ll128 {
namespace {

class TwoshotLL128 final : public twoshot_ll::TwoshotAlgorithm {
 public:
  TwoshotLL128()
      : TwoshotAlgorithm(UnitKind::lines(), 13) {
  }  // for 4 MB in a round on 4 ranks, with the default of 384 MB
  std::string_view name() const override { return "twoshot_ll128"; }
  std::string_view summary() const override {
    return "as twoshot_ll, in lines of 128 bytes: half the traffic, where the target has lines";
  }
  bool batches(const Topology&) const override { return true; }
};

const AlgorithmRegistration<TwoshotLL128> registration;

}  // namespace
}  // namespace plait::twoshot_ll128
