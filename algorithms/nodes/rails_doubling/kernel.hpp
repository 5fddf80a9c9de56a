// All-reduce of ranks on several nodes in few hops: ranks of a node work together, and ranks of
// equal local number, a rail, exchange by recursive doubling.
//
// With R rails a message is cut into R blocks, one per rail. (A node may have more than R ranks;
// the others own no block.) A block is cut into one stripe per thread block, and a stripe into
// chunks. Let N be the number of nodes and p the largest power of two up to N. Nodes p and above
// are guests; the host of guest m is node m - p. Chunk k of each block goes through these stages:
//   1. Scatter: each rank pushes its terms to the ranks of all rails on its node.
//   2. Fold: the rank of a rail adds up the terms of all ranks of its node. A guest's rank pushes
//      the sum to the host's. The host's adds that to its own sum.
//   3. Double: for s = 0, 1, ... ranks of the first p nodes exchange their partial sums with node
//      XOR 2^s and add them, the lower node's first.
//   4. Unfold: the hosts' ranks push the result to the guests'.
//   5. Push: the rank of a rail pushes the result to all ranks of its node.
//   6. Gather: each rank takes the results of the other rails.
// Stages 2 to 4 are those of `DoublingSchedule`: in each, a rank receives at most one message, adds
// it, and pushes the sum to at most one node. Partial sums wait in the output.
//
// Stages lie some steps apart (plan.hpp), so that chunks are on their way while others are worked
// on. In a step, a thread block works on one chunk in each stage. It first waits for all that its
// stages need, and after them signals all that it has sent and used.
//
// Channels (algorithms/blocks/channels/channel.hpp proves that slots may be used again). On the
// node way 0 leads to the rank of a rail and way 1 from it. Along the rail a rank meets each peer
// in one stage per direction: partners differ from round to round, and a host sends to its guest
// only at the end. So in each direction a call needs one way and sends chunks 0, 1, ... on it, and
// calls use the two ways in turn (`turn_to_send` there). The `sync` of a step makes the block's
// release speak for all of its threads, and orders the steps of a block, so no other barrier is
// needed.
//
// Why it can't deadlock. A message about chunk k is pushed in step s + k of its sender and used in
// step s + k + d of its receiver, with one s and one d per channel: d is `lag` along the rail, on
// the node the step from scatter to a node's first stage, or from its last stage to gather. All
// nodes' stages keep that distance, because the first p nodes come one stage after the guests, if
// there are any, and guests take the result one stage after their hosts. 1 <= d < slots. Step j
// then waits for chunks that peers push in step j - d, and for slots of chunks that they empty in
// step j - slots + d. Both are before j. So of all thread blocks with one number on all ranks, one
// in the least step can go on. Proxies carry chunks without waiting for any kernel.
//
// In place is safe. No rank reads another's user buffers. Stages 1 and 2 read chunk k of the input:
// 2 that of the own block, which each thread overwrites where it has read; 1 that of the other
// blocks, which only stage 6 writes, in a later step, after a `sync`. In the own block a thread has
// the same packs of a chunk in all stages.
//
// All ranks get the same bits: the ranks of two partners add the same two sums in the same order,
// both as rounded to the type of the data. A node's sum is made on one rank. So by induction all
// first p nodes have the same bits after the last round, and the others copy them. The average is
// divided once, in that round.
//
// Cost: a hop on the node, log2(p) along the rail, two more if N is no power of two, and a hop on
// the node. Through a node's network log2(p) times the message in either direction, and once more
// at hosts.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/rail_stages.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/nodes/rails_doubling/plan.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::rails_doubling {

using Types = InRuns<ReducedTypes>;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // along the rail; of no use to a rank without one
  const void* send;
  void* recv;  // may equal send
  Plan plan;
  Reduction reduction;
};

template <class T, class D>
class RailsDoubling : private RailStages<RailsDoubling<T, D>, T, D, Args, 1> {
  using Base = RailStages<RailsDoubling, T, D, Args, 1>;
  friend Base;

