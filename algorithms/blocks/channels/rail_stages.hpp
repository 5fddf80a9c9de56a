// The work of a thread block in an all-reduce in which ranks of a node work together and ranks of
// equal local number, a rail, pass pieces of a block to each other. Kernels say along which way
// pieces travel between nodes; how ranks of a node share the work is the same for all:
//   1. Scatter: pushes its terms of all rails' pieces to the ranks of these rails on this node.
//   2. Along the rail: adds up what all ranks of the node have for the own rail's piece, adds the
//      partial sums that have arrived, and pushes the sum on; or passes on a result that has
//      arrived. Pushes each result to all ranks of this node.
//   3. Gather: takes the results of the other rails from the ranks of this node.
// Stages 1 and 2 use way 0 of the node's channels, 2 and 3 way 1. A step first waits for all that
// its stages need (`ready`), and after them signals all that it has sent and used (`announce`).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/rail_step.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/untyped.hpp"

namespace plait {

/// Base class of a kernel's `Self`, which has, of the ends of its channels along the rail,
///   unsigned ends_along_rail() const;  // how many a step has
///   End end_along_rail(unsigned i, const Step& step) const;
/// `Step` is a `RailStep` or more. `Args` has members `node` and `rail` (GroupChannels), `send`,
/// `recv`, `reduction`, and a `plan` with `rails`, `blocks`, `stripes` and `bytes_of`. `InFlight`:
/// packs that a thread has in flight. One makes less code, for small messages.
template <class Self, class T, class D, class Args, int InFlight = packs_in_flight<T, D>>
class RailStages {
 protected:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr int in_flight = InFlight;
  // In a longer kernel clang for AMD GPUs no longer sees that the pointers in Args lead to global
  // memory.
  static constexpr int sums_in_flight = sizeof(T) == 1 ? 1 : in_flight;
  static constexpr unsigned down = 0, up = 1;  // ways on the node: to the rail's rank, and from it

