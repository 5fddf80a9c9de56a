// One-shot all-reduce with flagged units: the lowest latency for small messages. oneshot_ll sends
// packets, oneshot_ll128 lines.
//
// The message is cut into one stripe a block, and a stripe into rounds of at most `slots` units. In
// each round, a thread
//   1. pushes its units, with the round's epoch as flag, into every rank's scratch, and then
//   2. polls the units of all ranks at its own scratch and reduces them in rank order, so that all
//   ranks get the same bits.
//
// In place is safe: a thread has sent its input of a round before it stores anything of it, and no
// other thread has its units.
//
// Cost: one hop; (n - 1) * bytes leave each rank, twice that as packets and 16/15 of it as lines.
// Resources: 2 halves * blocks * n writers
// * slots units of scratch, one epoch a block.
//
// Why no barrier is needed. Data and flag of a unit arrive together, so polling the flag is enough
// to read the data. The scratch of a block has two halves, used by odd and even epochs, and within
// them every slot has one writing rank. A block writes half e & 1 of a peer in round e only after
// one of its threads has finished round e - 1 and the block has synchronised (within a call by
// `sync`, between calls by the end of the kernel). That thread needed the peer's units of round e -
// 1, which the peer's block sent after it had synchronised in the same way, so after all of its
// threads had finished round e - 2, the last one that read this half. Without the `sync`, a short
// last round, in which most threads have no unit, would let a block overtake a peer's thread by two
// rounds. A block uses only its own part of scratch and its own epoch, so this holds for each block
// whatever the others do.
#pragma once
#include "algorithms/blocks/flags/units.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::oneshot_ll {

using Types = ReducedTypes;

using Args = LLArgs;  // lanes of the layout: one a writing rank

/// Instructions count here: a small message is over before a kernel has run each of its own twice.
/// So a rank also sends to itself, and no step asks which peer is the own rank.
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
      if (begin != stripe.begin)
        dev.sync();  // the whole block has finished the last round before anybody sends in this one
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
        units.store(dev, recv, begin + i, result, live);
      }
    }
    return true;
  }

 private:
  /// `at`: the unit in this rank's lane of every scratch.
  template <int Ranks, Device D>
  PLAIT_DEVICE static void push(D& dev, const LLExchange& a, Epoch epoch, std::uint32_t at,
                                const Share& mine, bool live) {
    for_each_rank<Ranks>(a.rank, a.ranks, [&](int peer) {
      Units<Unit, T>::put(dev, reinterpret_cast<Slot*>(a.scratch.peer_ptr(peer)) + at, mine,
                          epoch.value, live);
    });
  }

  /// `at`: the unit in rank 0's lane.
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
      sum.add(begin == 0, shares, size);
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

template <class T>
struct Kernel : LLKernel<Exchange<T>> {
  using BatchArgs = LLBatch;
};

}  // namespace plait::oneshot_ll
