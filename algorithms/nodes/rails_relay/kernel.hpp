// All-reduce of ranks on many nodes: ranks of a node work together, and ranks of equal local
// number, a rail, pass pieces on from node to node. In `rails_ring` nodes form a ring, so a rank
// has two neighbours between nodes, however many there are. In `rails_tree` they form two binary
// trees, so hops grow with log2 of the nodes.
//
// With R rails and N nodes a message is cut into R blocks, one per rail. (A node may have more than
// R ranks; the others own no block.) A block is cut into one stripe per thread block, and a stripe
// into pieces that fit a slot. In a step, a thread block works on a piece in each of these stages
// (algorithms/blocks/channels/rail_stages.hpp):
//   1. Scatter: pushes its terms of all rails' pieces to the ranks of these rails on this node.
//   2. Sum: adds up what all ranks of the node have for the own rail's piece, adds the partial sums
//      that have arrived, and pushes the sum on. The last node has the result.
//   3. Pass: takes a result that has arrived, unless this is the last node. Pushes it on, and to
//      all ranks of this node.
//   4. Gather: takes the results of the other rails from the ranks of this node.
// Stages lie some steps apart, so that pieces are on their way while others are worked on.
//
// Ring. A stripe is cut into rounds, a round into N chunks, and a chunk into `lag` pieces. Piece by
// piece, chunks travel round the ring twice. In round after round, node m
//   - sends its sum of chunk m;
//   - receives chunks m - 1, ..., m - N + 2, adds its sums, and sends them on;
//   - receives chunk m + 1, adds its sum, has the result, and sends it;
//   - receives results m, ..., m - N + 3, and sends them on;
//   - receives result m + 2. This is done while the first chunk of the next round is sent.
// So a rank sends one piece in each turn, and uses it `lag` turns later (ring.hpp). Both sums and
// results use way 0 of the rail's channels.
//
// Trees. Even pieces use tree 0, odd ones tree 1, and so do steps. A node has children in at most
// one tree (algorithms/blocks/patterns/double_tree.hpp), so all nodes send about as much. Sums go
// up on way 0, results down on way 1. Rows are the steps of one tree: a node adds its terms `lag`
// rows before its parent, and knows a result `lag` rows after it (trees.hpp). It leaves out steps
// in which it has no piece, so a short message does not wait for rows. Two nodes are parent and
// child in one tree at most, in that order, so no channel has pieces of both trees, and piece k of
// a tree has number k there. On the node the pieces of both trees have one order, that of steps,
// which all its ranks compute alike.
//
// Why no barrier is missing. A step begins with a vote on what its waits saw, so no thread reads
// what has not arrived, or stores into a slot that is in use. Its signals come after a `sync`.
// Within a step, each thread pushes the packs of a result that it has stored. Stages 1 and 2 use
// way 0 of the node's channels, 3 and 4 way 1 (algorithms/blocks/channels/channel.hpp proves that
// slots may be used again).
//
// Why it can't deadlock. In each channel the piece with number k is pushed in a step s(k) of the
// sender, and used in step s(k) + d of the receiver, with the same d >= 1 for all k. No step pushes
// two pieces into one channel, and in trees every other step of the rail belongs to the other tree.
// So s(k) - s(k - slots) is at least `slots`, along the rail of trees 2 `slots`. That is more than
// d: `on_node` and `lag` in a ring; 2 `on_node`, and 2 `lag` along the rail, in trees. Step j then
// waits for pieces that peers push in step j - d, and for slots of pieces k - slots, which peers
// empty in step s(k - slots) + d < s(k) = j. Both are before j. So of all thread blocks with one
// number on all ranks, one in the least step can go on. Proxies carry pieces without waiting for
// any kernel.
//
// In place is safe. No rank reads another's user buffers. A piece's input is read in stage 1, and
// for the own rail in stage 2. Its result is stored in a later step, after a `sync`. Only the last
// node stores it in the same step: then each thread stores a sum where it has read the own term.
//
// All ranks get the same bits: a piece is summed along one path or tree, rounded at its end, then
// only copied. A partial sum travels in the type of the data; each node adds its ranks' terms in
// their order and then the partial sums, and rounds once.
//
// Cost: a hop on the node; along the rail 2 (N - 1) hops in a ring, 2 log2(N) in trees, for the
// first pieces, pipelined after them; a hop on the node. Through each node's network, in either
// direction: 2 (N - 1) / N of the message in a ring. In trees at most twice the message: an inner
// node of one tree sends its half up once and down twice, a leaf of the other its half up.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/rail_stages.hpp"
#include "algorithms/nodes/rails_relay/ring.hpp"
#include "algorithms/nodes/rails_relay/trees.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::rails_relay {

using Types = InRuns<ReducedTypes>;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // along the rail; of no use to a rank without one
  const void* send;
  void* recv;  // may equal send
  Plan plan;
  Links links[2];  // of this node: in the ring and none, or in each tree
  int depths[2];   // in each tree
  Reduction reduction;
};

