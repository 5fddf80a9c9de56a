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
// In a step, a thread block does the work of one turn in each of these stages:
//   1. Scatter: pushes its terms of all rails' pieces to the ranks of these rails on this node.
//   2. Ring: adds up what all ranks of the node have for the own rail's piece, adds the partial sum
//      that has arrived, and pushes the sum to the next node. Pushes a result that has arrived to
//      the next node. Pushes each result to all ranks of this node.
//   3. Gather: takes the results of the other rails from the ranks of this node.
// Stages lie `on_node` steps apart, so that pieces are on their way while others are worked on. A
// step first waits for all that its stages need, and after them signals all that it has sent and
// used.
//
// Stages 1 and 2 use way 0 of the node's channels, 2 and 3 way 1; stage 2 uses way 0 of the rail's
// channels (algorithms/blocks/channels/channel.hpp proves that slots may be used again).
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
#pragma once
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
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
class RailsRing {
 public:
  PLAIT_DEVICE RailsRing(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        plan_(a.plan),
        own_(a.node.rank),
        next_(a.rail.rank + 1 < a.plan.nodes ? a.rail.rank + 1 : 0),
        previous_((a.rail.rank != 0 ? a.rail.rank : a.plan.nodes) - 1),
        node_(a.node, dev.block()),
        rail_(a.rail, dev.block()),
        reducer_(a.reduction),
        stripe_(plan_.stripes.at(dev.block())),
        rounds_(plan_.rounds(stripe_)),
        turns_(plan_.turns(rounds_)) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = turns_ == 0 ? 0 : turns_ + plan_.lag + 2 * plan_.on_node;
    for (std::uint32_t j = 0; j < steps; ++j) {
      const Step step = step_at(j);
      if (!ready(step, j)) return;
      if (step.scattered.exists) scatter(step.scattered);
      if (has_rail()) {
        if (step.finished.exists && !is_sum(step)) pass_on(step);
        if (step.added.exists) add(step);
        if (step.finished.exists) push_on_node(step.finished);
      }
      if (step.gathered.exists) gather(step.gathered);
      announce(step);
    }
    finish();
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  using Piece = Plan::Piece;
  static constexpr int in_flight = packs_in_flight<T, D>;
  // In a longer kernel clang for AMD GPUs no longer sees that the pointers in Args lead to global
  // memory.
  static constexpr int sums_in_flight = sizeof(T) == 1 ? 1 : in_flight;
  static constexpr unsigned down = 0, up = 1;  // ways on the node: to the rail's rank, and from it
  static constexpr unsigned along = 0;         // the way along the rail

  /// The work of a step.
  struct Step {
    std::uint32_t turn;  // of the ring; large if it has not begun
    Piece scattered, added, finished, gathered;
  };
  PLAIT_DEVICE Step step_at(std::uint32_t j) const {
    const std::uint32_t turn = j - plan_.on_node, last = turn - plan_.on_node;
    const int node = a_.rail.rank;
    return {turn, plan_.term(j, rounds_, node), plan_.term(turn, rounds_, node),
            plan_.result(turn, rounds_, node), plan_.result(last, rounds_, node)};
  }
  PLAIT_DEVICE bool has_rail() const { return own_ < plan_.rails; }
  PLAIT_DEVICE bool sends(const Step& step) const { return step.turn < turns_; }
  PLAIT_DEVICE std::uint32_t received(const Step& step) const { return step.turn - plan_.lag; }
  PLAIT_DEVICE bool receives(const Step& step) const { return received(step) < turns_; }
  /// Whether the result of this step is the sum that it makes.
  PLAIT_DEVICE bool is_sum(const Step& step) const {
    return step.added.exists && plan_.is_last(step.turn);
  }

  PLAIT_DEVICE Input block_in(int rail) const {
    const Range block = plan_.blocks.at(static_cast<unsigned>(rail));
    return {static_cast<const T*>(a_.send) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  PLAIT_DEVICE Output block_out(int rail) const {
    const Range block = plan_.blocks.at(static_cast<unsigned>(rail));
    return {static_cast<T*>(a_.recv) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  /// A piece of a rail's block, in packs. The last block may be shorter than the others.
  PLAIT_DEVICE Range packs_of(int rail, const Piece& piece) const {
    const std::size_t size = plan_.blocks.at(static_cast<unsigned>(rail)).size();
    Range range = plan_.bytes_of(piece, stripe_);
    if (range.begin > size) range.begin = size;
    if (range.end > size) range.end = size;
    return in_packs<D::pack_bytes>(range);
  }

  /// An end of a channel. Those on the node are numbered, and spread over the threads, and so are
  /// the two along the rail.
  struct End {
    bool used;  // by the call
    bool sends;
    unsigned way;
    int peer;
    bool is_due;      // in the step
    std::uint32_t k;  // the piece that it has then
  };
  PLAIT_DEVICE unsigned ends_on_node() const { return 4 * static_cast<unsigned>(a_.node.ranks); }
  PLAIT_DEVICE End end_on_node(unsigned i, const Step& step) const {
    const int peer = static_cast<int>(i / 4);
    const bool with_all = peer != own_ && has_rail(),
               with_rails = peer != own_ && peer < plan_.rails;
    switch (i % 4) {
      case 0:
        return {with_rails, true, down, peer, step.scattered.exists, step.scattered.number};
      case 1:
        return {with_all, false, down, peer, step.added.exists, step.added.number};
      case 2:
        return {with_all, true, up, peer, step.finished.exists, step.finished.number};
      default:
        return {with_rails, false, up, peer, step.gathered.exists, step.gathered.number};
    }
  }
  PLAIT_DEVICE unsigned ends_along_rail() const { return has_rail() ? 2 : 0; }
  PLAIT_DEVICE End end_along_rail(unsigned i, const Step& step) const {
    if (i == 0) return {true, true, along, next_, sends(step), step.turn};
    return {true, false, along, previous_, receives(step), received(step)};
  }

  /// Asks the block twice whether all is there: between two waits without a vote, clang for AMD
  /// GPUs makes a loop in which a way leads past the invalidation of the caches.
  PLAIT_DEVICE bool ready(const Step& step, std::uint32_t j) {
    bool ok = true;
    for (unsigned i = dev_.thread(); ok && i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, step);
      if (e.used && e.is_due) ok = wait_for(node_, a_.node, e, j);
    }
    if (!dev_.all(ok)) return false;
    for (unsigned i = dev_.thread(); ok && i < ends_along_rail(); i += dev_.threads()) {
      const End e = end_along_rail(i, step);
      if (e.is_due) ok = wait_for(rail_, a_.rail, e, j);
    }
    return dev_.all(ok);
  }
  PLAIT_DEVICE bool wait_for(const BlockGroupChannels& channels, const GroupChannels& all,
                             const End& e, std::uint32_t j) {
    const ChannelWait wait =
        e.sends ? channels.may_send(e.way, e.peer, e.k) : channels.has_arrived(e.way, e.peer, e.k);
    return dev_.wait(wait.word, wait.at_least, {all.number_of(e.peer), j});
  }

  PLAIT_DEVICE void announce(const Step& step) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for (unsigned i = dev_.thread(); i < ends_along_rail(); i += dev_.threads()) {
      const End e = end_along_rail(i, step);
      if (e.is_due) signal(rail_, e, bytes_sent(step));
    }
    for (unsigned i = dev_.thread(); i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, step);
      if (e.used && e.is_due) signal(node_, e, 0);  // its bytes interest no proxy
    }
  }
  PLAIT_DEVICE void signal(const BlockGroupChannels& channels, const End& e, std::size_t bytes) {
    const ChannelSignal signal = e.sends ? channels.publish(e.way, e.peer, e.k, bytes)
                                         : channels.consume(e.way, e.peer, e.k);
    dev_.signal(signal.word, signal.value);
  }
  /// Along the rail.
  PLAIT_DEVICE std::size_t bytes_sent(const Step& step) const {
    const Piece sent{true, 0, step.added.exists ? +step.added.place : +step.finished.place};
    return packs_of(own_, sent).size() * sizeof(P);
  }

  PLAIT_DEVICE void finish() {
    dev_.sync();  // all threads have read the counters
    const Step any = step_at(0);
    for (unsigned i = dev_.thread(); i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, any);
      if (e.used) advance(node_, e, plan_.pieces(rounds_));
    }
    for (unsigned i = dev_.thread(); i < ends_along_rail(); i += dev_.threads())
      advance(rail_, end_along_rail(i, any), turns_);
  }
  PLAIT_DEVICE static void advance(const BlockGroupChannels& channels, const End& e,
                                   std::uint32_t pieces) {
    if (e.sends) channels.advance_sent(e.way, e.peer, pieces);
    else channels.advance_received(e.way, e.peer, pieces);
  }

  PLAIT_DEVICE void scatter(const Piece& piece) {
    for (int q = 0; q < plan_.rails; ++q)
      if (q != own_)
        fill_slot<in_flight>(dev_, block_in(q), packs_of(q, piece),
                             node_.template outgoing<P>(down, q, piece.number));
  }

  /// Adds the terms of all ranks of the node, in their order, and the partial sum that has arrived.
  PLAIT_DEVICE void add(const Step& step) {
    const bool is_last = plan_.is_last(step.turn);
    const P* const partials = plan_.has_partial(step.turn)
                                  ? rail_.template incoming<P>(along, previous_, received(step))
                                  : nullptr;
    P* const slot = rail_.template outgoing<P>(along, next_, step.turn);
    const Range range = packs_of(own_, step.added);
    const Input own = block_in(own_);
    const Output to = block_out(own_);
    const bool whole = range.end <= own.whole() && (!is_last || range.end <= to.whole());
    for_packs<sums_in_flight>(dev_, static_cast<std::uint32_t>(range.size()), whole,
                              [&]<int Count, bool Whole>(std::uint32_t first) {
                                add_packs<Count, Whole>(own, to, range.begin, first,
                                                        step.added.number, partials, slot, is_last);
                              });
  }
  template <int Count, bool Whole>
  PLAIT_DEVICE void add_packs(const Input& own, const Output& to, std::size_t base,
                              std::uint32_t first, std::uint32_t number, const P* partials, P* slot,
                              bool is_last) {
    P packs[Count];
    using Sum = decltype(reducer_.start(packs[0]));
    Sum sum[Count];
    for (int p = 0; p < a_.node.ranks; ++p) {
      load_terms<Whole>(p, own, base, first, number, packs);
      if (p == 0) {
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) sum[u] = reducer_.start(packs[u]);
      } else {
        reducer_.add_each(sum, packs);
      }
    }
    if (partials != nullptr) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = dev_.load(partials + first + u * dev_.threads());
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) reducer_.add_partial(sum[u], packs[u]);
    }
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) {
      if (is_last) reducer_.average(sum[u]);
      packs[u] = reducer_.template rounded<sizeof(P)>(sum[u]);
      dev_.store(slot + first + u * dev_.threads(), packs[u]);
    }
    if (is_last) store_packs<Whole>(dev_, to, base + first, packs);
  }
  /// The terms of rank p of the node.
  template <bool Whole, int Count>
  PLAIT_DEVICE void load_terms(int p, const Input& own, std::size_t base, std::uint32_t first,
                               std::uint32_t number, P (&packs)[Count]) {
    if (p == own_) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u)
        packs[u] = load_pack<Whole>(dev_, own, base + first + u * dev_.threads());
    } else {
      const P* const slot = node_.template incoming<P>(down, p, number);
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = dev_.load(slot + first + u * dev_.threads());
    }
  }

  /// Stores a result that has arrived, and sends it on unless it has been everywhere.
  PLAIT_DEVICE void pass_on(const Step& step) {
    const P* const from = rail_.template incoming<P>(along, previous_, received(step));
    P* const slot =
        plan_.goes_on(step.turn) ? rail_.template outgoing<P>(along, next_, step.turn) : nullptr;
    const Range range = packs_of(own_, step.finished);
    const Output to = block_out(own_);
    for_packs<in_flight>(dev_, static_cast<std::uint32_t>(range.size()), range.end <= to.whole(),
                         [&]<int Count, bool Whole>(std::uint32_t first) {
                           pass_packs<Count, Whole>(to, range.begin, first, from, slot);
                         });
  }
  template <int Count, bool Whole>
  PLAIT_DEVICE void pass_packs(const Output& to, std::size_t base, std::uint32_t first,
                               const P* from, P* slot) {
    P packs[Count];
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) packs[u] = dev_.load(from + first + u * dev_.threads());
    if (slot != nullptr) {
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) dev_.store(slot + first + u * dev_.threads(), packs[u]);
    }
    store_packs<Whole>(dev_, to, base + first, packs);
  }

  /// Each thread reads the packs that it has stored.
  PLAIT_DEVICE void push_on_node(const Piece& piece) {
    const Output block = block_out(own_);
    const Input from(reinterpret_cast<const T*>(block.packs()), block.count());
    for (int p = 0; p < a_.node.ranks; ++p)
      if (p != own_)
        fill_slot<in_flight>(dev_, from, packs_of(own_, piece),
                             node_.template outgoing<P>(up, p, piece.number));
  }

  PLAIT_DEVICE void gather(const Piece& piece) {
    for (int q = 0; q < plan_.rails; ++q)
      if (q != own_)
        empty_slot<in_flight>(dev_, node_.template incoming<P>(up, q, piece.number), block_out(q),
                              packs_of(q, piece));
  }

  D& dev_;
  const Args& a_;
  const Plan& plan_;
  int own_;              // number on the node
  int next_, previous_;  // nodes
  BlockGroupChannels node_, rail_;
  Reducer<T> reducer_;
  Range stripe_;
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