  PLAIT_DEVICE RailStages(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        own_(a.node.rank),
        node_(a.node, dev.block()),
        rail_(a.rail, dev.block()),
        reducer_(a.reduction),
        stripe_(a.plan.stripes.at(dev.block())) {}

  PLAIT_DEVICE bool has_rail() const { return own_ < a_.plan.rails; }

  PLAIT_DEVICE Input block_in(int rail) const {
    const Range block = a_.plan.blocks.at(static_cast<unsigned>(rail));
    return {static_cast<const T*>(a_.send) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  PLAIT_DEVICE Output block_out(int rail) const {
    const Range block = a_.plan.blocks.at(static_cast<unsigned>(rail));
    return {static_cast<T*>(a_.recv) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  /// A piece of a rail's block, in packs. The last block may be shorter than the others.
  PLAIT_DEVICE Range packs_of(int rail, std::uint32_t place) const {
    const std::size_t size = a_.plan.blocks.at(static_cast<unsigned>(rail)).size();
    Range range = a_.plan.bytes_of(place, stripe_);
    if (range.begin > size) range.begin = size;
    if (range.end > size) range.end = size;
    return in_packs<D::pack_bytes>(range);
  }

  /// The slots of partial sums.
  template <int From>
  struct Partials {
    const P* slots[From];
  };

  /// An end of a channel. Those on the node are numbered, and spread over the threads, and so are
  /// those along the rail.
  struct End {
    bool used;  // by the call
    bool sends;
    unsigned way;
    int peer;
    bool is_due;          // in the step
    std::uint32_t k;      // the piece that it has then
    std::uint32_t place;  // of that piece in the stripe; only along the rail
  };

  /// Asks the block twice whether all is there: between two waits without a vote, clang for AMD
  /// GPUs makes a loop in which a way leads past the invalidation of the caches.
  template <class Step>
  PLAIT_DEVICE bool ready(const Step& step, std::uint32_t j) {
    bool ok = true;
    for (unsigned i = dev_.thread(); ok && i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, step);
      if (e.used && e.is_due) ok = wait_for(node_, a_.node, e, j);
    }
    if (!dev_.all(ok)) return false;
    for (unsigned i = dev_.thread(); ok && i < ends_along_rail(); i += dev_.threads()) {
      const End e = self().end_along_rail(i, step);
      if (e.used && e.is_due) ok = wait_for(rail_, a_.rail, e, j);
    }
    return dev_.all(ok);
  }

  template <class Step>
  PLAIT_DEVICE void announce(const Step& step) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for (unsigned i = dev_.thread(); i < ends_along_rail(); i += dev_.threads()) {
      const End e = self().end_along_rail(i, step);
      if (e.used && e.is_due) signal(rail_, e, packs_of(own_, e.place).size() * sizeof(P));
    }
    for (unsigned i = dev_.thread(); i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, step);
      if (e.used && e.is_due) signal(node_, e, 0);  // its bytes interest no proxy
    }
  }

  /// At the end of a call, after a `sync`: counts the pieces in all channels on the node, and in
  /// those along the rail that `step` has.
  PLAIT_DEVICE void finish_on_node(std::uint32_t pieces) {
    for (unsigned i = dev_.thread(); i < ends_on_node(); i += dev_.threads()) {
      const End e = end_on_node(i, RailStep{});
      if (e.used) advance(node_, e, pieces);
    }
  }
  template <class Step>
  PLAIT_DEVICE void finish_along_rail(const Step& step, std::uint32_t pieces) {
    for (unsigned i = dev_.thread(); i < ends_along_rail(); i += dev_.threads()) {
      const End e = self().end_along_rail(i, step);
      if (e.used) advance(rail_, e, pieces);
    }
  }

  PLAIT_DEVICE void scatter(const RailPiece& piece) {
    for (int q = 0; q < a_.plan.rails; ++q)
      if (q != own_)
        fill_slot<in_flight>(dev_, block_in(q), packs_of(q, piece.place),
                             node_.template outgoing<P>(down, q, piece.number));
  }

  /// Adds the terms of all ranks of the node, in their order, and the partial sums that have
  /// arrived; a null one is not there. Stores the sum in `slot`, or in the output if it `stays`.
  /// `is_last`: it is the result.
  template <int From>
  PLAIT_DEVICE void add(const RailPiece& piece, const Partials<From>& partials, P* slot, bool stays,
                        bool is_last) {
    const Range range = packs_of(own_, piece.place);
    const Input own = block_in(own_);
    const Output to = stays ? block_out(own_) : as_buffer(slot, range.size());
    const std::size_t begin = stays ? range.begin : 0;
    if constexpr (is_untyped<T>) {
      if (range.size() != 0)
        add_run(own, range, to.packs() + begin, piece.number, partials, is_last);
    } else {
      const std::uint32_t whole =
          both_whole(own.whole_in(range), to.whole_in({begin, begin + range.size()}));
      for_packs<sums_in_flight>(dev_, static_cast<std::uint32_t>(range.size()), whole,
                                [&]<int Count, bool Whole>(std::uint32_t first) {
                                  add_packs<Count, Whole>(own, range.begin + first, to,
                                                          begin + first, first, piece.number,
                                                          partials, is_last);
                                });
    }
  }
  /// Stores a result that has arrived.
  PLAIT_DEVICE void take(const RailPiece& piece, const P* slot) {
    empty_slot<in_flight>(dev_, slot, block_out(own_), packs_of(own_, piece.place));
  }
  /// Pushes a result to one or two ranks along the rail, whose slots may be null, and to all ranks
  /// of this node. Each thread reads the packs that it has stored.
  PLAIT_DEVICE void push(const RailPiece& piece, P* first, P* second) {
    const Output block = block_out(own_);
    const Input from(reinterpret_cast<const T*>(block.packs()), block.count());
    for (int p = -2; p < a_.node.ranks; ++p) {
      P* const slot = p == -2     ? first
                      : p == -1   ? second
                      : p == own_ ? nullptr
                                  : node_.template outgoing<P>(up, p, piece.number);
      if (slot != nullptr) fill_slot<in_flight>(dev_, from, packs_of(own_, piece.place), slot);
    }
  }

  PLAIT_DEVICE void gather(const RailPiece& piece) {
    for (int q = 0; q < a_.plan.rails; ++q)
      if (q != own_)
        empty_slot<in_flight>(dev_, node_.template incoming<P>(up, q, piece.number), block_out(q),
                              packs_of(q, piece.place));
  }

  D& dev_;
  const Args& a_;
  int own_;  // number on the node
  BlockGroupChannels node_, rail_;
  Reducer<T> reducer_;
  Range stripe_;

 private:
  PLAIT_DEVICE const Self& self() const { return static_cast<const Self&>(*this); }
  PLAIT_DEVICE unsigned ends_along_rail() const {
    return has_rail() ? self().ends_along_rail() : 0;
  }
  PLAIT_DEVICE unsigned ends_on_node() const { return 4 * static_cast<unsigned>(a_.node.ranks); }
  PLAIT_DEVICE End end_on_node(unsigned i, const RailStep& step) const {
    const int peer = static_cast<int>(i / 4);
    const bool with_all = peer != own_ && has_rail(),
               with_rails = peer != own_ && peer < a_.plan.rails;
    switch (i % 4) {
      case 0:
        return {with_rails, true, down, peer, step.scattered.exists, step.scattered.number, 0};
      case 1:
        return {with_all, false, down, peer, step.added.exists, step.added.number, 0};
      case 2:
        return {with_all, true, up, peer, step.finished.exists, step.finished.number, 0};
      default:
        return {with_rails, false, up, peer, step.gathered.exists, step.gathered.number, 0};
    }
  }

  PLAIT_DEVICE bool wait_for(const BlockGroupChannels& channels, const GroupChannels& all,
                             const End& e, std::uint32_t j) {
    const ChannelWait wait =
        e.sends ? channels.may_send(e.way, e.peer, e.k) : channels.has_arrived(e.way, e.peer, e.k);
    return dev_.wait(wait.word, wait.at_least, {all.number_of(e.peer), j});
  }
  PLAIT_DEVICE void signal(const BlockGroupChannels& channels, const End& e, std::size_t bytes) {
    const ChannelSignal signal = e.sends ? channels.publish(e.way, e.peer, e.k, bytes)
                                         : channels.consume(e.way, e.peer, e.k);
    dev_.signal(signal.word, signal.value);
  }
  PLAIT_DEVICE static void advance(const BlockGroupChannels& channels, const End& e,
                                   std::uint32_t pieces) {
    if (e.sends) channels.advance_sent(e.way, e.peer, pieces);
    else channels.advance_received(e.way, e.peer, pieces);
  }

  PLAIT_DEVICE static Output as_buffer(P* slot, std::size_t packs) {
    return {reinterpret_cast<T*>(slot), packs * P::lanes};
  }
  template <int From>
  PLAIT_DEVICE void add_run(const Input& own, const Range& range, P* to, std::uint32_t number,
                            const Partials<From>& partials, bool is_last) {
    const P* arrived[From];
    int there = 0;
    for (const P* const slot : partials.slots)
      if (slot != nullptr) arrived[there++] = slot;
    const int ranks = a_.node.ranks;
    reducer_.sum(
        dev_, {0, range.size()}, own.count() - range.begin * sizeof(P), ranks, ranks + there,
        [&](int i) {
          return i == own_    ? own.packs() + range.begin
                 : i >= ranks ? arrived[i - ranks]
                              : node_.template incoming<P>(down, i, number);
        },
        1, [&](int) { return to; }, is_last);
  }
  /// Packs from `at` on of the input, to those from `target` on. In slots they begin at `first`.
  template <int Count, bool Whole, int From>
  PLAIT_DEVICE void add_packs(const Input& own, std::size_t at, const Output& to,
                              std::size_t target, std::uint32_t first, std::uint32_t number,
                              const Partials<From>& partials, bool is_last) {
    P packs[Count];
    using Sum = decltype(reducer_.start(packs[0]));
    Sum sum[Count];
    for (int p = 0; p < a_.node.ranks; ++p) {
      if (p == own_) {
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u)
          packs[u] = load_pack<Whole>(dev_, own, at + u * dev_.threads());
      } else {
        load_slot(node_.template incoming<P>(down, p, number), first, packs);
      }
      if (p == 0) {
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) sum[u] = reducer_.start(packs[u]);
      } else {
        reducer_.add_each(sum, packs);
      }
    }
    PLAIT_UNROLL
    for (int s = 0; s < From; ++s) {
      if (partials.slots[s] == nullptr) continue;
      load_slot(partials.slots[s], first, packs);
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) reducer_.add_partial(sum[u], packs[u]);
    }
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) {
      if (is_last) reducer_.average(sum[u]);
      packs[u] = reducer_.template rounded<sizeof(P)>(sum[u]);
    }
    store_packs<Whole>(dev_, to, target, packs);
  }
  /// In a slot, a piece begins at pack 0.
  template <int Count>
  PLAIT_DEVICE void load_slot(const P* slot, std::uint32_t first, P (&packs)[Count]) {
    PLAIT_UNROLL
    for (int u = 0; u < Count; ++u) packs[u] = dev_.load(slot + first + u * dev_.threads());
  }
};

}  // namespace plait
