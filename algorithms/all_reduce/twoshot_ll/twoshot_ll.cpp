#include "algorithms/all_reduce/twoshot_ll/descriptor.hpp"

namespace plait::twoshot_ll {
namespace {

class TwoshotLL final : public twoshot_ll::TwoshotAlgorithm {
 public:
  TwoshotLL() : TwoshotAlgorithm(UnitKind::packets()) {}
  std::string_view name() const override { return "twoshot_ll"; }
  std::string_view summary() const override {
    return "push slice packets, reduce, push result packets: two hops, no barrier, any memory";
  }
  bool batches(const Topology& topology) const override { return topology.indexed_arguments; }
};

const AlgorithmRegistration<TwoshotLL> registration;

}  // namespace
}  // namespace plait::twoshot_ll
