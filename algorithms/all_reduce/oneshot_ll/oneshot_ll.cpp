#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"

namespace plait::oneshot_ll {
namespace {

class OneshotLL final : public oneshot_ll::OneshotAlgorithm {
 public:
  OneshotLL() : OneshotAlgorithm(UnitKind::packets()) {}
  std::string_view name() const override { return "oneshot_ll"; }
  std::string_view summary() const override {
    return "push packets to every peer, reduce in rank order: one hop, no barrier";
  }
};

const AlgorithmRegistration<OneshotLL> registration;

}  // namespace
}  // namespace plait::oneshot_ll
