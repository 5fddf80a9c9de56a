// All-reduce of ranks on many nodes: ranks of a node work together, and ranks of equal local
// number, a rail, form two binary trees. So hops grow with log2 of the nodes.
//
// With R rails a message is cut into R blocks, one per rail. (A node may have more than R ranks;
// the others own no block.) A block is cut into one stripe per thread block, and a stripe into
// pieces that fit a slot. Even pieces use tree 0, odd ones tree 1, and so do steps. A node has
// children in at most one tree (algorithms/blocks/patterns/double_tree.hpp), so all nodes send
// about as much.
//
// In a step, a thread block works in one tree, on a piece in each of these stages
// (algorithms/blocks/channels/rail_stages.hpp):
//   1. Scatter: pushes its terms of all rails' pieces to the ranks of these rails on this node.
//   2. Up: adds up what all ranks of the node have for the own rail's piece, adds the partial sums
//      of the children, and pushes the sum to the parent. At the root, the sum is the result.
//   3. Down: takes a result from the parent, unless this is the root. Pushes it to the children and
//      to all ranks of this node.
//   4. Gather: takes the results of the other rails from the ranks of this node.
// Rows are the steps of one tree. Stages lie `on_node` rows apart on the node and `lag` rows along
// the rail: a node adds its terms `lag` rows before its parent, and knows a result `lag` rows after
// it (plan.hpp). So pieces are on their way while others are worked on. A node leaves out steps in
// which it has no piece, so a short message does not wait for rows.
//
// Stages 1 and 2 use way 0 of the node's channels, 3 and 4 way 1; along the rail, stage 2 uses way
// 0 upwards and stage 3 way 1 downwards. Two nodes are parent and child in one tree at most, in
// that order, so no channel has pieces of both trees, and piece k of a tree has number k there. On
// the node the pieces of both trees have one order, that of steps, which all its ranks compute
// alike. (algorithms/blocks/channels/channel.hpp proves that slots may be used again.)
//
// Why no barrier is missing. A step begins with a vote on what its waits saw, so no thread reads
// what has not arrived, or stores into a slot that is in use. Its signals come after a `sync`.
// Within a step, each thread pushes the packs of a result that it has stored.
//
// Why it can't deadlock. In each channel the piece with number k is pushed in a step s(k) of the
// sender, and used in step s(k) + d of the receiver: d is 2 `on_node`, or 2 `lag` along the rail.
// No step pushes two pieces into one channel, and along the rail every other step belongs to the
// other tree. So s(k) - s(k - slots) is at least `slots`, along the rail 2 `slots`: more than d.
// Step j then waits for pieces that peers push in step j - d, and for slots of pieces k - slots,
// which peers empty in step s(k - slots) + d < s(k) = j. Both are before j. So of all thread blocks
// with one number on all ranks, one in the least step can go on. Proxies carry pieces without
// waiting for any kernel.
//
// In place is safe. No rank reads another's user buffers. A piece's input is read in stage 1, and
// for the own rail in stage 2. Its result is stored in a later step, after a `sync`. Only the root
// stores it in the same step: then each thread stores a sum where it has read the own term.
//
// All ranks get the same bits: a piece is summed along one tree, rounded at its root, then only
// copied. A partial sum travels in the type of the data; each node adds its ranks' terms in their
// order and then its children's partial sums, and rounds once.
//
// Cost: a hop on the node, 2 log2(N) along the rail for the first pieces, pipelined after them, and
// a hop on the node. Through each node's network at most twice the message in either direction: an
// inner node of one tree sends its half up once and down twice, a leaf of the other its half up.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/rail_stages.hpp"
#include "algorithms/nodes/rails_tree/plan.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::rails_tree {

using Types = ReducedTypes;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // along the rail; of no use to a rank without one
  const void* send;
  void* recv;  // may equal send
  Plan plan;
  TreeRelatives relatives[2];  // in each tree, nodes
  Reduction reduction;
};

template <class T, class D>
class RailsTree : private RailStages<RailsTree<T, D>, T, D, Args> {
  using Base = RailStages<RailsTree, T, D, Args>;
  friend Base;

