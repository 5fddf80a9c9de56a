// One hop: every rank sends blocks straight to whom they are for, in flagged units, and receives what is for it. That is all there is to
// all-gather, all-to-all, broadcast, gather and scatter; where the blocks that a rank receives are added up, it is reduce-scatter and
// reduce.
//
// The blocks of the call are cut into one stripe a thread block, and stripes into rounds that fit a lane. In each round, a thread
//   1. sends: pushes its units of the block for rank p into its own lane of p, for every p that it sends to;
//   2. says that it is there: puts an empty unit, slot 0, into its lane of every other p;
//   3. receives: polls its units of the lanes of all ranks that send to it, and stores them, or their sum in rank order.
//
// Why no barrier is needed. Data and flag arrive together. A lane has one writing rank and one reader, and two halves for odd and even
// epochs; a block may write half e & 1 of rank p in round e once p's block has finished round e - 2. That is so when something of p's round
// e - 1 has arrived here, which p's block sent after all of its threads had finished round e - 2. Where all ranks send to all, as much to
// each, this block received units of all in round e - 1 itself. Where they do not (`rooted`), it notes that it has not, and waits for slot
// 0 of everybody's lane at the beginning of the next round, whatever call that belongs to: the unit with data, or the empty one of step 2.
// Nobody overwrites it meanwhile: p's round e + 1 writes there, and p begins that when it has our unit of round e.
//
// In place is safe. A thread has sent its units of all blocks in a round before it stores units with the same numbers, and no other thread
// has those.
#pragma once
#include "algorithms/building_blocks/direct_pattern.hpp"
#include "algorithms/building_blocks/flagged.hpp"

namespace plait {

/// What a block keeps from call to call, in device memory.
struct DirectState {
  std::uint32_t epoch;
  std::uint32_t unheard;  // 1: units of the last round may be on their way that nobody has waited for
};

struct DirectArgs {
  WindowView scratch;
  FlaggedLayout layout;  // a lane a writing rank
  DirectState* states;   // one a block
  Reduction reduction;
  int rank, ranks;
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
    DirectState& state = a.states[dev.block()];
    Direct direct(dev, a, state);
    if (!direct.template exchange<Batch, All>(a.stripes.at(dev.block()))) return;
    dev.sync();  // all threads of the block have read the state
    if (dev.thread() == 0) state = {direct.epoch_.value, direct.unheard_};
  }

 private:
  PLAIT_DEVICE Direct(D& dev, const DirectArgs& a, const DirectState& state)
      : dev_(dev), a_(a), units_(dev.thread()), reducer_(a.reduction), epoch_{state.epoch}, unheard_(state.unheard) {}

  template <int Batch, bool All>
  PLAIT_DEVICE bool exchange(Range stripe) {
    const bool receives = !a_.pattern.root_receives || a_.rank == a_.pattern.root;
    const unsigned first = units_.first(dev_.thread()), step = units_.step(dev_.threads());
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a_.layout.slots) {
      if (begin != stripe.begin) dev_.sync();  // the whole block has finished the last round before anybody sends in this one
      if (unheard_ != 0 && !hear_of_all()) return false;
      epoch_ = epoch_.next();
      unheard_ = a_.pattern.rooted() ? 1 : 0;
      const auto size = static_cast<unsigned>(stripe.end - begin < a_.layout.slots ? stripe.end - begin : a_.layout.slots);
      for (unsigned i = first; units_.group_has(i, size); i += step) send<All ? Batch : 0>(begin + i, i, units_.live(i, size));
      if (a_.pattern.rooted()) be_heard();
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
  PLAIT_DEVICE Slot* slot(int owner, std::uint32_t i) const {
    return reinterpret_cast<Slot*>(a_.scratch.peer_ptr(owner)) + a_.layout.at(dev_.block(), epoch_, a_.rank, i);
  }
  PLAIT_DEVICE const Slot* lane(int writer, std::uint32_t i) const {
    return reinterpret_cast<const Slot*>(a_.scratch.own) + a_.layout.at(dev_.block(), epoch_, writer, i);
  }

  /// Step 1 for unit `unit` of the blocks, `i` of the round.
  template <int Ranks>
  PLAIT_DEVICE void send(std::size_t unit, std::uint32_t i, bool live) {
    if (a_.pattern.root_sends && a_.rank != a_.pattern.root) return;
    if (a_.pattern.block_a_target) {
      for_each_rank<Ranks>(a_.rank, a_.ranks, [&](int peer) {
        units_.put(dev_, slot(peer, i), units_.load(dev_, outgoing(peer), unit, live), epoch_.value, live);
      });
    } else {
      const Share share = units_.load(dev_, outgoing(0), unit, live);
      for_each_rank<Ranks>(a_.rank, a_.ranks, [&](int peer) {
        if (!a_.pattern.root_receives || peer == a_.pattern.root) units_.put(dev_, slot(peer, i), share, epoch_.value, live);
      });
    }
  }

  /// Step 2: a thread (or its group) a peer.
  PLAIT_DEVICE void be_heard() {
    const auto ranks = static_cast<unsigned>(a_.ranks);
    for (unsigned p = units_.first(dev_.thread()); units_.group_has(p, ranks); p += units_.step(dev_.threads())) {
      const bool live = p < ranks && !a_.pattern.sends(a_.rank, static_cast<int>(p));
      units_.put(dev_, slot(live ? static_cast<int>(p) : a_.rank, 0), Share{}, epoch_.value, live);
    }
  }

  /// Whether something of everybody's last round has arrived; the whole block waits for that.
  PLAIT_DEVICE bool hear_of_all() {
    const auto ranks = static_cast<unsigned>(a_.ranks);
    bool heard = true;
    for (unsigned p = units_.first(dev_.thread()); units_.group_has(p, ranks); p += units_.step(dev_.threads())) {
      const bool live = p < ranks;
      const int peer = live ? static_cast<int>(p) : a_.rank;
      const Slot* const slots[1] = {lane(peer, 0)};
      const Waiting who[1] = {{peer, epoch_.value}};
      Share share[1];
      heard = dev_.get(slots, share, live ? 1u : 0u, epoch_.value, who) && heard;
    }
    return dev_.all(heard);
  }

  /// Step 3.
  template <int Batch, bool All>
  PLAIT_DEVICE bool receive(std::size_t unit, std::uint32_t i, bool live) {
    UnitSum<Unit, T> sum(reducer_);
    for (int begin = 0; begin < (All ? Batch : a_.ranks); begin += Batch) {
      const int size = All || a_.ranks - begin > Batch ? Batch : a_.ranks - begin;
      const Slot* slots[Batch];
      Waiting who[Batch];
      Share shares[Batch];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        const bool there = All || j < size;
        slots[j] = lane(there ? begin + j : begin, i);
        who[j] = {begin + j, epoch_.value};
        if (live && there && (!a_.pattern.root_sends || begin + j == a_.pattern.root)) wanted |= 1u << j;
      }
      if (!dev_.get(slots, shares, wanted, epoch_.value, who)) return false;
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
  Units<Unit, T> units_;
  Reducer<T> reducer_;
  Epoch epoch_;
  std::uint32_t unheard_;
};

template <class T, class Unit, Device D>
PLAIT_DEVICE void exchange_directly(D& dev, const DirectArgs& a) {
  for_ranks<Direct<T, Unit, D>>(a.ranks, dev, a);
}

}  // namespace plait
