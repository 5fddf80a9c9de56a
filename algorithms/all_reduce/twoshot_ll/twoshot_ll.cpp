#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"

namespace plait::twoshot_ll {
namespace {

class TwoshotLL final : public TwoshotAlgorithm {
 public:
  TwoshotLL() : TwoshotAlgorithm(UnitKind::packets()) {}
  StaticName name() const override { return "twoshot_ll"; }
  std::string_view summary() const override {
    return "push slice packets, reduce, push result packets: two hops, no barrier, any memory";
  }
  bool batches(const Topology& topology) const override { return topology.indexed_arguments; }
};

class TwoshotLL128 final : public TwoshotAlgorithm {
 public:
  // With 4 ranks and the default of 384 MB, a round has room for 4 MB.
  TwoshotLL128() : TwoshotAlgorithm(UnitKind::lines(), 13) {}
  StaticName name() const override { return "twoshot_ll128"; }
  std::string_view summary() const override {
    return "as twoshot_ll, in lines of 128 bytes: half the traffic, where the target has lines";
  }
  bool batches(const Topology&) const override { return true; }
};

const AlgorithmRegistration<TwoshotLL> packets;
const AlgorithmRegistration<TwoshotLL128> lines;

}  // namespace
}  // namespace plait::twoshot_ll