 public:
  PLAIT_DEVICE RailsTree(D& dev, const Args& a)
      : Base(dev, a), plan_(a.plan), pieces_(plan_.chunks.count(Base::stripe_)) {}

  PLAIT_DEVICE void run() {
    for (std::uint32_t j = 0; j < plan_.steps(pieces_); ++j) {
      const Step step = step_at(j);
      if (!has_work(step)) continue;
      if (!Base::ready(step, j)) return;
      if (step.scattered.exists) Base::scatter(step.scattered);
      if (Base::has_rail()) {
        if (step.added.exists) add(step);
        if (step.finished.exists && !step.family.is_root())
          Base::take(step.finished, incoming(results, step.family.parent, step.finished));
        if (step.finished.exists) push(step);
      }
      if (step.gathered.exists) Base::gather(step.gathered);
      Base::announce(step);
    }
    dev_.sync();  // all threads have read the counters
    Base::finish_on_node(pieces_);
    for (const int tree : {0, 1})
      Base::finish_along_rail(step_at(static_cast<unsigned>(tree)), Plan::pieces(tree, pieces_));
  }

 private:
  using Base::a_, Base::dev_, Base::rail_;
  using typename Base::End, typename Base::P;
  static constexpr unsigned reducing = 0, results = 1;  // ways along the rail

  struct Step : RailStep {
    TreeRelatives family;  // in its tree
  };
  PLAIT_DEVICE Step step_at(std::uint32_t j) const {
    // Constant indices: see `indexed_arguments` in backends/device/device.hpp.
    const bool is_first = j % 2 == 0;
    TreeRelatives own = a_.relatives[0];
    int other = a_.relatives[1].depth;
    if (!is_first) {
      other = own.depth;
      own = a_.relatives[1];
    }
    return {plan_.at(j, pieces_, own.depth, other), own};
  }
  PLAIT_DEVICE static bool has_work(const RailStep& step) {
    return step.scattered.exists || step.added.exists || step.finished.exists ||
           step.gathered.exists;
  }

  PLAIT_DEVICE unsigned ends_along_rail() const { return 6; }
  PLAIT_DEVICE End end_along_rail(unsigned i, const Step& step) const {
    const TreeRelatives& family = step.family;
    const int peer = i < 2 ? family.parent : i < 4 ? family.child[0] : family.child[1];
    const bool upwards = i % 2 == 0;
    RailPiece piece = step.added;  // a reference to one of the two would put both in memory
    if (!upwards) piece = step.finished;
    return {peer != TreePlace::none,
            upwards == (i < 2),
            upwards ? reducing : results,
            peer,
            piece.exists,
            Plan::number_in_tree(piece),
            piece.place};
  }

  PLAIT_DEVICE const P* incoming(unsigned way, int peer, const RailPiece& piece) const {
    return peer == TreePlace::none
               ? nullptr
               : rail_.template incoming<P>(way, peer, Plan::number_in_tree(piece));
  }
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, const RailPiece& piece) const {
    return peer == TreePlace::none
               ? nullptr
               : rail_.template outgoing<P>(way, peer, Plan::number_in_tree(piece));
  }

  PLAIT_DEVICE void add(const Step& step) {
    const TreeRelatives& family = step.family;
    const typename Base::template Partials<2> partials{
        {incoming(reducing, family.child[0], step.added),
         incoming(reducing, family.child[1], step.added)}};
    const bool is_root = family.is_root();
    // A root's slot is not used, but clang for AMD GPUs must not see null there: it would no longer
    // know that the sum goes to global memory.
    const int above = is_root ? family.child[0] : family.parent;
    Base::add(step.added, partials,
              rail_.template outgoing<P>(reducing, above, Plan::number_in_tree(step.added)),
              is_root, is_root);
  }
  PLAIT_DEVICE void push(const Step& step) {
    const TreeRelatives& family = step.family;
    Base::push(step.finished, outgoing(results, family.child[0], step.finished),
               outgoing(results, family.child[1], step.finished));
  }

  const Plan& plan_;
  std::uint32_t pieces_;  // of the stripe
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    RailsTree<T, D>(dev, a).run();
  }
};

}  // namespace plait::rails_tree
