// One-shot all-reduce and scan in flagged units: the lowest latency, for small messages. oneshot_ll
// sends packets, oneshot_ll128 lines.
//
// The message is cut into one stripe per block, and a stripe into rounds of at most `slots` units.
// In each round, a thread
//   1. pushes its units into every rank's scratch memory, flagged with the round's epoch;
//   2. polls the units that all ranks pushed to it and reduces them in rank order, so all ranks get
//      the same bits. In a scan it reduces those of the first ranks only, `terms` of them.
//
// Cost: one hop. (n - 1) * bytes of data leave each rank: twice that as packets, 16/15 of it as
// lines.
// Resources: 2 halves * blocks * n writers * slots units of scratch memory, one epoch per block.
//
// Why no barrier is needed. Data and flag of a unit arrive together, so a thread that sees the flag
// may read the data. The scratch memory of a block has two halves, for odd and even epochs, and
// each slot in a half has one writing rank. In round e, a block writes half e & 1 at a peer only
// after one of its threads has finished round e - 1 and the block has synchronised (within a call
// by `sync`, between calls by the end of the kernel). That thread needed the peer's units of round
// e - 1. The peer's block sent those after it had synchronised in the same way, so after all its
// threads had finished round e - 2, the last round that read this half. Without the `sync`, a short
// last round, in which most threads have no unit, would let a block overtake a peer's thread by two
// rounds. A block uses only its own part of scratch memory and its own epoch, so this holds for
// each block whatever the others do.
//
// The proof needs the units of all ranks, so a scan waits for those of later ranks too, which it
// does not add. Without that, rank 0 would wait for no one and overtake its readers. All calls of
// one unit, all-reduces and scans alike, share scratch memory and epochs.
//
// In place is safe: a thread sends its input of a round before it stores any result of that round,
// and no other thread handles its units.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"

namespace plait::oneshot_ll {

using Types = ReducedTypesTo8;

using Args = LLArgs;  // the layout has one lane per writing rank

/// A small message is over before most instructions have run twice, so each instruction counts.
/// Therefore a rank also sends to itself: that takes fewer instructions than asking at each step
/// whether the peer is the own rank.
template <class T, class Unit>
struct Oneshot {
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  template <int Batch, bool All, Device D>
  PLAIT_DEVICE static bool run(D& dev, const LLExchange& a, const LLMessage& message,
                               unsigned index, Epoch& epoch) {
    const Packs<const T, packet_bytes> send(static_cast<const T*>(message.send), message.count);
    const Packs<T, packet_bytes> recv(static_cast<T*>(message.recv), message.count);
    const Units<Unit, T> units(dev.thread());
    const Reducer<T> reducer(a.reduction);
    const Range stripe = message.stripes.at(index);
    const unsigned first = units.first(dev.thread()), step = units.step(dev.threads());

    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += a.layout.slots) {
      // All threads have finished the previous round before one of them sends in this one.
      if (begin != stripe.begin) dev.sync();
      epoch = epoch.next();
      const auto size = static_cast<unsigned>(
          stripe.end - begin < a.layout.slots ? stripe.end - begin : a.layout.slots);

      for (unsigned i = first; units.group_has(i, size); i += step) {
        const bool live = units.live(i, size);
        push<All ? Batch : 0>(dev, a, epoch, a.layout.at(dev.block(), epoch, a.rank, i),
                              units.load(dev, send, begin + i, live), live);
      }
      for (unsigned i = first; units.group_has(i, size); i += step) {
        const bool live = units.live(i, size);
        Share result;
        if (!reduce<Batch, All>(dev, a, epoch, a.layout.at(dev.block(), epoch, 0, i), live, reducer,
                                result))
          return false;
        units.store(dev, recv, begin + i, result, live && (All || a.terms != 0));
      }
    }
    return true;
  }

 private:
  /// `at`: the index of the unit in this rank's lane, the same in every rank's scratch memory.
  template <int Ranks, Device D>
  PLAIT_DEVICE static void push(D& dev, const LLExchange& a, Epoch epoch, std::uint32_t at,
                                const Share& mine, bool live) {
    for_each_rank<Ranks>(a.rank, a.ranks, [&](int peer) {
      Units<Unit, T>::put(dev, reinterpret_cast<Slot*>(a.scratch.peer_ptr(peer)) + at, mine,
                          epoch.value, live);
    });
  }

  /// `at`: the index of the unit in rank 0's lane.
  template <int Batch, bool All, Device D>
  PLAIT_DEVICE static bool reduce(D& dev, const LLExchange& a, Epoch epoch, std::uint32_t at,
                                  bool live, const Reducer<T>& reducer, Share& result) {
    UnitSum<Unit, T> sum(reducer);
    const Slot* lane = reinterpret_cast<const Slot*>(a.scratch.own) + at;
    for (int begin = 0; begin < (All ? Batch : a.ranks); begin += Batch) {
      const int size = All || a.ranks - begin > Batch ? Batch : a.ranks - begin;
      const Slot* slots[Batch];
      Waiting who[Batch];
      Share shares[Batch];
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j) {
        slots[j] = lane + static_cast<unsigned>(begin + j) * a.layout.slots;
        who[j] = {begin + j, epoch.value};
      }
      const unsigned wanted = !live ? 0 : All ? (1u << Batch) - 1 : (1u << size) - 1;
      if (!dev.get(slots, shares, wanted, epoch.value, who)) return false;
      if (const int terms = All ? Batch : a.terms - begin; terms > 0)
        sum.add(begin == 0, shares, size < terms ? size : terms);
    }
    result = sum.result();
    return true;
  }
};

template <class T>
struct Exchange {
  template <class D>
  static constexpr bool on = true;
  template <class D>
  using Messages = Oneshot<T, PacketUnit>;
};

/// With a case for scans of two ranks, which poll the units of two ranks instead of eight.
template <class Exchange>
struct OneshotKernel : LLKernel<Exchange> {
  using Base = LLKernel<Exchange>;
  using BatchArgs = LLBatch;
  using Cases =
      Concatenated<typename Base::Cases, TypeList<typename Base::template Case<2, false>>>;
  template <class A>
  static unsigned case_of(const A& a) {
    return a.exchange.ranks == 2 && a.exchange.terms < 2 ? 4 : Base::case_of(a);
  }
};

template <class T>
struct Kernel : OneshotKernel<Exchange<T>> {};

}  // namespace plait::oneshot_ll
