// Two-shot all-reduce in flagged units: small to middle messages on any memory, two hops, no
// barrier. twoshot_ll sends packets, twoshot_ll128 lines.
//
// The message is cut into one stripe per block, a stripe into rounds, and a round into n slices of
// at most `slots` units. In each round, a thread
//   1. scatters: pushes its units of slice p into its scatter lane at rank p, for every rank p;
//   2. reduces: polls all ranks' units of its own slice, adds them in rank order and pushes the
//      result into its gather lane at every rank;
//   3. gathers: polls the results of all slices and stores them.
//
// Cost: two hops. 2 (n - 1) / n * bytes of data leave each rank: twice that as packets, 16/15
// of it as lines.
// Resources: 2 halves * blocks * 2 n lanes * slots units of scratch memory, one epoch per block.
//
// Why no barrier is needed, not even one of a block between its rounds. Data and flag arrive
// together. A lane has one writing rank and one reader, and two halves for odd and even epochs. In
// each block, one thread handles the slots i of all lanes. Let round f be the last one before round
// e in which this thread wrote slot i of its lane at rank p, in the same half.
//   Scatter lane: p's thread took the unit before it sent result i of round f, and this thread took
//   that result in round f, so before round e.
//   Gather lane: this thread sends result i of round e when it has unit i of round e from p, and
//   p's thread sent that after it had taken result i of round f.
// A line is handled by a group of threads, in one instruction of a warp: a warp issues in order, so
// it stores no result, and sends nothing later, before all of its threads have what they loaded.
// If another launch had round f, and threads have other slots now, then the ends and beginnings of
// launches order what a thread's own order does here.
//
// In place is safe: a thread sends all its inputs of a round before it stores any result of that
// round, and no other thread handles its units.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::twoshot_ll {

using Types = ReducedTypes;

// Lanes of the layout: 0 .. n - 1 hold units to reduce, n .. 2n - 1 results, both by writing rank.
using Args = LLArgs;

/// As in oneshot_ll, a rank also sends to itself: that takes fewer instructions than asking which
/// peer is the own rank.
template <class T, class Unit, class D>
class Twoshot {
 public:
  template <int Batch, bool All>
  PLAIT_DEVICE static bool run(D& dev, const LLExchange& a, const LLMessage& message,
                               unsigned stripe, Epoch& epoch) {
    return Twoshot(dev, a, message, epoch)
        .template exchange<Batch, All>(message.stripes.at(stripe));
  }

 private:
  PLAIT_DEVICE Twoshot(D& dev, const LLExchange& a, const LLMessage& message, Epoch& epoch)
      : dev_(dev),
        a_(a),
        send_(static_cast<const T*>(message.send), message.count),
        recv_(static_cast<T*>(message.recv), message.count),
        units_(dev.thread()),
        reducer_(a.reduction),
        epoch_(epoch) {}

  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  /// A round of units of the message, and its slices.
  struct Round {
    std::size_t begin;
    std::uint32_t size, each;

    PLAIT_DEVICE std::uint32_t offset(int slice, std::uint32_t i) const {
      return static_cast<unsigned>(slice) * each + i;
    }
    PLAIT_DEVICE bool has(int slice, std::uint32_t i) const {
      return i < each && offset(slice, i) < size;
    }
    PLAIT_DEVICE std::uint32_t units(int slice) const {
      const std::uint32_t before = offset(slice, 0);
      return before >= size ? 0 : size - before < each ? size - before : each;
    }
    PLAIT_DEVICE std::size_t unit(int slice, std::uint32_t i) const {
      return begin + offset(slice, i);
    }
  };

