#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"

namespace plait::oneshot_ll {
namespace {

class OneshotLL final : public OneshotAlgorithm {
 public:
  OneshotLL() : OneshotAlgorithm(UnitKind::packets()) {}
  StaticName name() const override { return "oneshot_ll"; }
  std::string_view summary() const override {
    return "push packets to every peer, reduce in rank order: one hop, no barrier";
  }
};

class OneshotLL128 final : public OneshotAlgorithm {
 public:
  // With 2 ranks and the default of 128 MB, a round holds 1.1 MB.
  OneshotLL128() : OneshotAlgorithm(UnitKind::lines(192), 28) {}
  StaticName name() const override { return "oneshot_ll128"; }
  std::string_view summary() const override {
    return "as oneshot_ll, in lines of 128 bytes: half the traffic, where the target has lines";
  }
};

const AlgorithmRegistration<OneshotLL> packets;
const AlgorithmRegistration<OneshotLL128> lines;

}  // namespace
}  // namespace plait::oneshot_ll
