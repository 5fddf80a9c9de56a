// One hop, in flagged units: every rank sends its blocks straight to the ranks they are for, and
// receives the blocks that are for it. All-gather, all-to-all, broadcast, gather and scatter need
// no more than that. Reduce-scatter and reduce add up the blocks that a rank receives.
//
// The blocks of the call are cut into one stripe per thread block, and stripes into rounds that fit
// a lane. In each round, a thread
//   1. sends: pushes its units of the block for rank p into its own lane at p, for every p that it
//      sends to;
//   2. is heard: puts an empty unit into slot 0 of its lane at every other p;
//   3. receives: polls its units in the lanes of all ranks that send to it, and stores them, or
//      their sum in rank order.
// In collectives that only move blocks, a rank stores its block for itself at once. In those that
// add up, it also sends to itself, unless there are two ranks: that takes fewer instructions than
// putting its own term into its place among the others.
//
// Instructions count, so there are separate cases for moves and sums, for several numbers of ranks,
// and, with two ranks, for each collective (2 H200, 2026-11-23, microseconds with one case for all,
// with cases for moves and sums, and with cases for collectives: broadcast of 1 MB by direct_ll128
// 6.22, 5.15, 4.92; reduce of 16 KB by direct_ll 2.43, 2.37, 2.18).
//
// Why no barrier is needed: see algorithms/blocks/flags/peer_lanes.hpp. Where only a root sends, or
// receives, not all ranks hear from all.
//
// In place is safe. Before a thread stores units that it has received in a round, it has sent its
// units with the same numbers of all blocks, and has loaded its own terms. No other thread handles
// those units. A block that a rank moves to itself is, in place, where it was.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "algorithms/blocks/flags/peer_lanes.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"

namespace plait {

struct DirectArgs {
  LanesArgs lanes;
  Reduction reduction;
  DirectPattern pattern;
  const void* send;
  void* recv;
  std::size_t count;    // elements of a block
  Partition stripes;    // of a block's units, one per thread block
  std::uint32_t round;  // units of a round, at most a lane's slots
};

/// One thread block's part of the call. `Steps` has phases 1 and 3. `send<Ranks>(unit, i, live)`
/// sends unit `unit` of the blocks, which is unit `i` of the round, to `Ranks` ranks; 0 is any
/// number. `receive<Batch, All>(unit, i, live)` receives from `Batch` ranks at once; with `All`
/// there are no more. `Pattern`: AnyPattern or FixedPattern.
template <class Steps, class Pattern, class T, class Unit, class D>
class Direct {
 public:
  template <int Batch, bool All>
  PLAIT_DEVICE static void run(D& dev, const DirectArgs& a) {
    Steps steps(dev, a);
    if (steps.template exchange<Batch, All>(a.stripes.at(dev.block()))) steps.lanes_.keep();
  }

 protected:
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  PLAIT_DEVICE Direct(D& dev, const DirectArgs& a)
      : dev_(dev),
        a_(a),
        rank_(a.lanes.rank),
        ranks_(a.lanes.ranks),
        lanes_(dev, a.lanes),
        units_(lanes_.units()) {}

  PLAIT_DEVICE DirectPattern pattern() const { return Pattern::of(a_.pattern); }
  /// The block for, or from, rank `peer`.
  PLAIT_DEVICE Packs<const T, packet_bytes> outgoing(int peer) const {
    return {static_cast<const T*>(a_.send) + pattern().send_begin(peer, a_.count), a_.count};
  }
  PLAIT_DEVICE Packs<T, packet_bytes> incoming(int peer) const {
    return {static_cast<T*>(a_.recv) + pattern().recv_begin(peer, a_.count), a_.count};
  }

  D& dev_;
  const DirectArgs& a_;
  int rank_, ranks_;
  PeerLanes<T, Unit, D> lanes_;
  // A copy, because a reference into this object would keep all of it in memory: 1.3 us per call
  // (4 H200, 1 KB, 2026-11-22).
  Units<Unit, T> units_;

