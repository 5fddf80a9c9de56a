// One hop: every rank sends blocks straight to whom they are for, in flagged units, and receives what is for it. That is all there is to
// all-gather, all-to-all, broadcast, gather and scatter; where the blocks that a rank receives are added up, it is reduce-scatter and
// reduce.
//
// The blocks of the call are cut into one stripe a thread block, and stripes into rounds that fit a lane. In each round, a thread
//   1. sends: pushes its units of the block for rank p into its own lane of p, for every p that it sends to;
//   2. says that it is there: puts an empty unit, slot 0, into its lane of every other p;
//   3. receives: polls its units of the lanes of all ranks that send to it, and stores them, or their sum in rank order.
//
// Why no barrier is needed: see algorithms/building_blocks/peer_lanes.hpp. Where only a root sends, or receives, not all hear from all.
//
// In place is safe. A thread has sent its units of all blocks in a round before it stores units with the same numbers, and no other thread
// has those.
#pragma once
#include "algorithms/building_blocks/direct_pattern.hpp"
#include "algorithms/building_blocks/peer_lanes.hpp"

namespace plait {

struct DirectArgs {
  LanesArgs lanes;
  Reduction reduction;
  DirectPattern pattern;
  const void* send;
  void* recv;
  std::size_t count;  // elements of a block
  Parts stripes;      // of a block's units, one a thread block
};

/// One thread block's part of the call. A rank also sends to itself: that is fewer instructions than to ask which peer is the own rank.
template <class T, class Unit, class D>
class Direct {
 public:
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  template <int Batch, bool All>
  PLAIT_DEVICE static void run(D& dev, const DirectArgs& a) {
    Direct direct(dev, a);
    if (direct.template exchange<Batch, All>(a.stripes.at(dev.block()))) direct.lanes_.keep();
  }

 private:
  PLAIT_DEVICE Direct(D& dev, const DirectArgs& a)
      : dev_(dev), a_(a), rank_(a.lanes.rank), ranks_(a.lanes.ranks), lanes_(dev, a.lanes), units_(lanes_.units()), reducer_(a.reduction) {}

  template <int Batch, bool All>
  PLAIT_DEVICE bool exchange(Range stripe) {
    const bool receives = !a_.pattern.root_receives || rank_ == a_.pattern.root;
    const unsigned first = units_.first(dev_.thread()), step = units_.step(dev_.threads());
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += lanes_.slots()) {
      if (begin != stripe.begin) dev_.sync();  // the whole block has finished the last round before anybody sends in this one
      if (!lanes_.begin_round(!a_.pattern.rooted())) return false;
      const auto size = static_cast<unsigned>(stripe.end - begin < lanes_.slots() ? stripe.end - begin : lanes_.slots());
      for (unsigned i = first; units_.group_has(i, size); i += step) send<All ? Batch : 0>(begin + i, i, units_.live(i, size));
      if (a_.pattern.rooted()) lanes_.be_heard([&](int peer) { return a_.pattern.sends(rank_, peer); });
      if (!receives) continue;
      for (unsigned i = first; units_.group_has(i, size); i += step)
        if (!receive<Batch, All>(begin + i, i, units_.live(i, size))) return false;
    }
    return true;
  }

  /// Units of the block for, or from, rank `peer`.
  PLAIT_DEVICE Packs<const T, packet_bytes> outgoing(int peer) const {
    return {static_cast<const T*>(a_.send) + a_.pattern.send_begin(peer, a_.count), a_.count};
  }
  PLAIT_DEVICE Packs<T, packet_bytes> incoming(int peer) const {
    return {static_cast<T*>(a_.recv) + a_.pattern.recv_begin(peer, a_.count), a_.count};
  }
  /// Step 1 for unit `unit` of the blocks, `i` of the round.
  template <int Ranks>
  PLAIT_DEVICE void send(std::size_t unit, std::uint32_t i, bool live) {
    if (a_.pattern.root_sends && rank_ != a_.pattern.root) return;
    if (a_.pattern.block_a_target) {
      Share shares[ranks_together<Ranks>];
      for_ranks_together<Ranks>(
          rank_, ranks_, [&](int j, int peer, bool there) { shares[j] = units_.load(dev_, outgoing(peer), unit, live && there); },
          [&](int j, int peer, bool there) { units_.put(dev_, lanes_.slot(peer, i), shares[j], lanes_.flag(), live && there); });
    } else {
      const Share share = units_.load(dev_, outgoing(0), unit, live);
      for_each_rank<Ranks>(rank_, ranks_, [&](int peer) {
        if (!a_.pattern.root_receives || peer == a_.pattern.root) units_.put(dev_, lanes_.slot(peer, i), share, lanes_.flag(), live);
      });
    }
  }

  /// Step 3.
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
        if (live && there && (!a_.pattern.root_sends || begin + j == a_.pattern.root)) wanted |= 1u << j;
      }
      if (!dev_.get(slots, shares, wanted, lanes_.flag(), who)) return false;
      if (a_.pattern.reduces) {
        sum.add(begin == 0, shares, size);
      } else {
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j)
          if ((wanted >> j & 1u) != 0) units_.store(dev_, incoming(begin + j), unit, shares[j], true);
      }
    }
    if (a_.pattern.reduces) {
      Share result = sum.result();
      units_.store(dev_, incoming(0), unit, result, live);
    }
    return true;
  }

  D& dev_;
  const DirectArgs& a_;
  int rank_, ranks_;
  PeerLanes<T, Unit, D> lanes_;
  Units<Unit, T> units_;  // a copy: a reference into this object would keep all of it in memory, 1.3 us a call (4 H200, 1 KB, 2026-11-22)
  Reducer<T> reducer_;
};

/// `Moved::Unit<D>`: the unit, where `Moved::on<D>` says that the target has it.
template <class T, class Moved>
struct DirectKernel {
  template <int Batch, bool All>
  struct Code {
    static constexpr unsigned least_blocks_a_unit = 1;  // 128 blocks at most: rather registers for all of a thread's units

    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const DirectArgs& a) {
      if constexpr (Moved::template on<D>) {
        Direct<T, typename Moved::template Unit<D>, D>::template run<Batch, All>(dev, a);
      }
    }
  };
  using Codes = RanksCodes<Code>;
  static unsigned code(const DirectArgs& a) { return ranks_code(a.lanes.ranks); }
};

}  // namespace plait
