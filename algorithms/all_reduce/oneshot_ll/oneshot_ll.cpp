#include <array>

#include "algorithms/all_reduce/oneshot_ll/descriptor.hpp"

namespace plait::oneshot_ll {
namespace {

class OneshotLL final : public OneshotAlgorithm {
 public:
  explicit OneshotLL(Collective collective)
      : OneshotAlgorithm(UnitKind::packets(), 16, collective) {}
  StaticName name() const override { return "oneshot_ll"; }
  std::string_view summary() const override {
    return "push packets to every peer, reduce in rank order: one hop, no barrier";
  }

 protected:
  bool reduces_rare(DataType type) const override { return size_of(type) <= 8; }
};

class OneshotLL128 final : public OneshotAlgorithm {
 public:
  // With 2 ranks and the default of 128 MB, a round holds 1.1 MB.
  explicit OneshotLL128(Collective collective)
      : OneshotAlgorithm(UnitKind::lines(192), 28, collective) {}
  StaticName name() const override { return "oneshot_ll128"; }
  std::string_view summary() const override {
    return "as oneshot_ll, in lines of 128 bytes: half the traffic, where the target has lines";
  }
};

constexpr std::array collectives = {Collective::all_reduce, Collective::scan, Collective::exscan};
const FamilyRegistration<OneshotLL, collectives> packets;
const FamilyRegistration<OneshotLL128, collectives> lines;

}  // namespace
}  // namespace plait::oneshot_ll
