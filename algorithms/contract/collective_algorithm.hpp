// Base class for algorithms that serve one collective.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"

namespace plait {

class CollectiveAlgorithm : public Algorithm {
 public:
  explicit CollectiveAlgorithm(Collective collective = Collective::all_reduce)
      : collective_(collective) {}
  Collective collective() const final { return collective_; }

  Support supports(const Call& call, const Topology& topology) const final {
    if (call.collective != collective_)
      return Support::no("only " + std::string(name_of(collective_)));
    if (facts_of(collective_).reduces && !is_reduced(call.type, call.op))
      return Support::no(std::string(name_of(call.op)) + " needs " + std::string(needs(call.op)));
    if (call.op == ReduceOp::avg && is_scan(collective_))
      return Support::no("there is no avg of the first ranks");
    const Call made = in_words(call);
    if (is_rare(made) && !reduces_rare(made.type))
      return Support::no("few algorithms have kernels for " + std::string(name_of(made.type)));
    return supports_call(made, topology);
  }

 protected:
  /// `supports` for a call that `in_words` has returned.
  virtual Support supports_call(const Call&, const Topology&) const { return {}; }
  /// Whether the family has kernels for this rare type (`is_rare`).
  virtual bool reduces_rare(DataType) const { return false; }

  /// For `supports_call` of algorithms that reach into the peers' buffers.
  static Support in_symmetric_memory(const Call& call) {
    return call.symmetric ? Support()
                          : Support::no(
                                "the buffers that every rank has must be in symmetric "
                                "memory (Communicator::allocate)");
  }

  /// For `shapes` on the host: a block for each worker.
  static std::vector<LaunchShape> of_workers(const Topology& topology) {
    return {{.blocks = topology.units, .threads = topology.block_threads}};
  }

  /// For `reduces_in_rank_order` of algorithms whose partial results travel: with two ranks, the
  /// only sum or product has the same bits either way round. `min` and `max` do not: of +0 and -0
  /// the first one wins. The first term travels, rounded to the type of the data, which changes
  /// nothing unless it has been multiplied.
  static bool two_terms_travel(const Call& call, const Topology& topology) {
    const bool multiplied = call.op == ReduceOp::avg || call.op == ReduceOp::premul_sum,
               selects = call.op == ReduceOp::min || call.op == ReduceOp::max;
    return topology.ranks <= 2 && (topology.ranks == 1 || !selects) &&
           (accumulates_unrounded(call.type) || !multiplied);
  }

  // For `reduces_in_tree`.

  /// Of an algorithm whose kernel has all terms in one place, and calls `add_in_tree`.
  static bool meets_in_tree(const Topology& topology) {
    return topology.ranks <=
           (topology.backend == BackendKind::host ? most_in_tree_on_host : most_in_tree);
  }
  /// Of an algorithm in whose step s each rank r adds the partial results of r and of r XOR 2^s.
  /// The ranks beyond a power of two have other partners.
  static bool doubles_in_tree(const Topology& topology) {
    return (topology.ranks & (topology.ranks - 1)) == 0;
  }

  /// Whether partial results travel as they are computed.
  static bool accumulates_unrounded(DataType type) {
    return type == DataType::f32 || type == DataType::f64 || is_complex(type);
  }

  static Reduction reduction_of(const Call& call, const Topology& topology) {
    return {.op = call.op,
            .elements = elements_of(call.type),
            .type = call.type,
            .ranks = topology.ranks,
            .scale = call.scale,
            .tree = call.sum_order == SumOrder::tree};
  }

 private:
  Collective collective_;
};

}  // namespace plait