 public:
  PLAIT_DEVICE RailsDoubling(D& dev, const Args& a)
      : Base(dev, a),
        plan_(a.plan),
        chunks_(plan_.chunks.count(Base::stripe_)),
        stages_(Base::has_rail() ? plan_.schedule.stages : 0) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = chunks_ == 0 ? 0 : chunks_ + plan_.gather;
    for (std::uint32_t j = 0; j < steps; ++j) {
      const Step step = step_at(j);
      if (!Base::ready(step, j)) return;
      if (step.scattered.exists) Base::scatter(step.scattered);
      for (int stage = 0; stage < stages_; ++stage)
        if (const RailPiece at = chunk(j - plan_.at(stage)); at.exists) advance(stage, at);
      if (step.finished.exists && Base::has_rail()) Base::push(step.finished, nullptr, nullptr);
      if (step.gathered.exists) Base::gather(step.gathered);
      Base::announce(step);
    }
    dev_.sync();  // all threads have read the counters
    Base::finish_on_node(chunks_);
    Base::finish_along_rail(step_at(0), chunks_);
    end_turn();
  }

 private:
  using Base::dev_, Base::own_, Base::rail_, Base::reducer_;
  using typename Base::End, typename Base::Output, typename Base::P;

  struct Step : RailStep {
    std::uint32_t number;
  };
  PLAIT_DEVICE Step step_at(std::uint32_t j) const {
    return {{chunk(j), chunk(j - plan_.first), chunk(j - plan_.last), chunk(j - plan_.gather)}, j};
  }
  /// A stage that has not begun has a large k.
  PLAIT_DEVICE RailPiece chunk(std::uint32_t k) const { return {k < chunks_, k, k}; }

  /// Two per stage.
  PLAIT_DEVICE unsigned ends_along_rail() const { return 2 * static_cast<unsigned>(stages_); }
  PLAIT_DEVICE End end_along_rail(unsigned i, const Step& step) const {
    const int stage = static_cast<int>(i / 2);
    const bool sends = i % 2 != 0;
    const int peer = (sends ? plan_.schedule.outgoing(stage) : plan_.schedule.incoming(stage)).peer;
    if (peer < 0) return {};
    const RailPiece at = chunk(step.number - plan_.at(stage));
    return {true,    sends,     sends ? rail_.turn_to_send(peer) : rail_.turn_to_receive(peer),
            peer,    at.exists, at.number,
            at.place};
  }

  /// After `finish_along_rail`, in which the same threads have the same ends.
  PLAIT_DEVICE void end_turn() const {
    const Step any = step_at(0);
    for (unsigned i = dev_.thread(); i < ends_along_rail(); i += dev_.threads()) {
      const End e = end_along_rail(i, any);
      if (!e.used) continue;
      if (e.sends) rail_.end_turn_to_send(e.peer);
      else rail_.end_turn_to_receive(e.peer);
    }
  }

  /// Takes a chunk through a stage of the rail.
  PLAIT_DEVICE void advance(int stage, const RailPiece& at) {
    const int from = plan_.schedule.incoming(stage).peer, to = plan_.schedule.outgoing(stage).peer;
    P* const slot =
        to < 0 ? nullptr : rail_.template outgoing<P>(rail_.turn_to_send(to), to, at.number);
    const Range range = Base::packs_of(own_, at.place);
    if (stage == 0) {
      const typename Base::template Partials<1> none{{nullptr}};
      Base::add(at, none, nullptr, true, false);
      // A host pushes the sum that has the guest's terms in it.
      if (from < 0) push_sum(range, slot);
    }
    if (from >= 0)
      meet(stage, from, range,
           rail_.template incoming<P>(rail_.turn_to_receive(from), from, at.number), slot);
  }

  /// Each thread reads the packs that it has stored.
  PLAIT_DEVICE void push_sum(const Range& range, P* slot) {
    const Output block = Base::block_out(own_);
    fill_slot<1>(dev_,
                 typename Base::Input(reinterpret_cast<const T*>(block.packs()), block.count()),
                 range, slot);
  }

  /// Adds what has arrived from a partner to the partial sum in the output. At guests it is the
  /// result.
  PLAIT_DEVICE void meet(int stage, int from, const Range& range, const P* arrived, P* slot) {
    const Output output = Base::block_out(own_);
    const Meeting meeting{.adds = !plan_.schedule.is_guest,
                          .own_first = plan_.schedule.rank < from,
                          .is_last = stage == plan_.schedule.rounds};
    if constexpr (is_untyped<T>) {
      meet_run(output, range, meeting, arrived, slot);
    } else {
      for_packs<1>(dev_, static_cast<std::uint32_t>(range.size()), output.whole_in(range),
                   [&]<int Count, bool Whole>(std::uint32_t first) {
                     meet_packs<Count, Whole>(output, range.begin, first, meeting, arrived, slot);
                   });
    }
  }
  struct Meeting {
    bool adds, own_first, is_last;
  };
  PLAIT_DEVICE void meet_run(const Output& output, const Range& range, const Meeting& meeting,
                             const P* arrived, P* slot) {
    if (range.size() == 0) return;
    P* const own = output.packs() + range.begin;
    const P* const terms[2] = {meeting.own_first && meeting.adds ? own : arrived,
                               meeting.own_first ? arrived : own};
    Base::reducer_.sum(
        dev_, {0, range.size()}, output.count() - range.begin * sizeof(P), 0, meeting.adds ? 2 : 1,
        [&](int i) { return terms[i]; }, slot == nullptr ? 1 : 2,
        [&](int i) { return i == 0 ? own : slot; }, meeting.adds && meeting.is_last);
  }
  template <int Count, bool Whole>
  PLAIT_DEVICE void meet_packs(const Output& output, std::size_t base, std::uint32_t first,
                               const Meeting& meeting, const P* arrived, P* slot) {
    P packs[Count];
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) packs[u] = dev_.load(arrived + first + u * dev_.threads());
    if (meeting.adds) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) {
        const P own = load_pack<Whole>(dev_, output, base + first + u * dev_.threads());
        const P lower = meeting.own_first ? own : packs[u];
        const P upper = meeting.own_first ? packs[u] : own;
        auto sum = reducer_.widened(lower);
        reducer_.add_partial(sum, upper);
        if (meeting.is_last) reducer_.average(sum);
        packs[u] = reducer_.template rounded<sizeof(P)>(sum);
      }
    }
    if (slot != nullptr) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) dev_.store(slot + first + u * dev_.threads(), packs[u]);
    }
    store_packs<Whole>(dev_, output, base + first, packs);
  }

  const Plan& plan_;
  std::uint32_t chunks_;
  int stages_;  // along the rail: none without one
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    RailsDoubling<T, D>(dev, a).run();
  }
};

}  // namespace plait::rails_doubling