 private:
  template <int Batch, bool All>
  PLAIT_DEVICE bool exchange(Range stripe) {
    auto& steps = static_cast<Steps&>(*this);
    const DirectPattern pattern = this->pattern();
    const bool sends = !pattern.root_sends || rank_ == pattern.root,
               receives = !pattern.root_receives || rank_ == pattern.root;
    const unsigned first = units_.first(dev_.thread()), step = units_.step(dev_.threads());
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a_.round) {
      // All threads have finished the previous round before one of them sends in this one.
      if (begin != stripe.begin && !pattern.rooted()) dev_.sync();
      if (!lanes_.begin_round(!pattern.rooted())) return false;
      const auto size =
          static_cast<unsigned>(stripe.end - begin < a_.round ? stripe.end - begin : a_.round);
      if (sends)
        for (unsigned i = first; units_.group_has(i, size); i += step)
          steps.template send<All ? Batch : 0>(begin + i, i, units_.live(i, size));
      if (pattern.rooted()) lanes_.be_heard([&](int peer) { return steps.sends_to(peer); });
      if (!receives) continue;
      for (unsigned i = first; units_.group_has(i, size); i += step)
        if (!steps.template receive<Batch, All>(begin + i, i, units_.live(i, size))) return false;
    }
    return true;
  }
};

/// Blocks that are only moved.
template <class Pattern, class T, class Unit, class D>
class DirectMoves : public Direct<DirectMoves<Pattern, T, Unit, D>, Pattern, T, Unit, D> {
  using Base = Direct<DirectMoves, Pattern, T, Unit, D>;
  friend Base;
  using Base::a_, Base::dev_, Base::incoming, Base::lanes_, Base::outgoing, Base::pattern,
      Base::rank_, Base::ranks_, Base::units_;
  using typename Base::Share;
  using typename Base::Slot;

  PLAIT_DEVICE DirectMoves(D& dev, const DirectArgs& a) : Base(dev, a) {}
  PLAIT_DEVICE bool sends_to(int peer) const {
    return peer != rank_ && pattern().sends(rank_, peer);
  }

  template <int Ranks>
  PLAIT_DEVICE void send(std::size_t unit, std::uint32_t i, bool live) {
    if (pattern().block_per_target) {
      Share shares[ranks_together<Ranks>];
      for_ranks_together<Ranks>(
          rank_, ranks_,
          [&](int j, int peer, bool there) {
            shares[j] = units_.load(dev_, outgoing(peer), unit, live && there);
          },
          [&](int j, int peer, bool there) {
            const bool own = Ranks == 0 ? peer == rank_ : j == Ranks - 1;
            if (own) keep(unit, shares[j], live && there);
            else units_.put(dev_, lanes_.slot(peer, i), shares[j], lanes_.flag(), live && there);
          });
    } else {
      Share share = units_.load(dev_, outgoing(0), unit, live);
      for_each_peer<Ranks>(rank_, ranks_, [&](int peer) {
        if (!pattern().root_receives || peer == pattern().root)
          units_.put(dev_, lanes_.slot(peer, i), share, lanes_.flag(), live);
      });
      if (!pattern().root_receives || rank_ == pattern().root) keep(unit, share, live);
    }
  }
  PLAIT_DEVICE void keep(std::size_t unit, Share& share, bool live) {
    if (incoming(rank_).packs() != outgoing(rank_).packs())
      units_.store(dev_, incoming(rank_), unit, share, live);  // else in place
  }

  template <int Batch, bool All>
  PLAIT_DEVICE bool receive(std::size_t unit, std::uint32_t i, bool live) {
    constexpr int together = All ? Batch - 1 : Batch;  // peers
    for (int begin = 0; begin < (All ? 1 : ranks_ - 1); begin += together) {
      const Slot* slots[together];
      Waiting who[together];
      Share shares[together];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < together; ++j) {
        const bool there = All || begin + j < ranks_ - 1;
        const int peer = peer_at(there ? begin + j : begin);
        slots[j] = lanes_.lane(peer, i);
        who[j] = {peer, lanes_.flag()};
        if (live && there && (!pattern().root_sends || peer == pattern().root)) wanted |= 1u << j;
      }
      if (!dev_.get(slots, shares, wanted, lanes_.flag(), who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < together; ++j)
        if ((wanted >> j & 1u) != 0)
          units_.store(dev_, incoming(peer_at(begin + j)), unit, shares[j], true);
    }
    return true;
  }
  /// The ranks, without the own one.
  PLAIT_DEVICE int peer_at(int number) const { return number < rank_ ? number : number + 1; }
};

