// All-reduce of ranks on many nodes: ranks of a node work together, and ranks of equal local
// number, a rail, form a ring. A rank has two neighbours between nodes, however many there are.
//
// With R rails and N nodes a message is cut into R blocks, one per rail. (A node may have more than
// R ranks; the others own no block.) A block is cut into one stripe per thread block, a stripe into
// rounds, a round into N chunks, and a chunk into `lag` pieces that fit a slot each. Piece by
// piece, chunks travel round the ring twice. In round after round, node m
//   - sends its sum of chunk m;
//   - receives chunks m - 1, ..., m - N + 2, adds its sums, and sends them on;
//   - receives chunk m + 1, adds its sum, has the result, and sends it;
//   - receives results m, ..., m - N + 3, and sends them on;
//   - receives result m + 2. This is done while the first chunk of the next round is sent.
// So a rank sends one piece in each turn, and uses it `lag` turns later (plan.hpp).
//
// In a step, a thread block does the work of one turn in each of these stages
// (algorithms/blocks/channels/rail_stages.hpp):
//   1. Scatter: pushes its terms of all rails' pieces to the ranks of these rails on this node.
//   2. Ring: adds up what all ranks of the node have for the own rail's piece, adds the partial sum
//      that has arrived, and pushes the sum to the next node. Pushes a result that has arrived to
//      the next node. Pushes each result to all ranks of this node.
//   3. Gather: takes the results of the other rails from the ranks of this node.
// Stages lie `on_node` steps apart, so that pieces are on their way while others are worked on.
//
// Stage 2 uses way 0 of the rail's channels (algorithms/blocks/channels/channel.hpp proves that
// slots may be used again).
//
// Why it can't deadlock. In each channel the piece with number k is pushed in a step s(k) of the
// sender, and used in step s(k) + d of the receiver: d is `on_node` or `lag`, at least one and less
// than the number of slots. No step pushes two pieces into one channel, so s grows with k by one at
// least. Step j then waits for pieces that peers push in step j - d, and for slots of pieces
// k - slots, which peers empty in step s(k - slots) + d <= j - slots + d. Both are before j. So of
// all thread blocks with one number on all ranks, one in the least step can go on. Proxies carry
// pieces without waiting for any kernel.
//
// In place is safe. No rank reads another's user buffers. A piece's input is read in stage 1, and
// for the own rail in stage 2, in one of the first N stages of the ring. Its result is stored there
// in the last N stages, so in a later turn or, for the last terms, in the same: then each thread
// stores a sum where it has read the own term. Stage 3 stores it after a `sync`, because it is a
// later step than stage 1 of the same turn.
//
// All ranks get the same bits: a piece is summed along one path, then only copied. A partial sum
// travels in the type of the data; each node adds its ranks' terms in their order and then the
// partial sum, and rounds once.
//
// Cost: a hop on the node, 2 (N - 1) along the rail for the first round, pipelined after it, and a
// hop on the node. Through each node's network 2 (N - 1) / N of the message in either direction.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/rail_stages.hpp"
#include "algorithms/nodes/rails_ring/plan.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::rails_ring {

using Types = ReducedTypes;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // along the rail; of no use to a rank without one
  const void* send;
  void* recv;  // may equal send
  Plan plan;
  Reduction reduction;
};

template <class T, class D>
class RailsRing : private RailStages<RailsRing<T, D>, T, D, Args> {
  using Base = RailStages<RailsRing, T, D, Args>;
  friend Base;

 public:
  PLAIT_DEVICE RailsRing(D& dev, const Args& a)
      : Base(dev, a),
        plan_(a.plan),
        next_(a.rail.rank + 1 < a.plan.nodes ? a.rail.rank + 1 : 0),
        previous_((a.rail.rank != 0 ? a.rail.rank : a.plan.nodes) - 1),
        rounds_(plan_.rounds(Base::stripe_)),
        turns_(plan_.turns(rounds_)) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = turns_ == 0 ? 0 : turns_ + plan_.lag + 2 * plan_.on_node;
    for (std::uint32_t j = 0; j < steps; ++j) {
      const Step step = step_at(j);
      if (!Base::ready(step, j)) return;
      if (step.scattered.exists) Base::scatter(step.scattered);
      if (Base::has_rail()) {
        if (step.added.exists) add(step);
        if (step.finished.exists && !is_sum(step)) Base::take(step.finished, incoming(step));
        if (step.finished.exists) push(step);
      }
      if (step.gathered.exists) Base::gather(step.gathered);
      Base::announce(step);
    }
    dev_.sync();  // all threads have read the counters
    Base::finish_on_node(plan_.pieces(rounds_));
    Base::finish_along_rail(step_at(0), turns_);
  }

 private:
  using Base::a_, Base::dev_, Base::rail_;
  using typename Base::End, typename Base::P;
  static constexpr unsigned along = 0;  // the way along the rail

  struct Step : RailStep {
    std::uint32_t turn;  // of the ring; large if it has not begun
  };
  PLAIT_DEVICE Step step_at(std::uint32_t j) const {
    const std::uint32_t turn = j - plan_.on_node, last = turn - plan_.on_node;
    const int node = a_.rail.rank;
    return {{plan_.term(j, rounds_, node), plan_.term(turn, rounds_, node),
             plan_.result(turn, rounds_, node), plan_.result(last, rounds_, node)},
            turn};
  }
  PLAIT_DEVICE bool sends(const Step& step) const { return step.turn < turns_; }
  PLAIT_DEVICE std::uint32_t received(const Step& step) const { return step.turn - plan_.lag; }
  PLAIT_DEVICE bool receives(const Step& step) const { return received(step) < turns_; }
  /// Whether the result of this step is the sum that it makes.
  PLAIT_DEVICE bool is_sum(const Step& step) const {
    return step.added.exists && plan_.is_last(step.turn);
  }

  PLAIT_DEVICE unsigned ends_along_rail() const { return 2; }
  PLAIT_DEVICE End end_along_rail(unsigned i, const Step& step) const {
    if (i != 0) return {true, false, along, previous_, receives(step), received(step), 0};
    return {true,
            true,
            along,
            next_,
            sends(step),
            step.turn,
            step.added.exists ? step.added.place : step.finished.place};
  }
  PLAIT_DEVICE const P* incoming(const Step& step) const {
    return rail_.template incoming<P>(along, previous_, received(step));
  }
  PLAIT_DEVICE P* outgoing(const Step& step) const {
    return rail_.template outgoing<P>(along, next_, step.turn);
  }

  PLAIT_DEVICE void add(const Step& step) {
    const typename Base::template Partials<1> partials{
        {plan_.has_partial(step.turn) ? incoming(step) : nullptr}};
    const bool is_last = plan_.is_last(step.turn);
    Base::add(step.added, partials, outgoing(step), is_last, is_last);
  }
  /// To the next node, too, unless the result has been everywhere.
  PLAIT_DEVICE void push(const Step& step) {
    Base::push(step.finished, plan_.goes_on(step.turn) ? outgoing(step) : nullptr, nullptr);
  }

  const Plan& plan_;
  int next_, previous_;  // nodes
  std::uint32_t rounds_, turns_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    RailsRing<T, D>(dev, a).run();
  }
};

}  // namespace plait::rails_ring
