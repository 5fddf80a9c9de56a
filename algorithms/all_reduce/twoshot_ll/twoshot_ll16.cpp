#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"

namespace plait::twoshot_ll16 {
namespace {

class TwoshotLL16 final : public twoshot_ll::TwoshotAlgorithm {
 public:
  TwoshotLL16() : TwoshotAlgorithm(UnitKind::wide_packets(), 32) {}
  std::string_view name() const override { return "twoshot_ll16"; }
  std::string_view summary() const override {
    return "as twoshot_ll, in packets of 16 bytes with 12 of data: two thirds of the traffic, "
           "where the target has them";
  }
};

const AlgorithmRegistration<TwoshotLL16> registration;

}  // namespace
}  // namespace plait::twoshot_ll16
