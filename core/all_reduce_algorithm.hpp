// What all-reduce algorithms have in common.
#pragma once
#include <algorithm>
#include <string>

#include "core/algorithm.hpp"

namespace plait {

class AllReduceAlgorithm : public Algorithm {
 public:
  Collective collective() const final { return Collective::all_reduce; }

  Support supports(const Call& call, const Topology& topology) const final {
    if (call.collective != Collective::all_reduce) return Support::no("only all_reduce");
    if (call.op == ReduceOp::premul_sum && !is_float(call.type)) return Support::no("premul_sum needs a floating-point type");
    return supports_all_reduce(call, topology);
  }

 protected:
  virtual Support supports_all_reduce(const Call&, const Topology&) const { return {}; }

  static Reduction reduction_of(const Call& call, const Topology& topology) {
    return {.op = call.op, .ranks = topology.ranks, .scale = call.scale};
  }
};

}  // namespace plait
