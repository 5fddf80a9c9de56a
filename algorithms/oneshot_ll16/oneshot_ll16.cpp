#include "algorithms/oneshot_ll/descriptor.hpp"

namespace plait::oneshot_ll16 {
namespace {

class OneshotLL16 final : public oneshot_ll::OneshotAlgorithm {
 public:
  OneshotLL16() : OneshotAlgorithm(UnitKind::wide_packets()) {}
  std::string_view name() const override { return "oneshot_ll16"; }
  std::string_view summary() const override {
    return "as oneshot_ll, in packets of 16 bytes with 12 of data: two thirds of the traffic, where the target has them";
  }
};

const AlgorithmRegistration<OneshotLL16> registration;

}  // namespace
}  // namespace plait::oneshot_ll16