  template <int Batch, bool All>
  PLAIT_DEVICE bool exchange(Range stripe) {
    const auto n = static_cast<std::uint32_t>(All ? Batch : a_.ranks);
    const std::uint32_t most = a_.layout.slots * n;
    const unsigned first = units_.first(dev_.thread()), step = units_.step(dev_.threads());
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += most) {
      epoch_ = epoch_.next();
      const auto size =
          static_cast<std::uint32_t>(stripe.end - begin < most ? stripe.end - begin : most);
      const Round round{begin, size, (size + n - 1) / n};
      const std::uint32_t own = round.units(a_.rank);
      for (std::uint32_t i = first; units_.group_has(i, round.each); i += step)
        scatter<All ? Batch : 0>(round, i);
      for (std::uint32_t i = first; units_.group_has(i, own); i += step)
        if (!reduce<Batch, All>(i, units_.live(i, own))) return false;
      for (std::uint32_t i = first; units_.group_has(i, round.each); i += step)
        if (!gather<Batch, All>(round, i)) return false;
    }
    return true;
  }

  template <int Ranks>
  PLAIT_DEVICE void scatter(const Round& round, std::uint32_t i) {
    Share shares[ranks_together<Ranks>];
    for_ranks_together<Ranks>(
        a_.rank, a_.ranks,
        [&](int j, int peer, bool there) {
          shares[j] = units_.load(dev_, send_, round.unit(peer, i), there && round.has(peer, i));
        },
        [&](int j, int peer, bool there) {
          units_.put(dev_, slot(peer, a_.rank, i), shares[j], epoch_.value,
                     there && round.has(peer, i));
        });
  }

  template <int Batch, bool All>
  PLAIT_DEVICE bool reduce(std::uint32_t i, bool live) {
    UnitSum<Unit, T> sum(reducer_);
    for (int begin = 0; begin < (All ? Batch : a_.ranks); begin += Batch) {
      const int size = All || a_.ranks - begin > Batch ? Batch : a_.ranks - begin;
      Share shares[Batch];
      if (!receive(begin, 0, i, live ? (1u << size) - 1 : 0, shares)) return false;
      sum.add(begin == 0, shares, size);
    }
    const Share result = sum.result();
    for_each_rank<All ? Batch : 0>(a_.rank, a_.ranks, [&](int peer) {
      units_.put(dev_, slot(peer, a_.ranks + a_.rank, i), result, epoch_.value, live);
    });
    return true;
  }

  template <int Batch, bool All>
  PLAIT_DEVICE bool gather(const Round& round, std::uint32_t i) {
    for (int begin = 0; begin < (All ? Batch : a_.ranks); begin += Batch) {
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j)
        if ((All || begin + j < a_.ranks) && round.has(begin + j, i)) wanted |= 1u << j;
      Share shares[Batch];
      if (!receive(begin, a_.ranks, i, wanted, shares)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < Batch; ++j)
        units_.store(dev_, recv_, round.unit(begin + j, i), shares[j], (wanted >> j & 1u) != 0);
    }
    return true;
  }

  /// Receives slot i of this rank's lanes `lane + begin`, `lane + begin + 1`, ..., which the ranks
  /// from `begin` on write.
  template <int Batch>
  PLAIT_DEVICE bool receive(int begin, int lane, std::uint32_t i, unsigned wanted,
                            Share (&shares)[Batch]) {
    const Slot* const first = reinterpret_cast<const Slot*>(a_.scratch.own) +
                              a_.layout.at(dev_.block(), epoch_, lane + begin, i);
    const Slot* slots[Batch];
    Waiting who[Batch];
    PLAIT_UNROLL
    for (int j = 0; j < Batch; ++j) {
      slots[j] = first + static_cast<unsigned>(j) * a_.layout.slots;
      who[j] = {begin + j, epoch_.value};
    }
    return dev_.get(slots, shares, wanted, epoch_.value, who);
  }

  PLAIT_DEVICE Slot* slot(int owner, int lane, std::uint32_t i) const {
    return reinterpret_cast<Slot*>(a_.scratch.peer_ptr(owner)) +
           a_.layout.at(dev_.block(), epoch_, lane, i);
  }

  D& dev_;
  const LLExchange& a_;
  Packs<const T, packet_bytes> send_;
  Packs<T, packet_bytes> recv_;
  Units<Unit, T> units_;
  Reducer<T> reducer_;
  Epoch& epoch_;
};

template <class T>
struct Exchange {
  template <class D>
  static constexpr bool on = true;
  template <class D>
  using Messages = Twoshot<T, PacketUnit, D>;
};

template <class T>
struct Kernel : LLKernel<Exchange<T>> {
  using BatchArgs = LLBatch;
  // On AMD GPUs a batch would take more registers than a thread has.
  static constexpr bool batch_indexes_arguments = true;
};

}  // namespace plait::twoshot_ll