/// Blocks that are added up: every rank sends to all, or to the root.
template <class Pattern, class T, class Unit, class D>
class DirectSums : public Direct<DirectSums<Pattern, T, Unit, D>, Pattern, T, Unit, D> {
  using Base = Direct<DirectSums, Pattern, T, Unit, D>;
  friend Base;
  using Base::a_, Base::dev_, Base::incoming, Base::lanes_, Base::outgoing, Base::pattern,
      Base::rank_, Base::ranks_, Base::units_;
  using typename Base::Share;
  using typename Base::Slot;

  PLAIT_DEVICE DirectSums(D& dev, const DirectArgs& a) : Base(dev, a), reducer_(a.reduction) {}
  PLAIT_DEVICE bool sends_to(int peer) const { return pattern().sends(rank_, peer); }

  template <int Ranks>
  PLAIT_DEVICE void send(std::size_t unit, std::uint32_t i, bool live) {
    if (pattern().root_receives) {
      const Share share = units_.load(dev_, outgoing(pattern().root), unit, live);
      units_.put(dev_, lanes_.slot(pattern().root, i), share, lanes_.flag(), live);
      return;
    }
    Share shares[ranks_together<Ranks>];
    for_ranks_together<Ranks>(
        rank_, ranks_,
        [&](int j, int peer, bool there) {
          shares[j] = units_.load(dev_, outgoing(peer), unit, live && there);
        },
        [&](int j, int peer, bool there) {
          units_.put(dev_, lanes_.slot(peer, i), shares[j], lanes_.flag(), live && there);
        });
  }

  template <int Batch, bool All>
  PLAIT_DEVICE bool receive(std::size_t unit, std::uint32_t i, bool live) {
    UnitSum<Unit, T> sum(reducer_);
    for (int begin = 0; begin < (All ? Batch : ranks_); begin += Batch) {
      const int size = All || ranks_ - begin > Batch ? Batch : ranks_ - begin;
      const Slot* slots[Batch];
      Waiting who[Batch];
      Share shares[Batch];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        const bool there = All || j < size;
        slots[j] = lanes_.lane(there ? begin + j : begin, i);
        who[j] = {begin + j, lanes_.flag()};
        if (live && there) wanted |= 1u << j;
      }
      if (!dev_.get(slots, shares, wanted, lanes_.flag(), who)) return false;
      sum.add(begin == 0, shares, size);
    }
    Share result = sum.result();
    units_.store(dev_, incoming(0), unit, result, live);
    return true;
  }

  Reducer<T> reducer_;
};

/// Blocks of two ranks that are added up: neither sends to itself.
template <class Pattern, class T, class Unit, class D>
class DirectPairSums : public Direct<DirectPairSums<Pattern, T, Unit, D>, Pattern, T, Unit, D> {
  using Base = Direct<DirectPairSums, Pattern, T, Unit, D>;
  friend Base;
  using Base::a_, Base::dev_, Base::incoming, Base::lanes_, Base::outgoing, Base::pattern,
      Base::rank_, Base::units_;
  using typename Base::Share;
  using typename Base::Slot;

  PLAIT_DEVICE DirectPairSums(D& dev, const DirectArgs& a) : Base(dev, a), reducer_(a.reduction) {}
  PLAIT_DEVICE bool sends_to(int peer) const {
    return peer != rank_ && pattern().sends(rank_, peer);
  }