template <class T, class D>
class RailsRelay : private RailStages<RailsRelay<T, D>, T, D, Args> {
  using Base = RailStages<RailsRelay, T, D, Args>;
  friend Base;

 public:
  PLAIT_DEVICE RailsRelay(D& dev, const Args& a)
      : Base(dev, a),
        plan_(a.plan),
        amount_(is_ring() ? Ring::rounds(plan_, Base::stripe_)
                          : plan_.pieces.count(Base::stripe_)) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = is_ring() ? ring().steps() : trees().steps();
    for (std::uint32_t j = 0; j < steps; ++j) {
      const Step step = step_at(j);
      if (!step.has_work()) continue;
      if (!Base::ready(step, j)) return;
      if (step.scattered.exists) Base::scatter(step.scattered);
      if (Base::has_rail()) {
        if (step.added.exists) add(step);
        if (step.finished.exists) pass(step);
      }
      if (step.gathered.exists) Base::gather(step.gathered);
      Base::announce(step);
    }
    dev_.sync();  // all threads have read the counters
    Base::finish_on_node(is_ring() ? ring().pieces() : amount_);
    Step all{};
    all.links = a_.links[0];
    Base::finish_along_rail(all, is_ring() ? ring().turns() : Trees::pieces(0, amount_));
    all.links = a_.links[1];
    Base::finish_along_rail(all, Trees::pieces(1, amount_));
  }

 private:
  using Base::a_, Base::dev_, Base::rail_;
  using typename Base::End, typename Base::P;
  static constexpr unsigned sums = 0;  // the way along the rail, and that of results:
  PLAIT_DEVICE unsigned results() const { return is_ring() ? 0 : 1; }

  PLAIT_DEVICE bool is_ring() const { return plan_.form == Form::ring; }
  PLAIT_DEVICE Ring ring() const { return {plan_, amount_}; }
  PLAIT_DEVICE Trees trees() const { return {plan_, amount_}; }
  PLAIT_DEVICE Step step_at(std::uint32_t j) const {
    if (is_ring()) return ring().at(j, a_.rail.rank, a_.links[0]);
    // Constant indices: see `indexed_arguments` in backends/device/device.hpp.
    Links own = a_.links[0];
    int depth = a_.depths[0], other = a_.depths[1];
    if (j % 2 != 0) {
      own = a_.links[1];
      other = depth;
      depth = a_.depths[1];
    }
    return trees().at(j, depth, other, own);
  }

  PLAIT_DEVICE unsigned ends_along_rail() const { return 6; }
  PLAIT_DEVICE End end_along_rail(unsigned i, const Step& step) const {
    const Links& links = step.links;
    const bool of_sum = i < 3, sends = i == 2 || i > 3;
    const int peer = i == 0   ? links.sums_from[0]
                     : i == 1 ? links.sums_from[1]
                     : i == 2 ? links.sums_to
                     : i == 3 ? links.results_from
                     : i == 4 ? links.results_to[0]
                              : links.results_to[1];
    RailPiece piece = step.added;  // a reference to one of the two would put both in memory
    std::uint32_t in = step.sums_in, out = step.sums_out;
    if (!of_sum) {
      piece = step.finished;
      in = step.results_in;
      out = step.results_out;
    }
    return {peer != Links::none, sends,      of_sum ? sums : results(), peer, piece.exists,
            sends ? out : in,    piece.place};
  }

  PLAIT_DEVICE const P* incoming(unsigned way, int peer, std::uint32_t k) const {
    return peer == Links::none ? nullptr : rail_.template incoming<P>(way, peer, k);
  }
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, std::uint32_t k) const {
    return peer == Links::none ? nullptr : rail_.template outgoing<P>(way, peer, k);
  }

  PLAIT_DEVICE void add(const Step& step) {
    const Links& links = step.links;
    const typename Base::template Partials<2> partials{
        {incoming(sums, links.sums_from[0], step.sums_in),
         incoming(sums, links.sums_from[1], step.sums_in)}};
    const bool is_last = links.sums_to == Links::none;
    // The last node's slot is not used, but clang for AMD GPUs must not see null there: it would no
    // longer know that the sum goes to global memory.
    const int to = is_last ? links.sums_from[0] : links.sums_to;
    Base::add(step.added, partials, rail_.template outgoing<P>(sums, to, step.sums_out), is_last,
              is_last);
  }
  PLAIT_DEVICE void pass(const Step& step) {
    const Links& links = step.links;
    if (links.results_from != Links::none)
      Base::take(step.finished, incoming(results(), links.results_from, step.results_in));
    Base::push(step.finished, outgoing(results(), links.results_to[0], step.results_out),
               outgoing(results(), links.results_to[1], step.results_out));
  }

  const Plan& plan_;
  std::uint32_t amount_;  // of the stripe: rounds of the ring, or pieces of the trees
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    RailsRelay<T, D>(dev, a).run();
  }
};

}  // namespace plait::rails_relay
