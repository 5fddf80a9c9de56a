#include "algorithms/one_hop/direct_ll/descriptor.hpp"

namespace plait::direct_ll {
namespace {

class DirectLL final : public DirectAlgorithm {
 public:
  explicit DirectLL(Collective collective) : DirectAlgorithm(collective, UnitKind::packets()) {}
  std::string_view name() const override { return "direct_ll"; }
  std::string_view summary() const override {
    return "push packets straight to whom they are for: one hop, no barrier";
  }
};

const FamilyRegistration<DirectLL, direct_collectives> registration;

}  // namespace
}  // namespace plait::direct_ll