  template <int>
  PLAIT_DEVICE void send(std::size_t unit, std::uint32_t i, bool live) {
    const int peer = 1 - rank_;
    if (sends_to(peer))
      units_.put(dev_, lanes_.slot(peer, i), units_.load(dev_, outgoing(peer), unit, live),
                 lanes_.flag(), live);
  }
  template <int, bool>
  PLAIT_DEVICE bool receive(std::size_t unit, std::uint32_t i, bool live) {
    // Loaded before the wait, so that both units are on their way at once.
    const Share own = units_.load(dev_, outgoing(rank_), unit, live);
    const int peer = 1 - rank_;
    const Slot* const slots[1] = {lanes_.lane(peer, i)};
    const Waiting who[1] = {{peer, lanes_.flag()}};
    Share other[1];
    if (!dev_.get(slots, other, live ? 1u : 0u, lanes_.flag(), who)) return false;
    UnitSum<Unit, T> sum(reducer_);
    sum.add_both(rank_, own, other[0]);
    Share result = sum.result();
    units_.store(dev_, incoming(0), unit, result, live);
    return true;
  }

  Reducer<T> reducer_;
};

/// `Moved::Unit<D>` is the unit, if `Moved::on<D>` says that the target has it. Move-only
/// collectives launch as their `move_type`, so only those types compile the cases of moves.
template <class T, class Moved>
struct DirectKernel {
  template <template <class, class, class, class> class Steps, class Pattern, int Batch, bool All>
  struct Case {
    // There are at most 128 thread blocks, so registers for all of a thread's units come first.
    static constexpr unsigned min_blocks_per_multiprocessor = 1;

    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const DirectArgs& a) {
      if constexpr (Moved::template on<D>) {
        Steps<Pattern, T, typename Moved::template Unit<D>, D>::template run<Batch, All>(dev, a);
      }
    }
  };
  template <class Pattern>
  using PairSums = Case<DirectPairSums, Pattern, 2, true>;
  template <class Pattern>
  using PairMoves = Case<DirectMoves, Pattern, 2, true>;
  template <int Batch, bool All>
  using Sums = Case<DirectSums, AnyPattern, Batch, All>;
  template <int Batch, bool All>
  using Moves = Case<DirectMoves, AnyPattern, Batch, All>;

  using Adding = FixedPatterns<direct_patterns::reduce_scatter, direct_patterns::reduce>;
  using Moving =
      FixedPatterns<direct_patterns::all_gather, direct_patterns::broadcast,
                    direct_patterns::all_to_all, direct_patterns::gather, direct_patterns::scatter>;
  using SumsCases = Concatenated<typename Adding::template Cases<PairSums>,
                                 TypeList<Sums<4, true>, Sums<8, true>, Sums<8, false>>>;
  // A case for moves of exactly 8 ranks would need more registers than a thread has.
  using MovesCases = Concatenated<typename Moving::template Cases<PairMoves>,
                                  TypeList<Moves<4, true>, Moves<8, false>>>;
  using Cases = std::conditional_t<is_moved<T>, Concatenated<SumsCases, MovesCases>, SumsCases>;
  static unsigned case_of(const DirectArgs& a) {
    const int ranks = a.lanes.ranks;
    if (a.pattern.reduces)
      return ranks == 2 ? Adding::number_of(a.pattern)
                        : Adding::count + (ranks == 4   ? 0
                                           : ranks == 8 ? 1
                                                        : 2);
    const unsigned moves = Adding::count + 3;
    return moves +
           (ranks == 2 ? Moving::number_of(a.pattern) : Moving::count + (ranks == 4 ? 0 : 1));
  }
  /// As in LLKernel: only two ranks gain, and no collective by itself (reduce_scatter of 64 KB by
  /// direct_ll: 112 us; 235 with one case for all numbers of ranks).
  struct OnHost {
    using AnySums = TypeList<PairSums<AnyPattern>, Sums<1, false>>;
    using AnyMoves = TypeList<PairMoves<AnyPattern>, Moves<1, false>>;
    using List = std::conditional_t<is_moved<T>, Concatenated<AnySums, AnyMoves>, AnySums>;
    static unsigned index(const DirectArgs& a) {
      return (a.pattern.reduces ? 0 : 2) + (a.lanes.ranks == 2 ? 0 : 1);
    }
  };
};

}  // namespace plait
