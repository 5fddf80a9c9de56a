#include "algorithms/one_hop/direct_ll/descriptor.hpp"

namespace plait::direct_ll {
namespace {

class DirectLL final : public DirectAlgorithm {
 public:
  explicit DirectLL(Collective collective) : DirectAlgorithm(collective, UnitKind::packets()) {}
  StaticName name() const override { return "direct_ll"; }
  std::string_view summary() const override {
    return "push packets straight to the ranks they are for: one hop, no barrier";
  }
};

class DirectLL128 final : public DirectAlgorithm {
 public:
  explicit DirectLL128(Collective collective) : DirectAlgorithm(collective, UnitKind::lines()) {}
  StaticName name() const override { return "direct_ll128"; }
  std::string_view summary() const override {
    return "as direct_ll, in lines of 128 bytes with 120 of data: half the traffic, where the "
           "target has them";
  }
};

const FamilyRegistration<DirectLL, direct_collectives> packets;
const FamilyRegistration<DirectLL128, direct_collectives> lines;

}  // namespace
}  // namespace plait::direct_ll
