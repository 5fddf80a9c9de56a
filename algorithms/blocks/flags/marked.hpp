// Elements that carry their own arrival mark, on their way through slots (marked_slots.hpp).
//
// Why a slot is empty when its writer comes again. The unit is a block and the same block of each
// peer. Name what a block does for round r, of whatever call and algorithm:
//
//   S(r)  its threads send units of the round to each peer, into set r % 4; thread 0 sends the
//         first one to each;
//   R(r)  they take the units that each peer sent in S(r), thread 0 the first ones; perhaps they
//         send results into set r % 4 and take those of others; and they empty each slot that they
//         took from.
//
// A launch does, for its rounds r, r + 1, ...: S(r) S(r + 1) R(r) | S(r + 2) R(r + 1) | S(r + 3)
// ..., and at last the two R that remain. | is a `sync` of the block, after which thread 0 does
// `release`, and no other thread waits for that. Let p be a peer, and look at a store of this block
// into p's slot of set r % 4, in S(r) or R(r):
//   1. p's block emptied that slot in its R(r - 4).
//   2. The | after that, and its `release`, come before thread 0 of p's block sends the first unit
//      of S(r - 2).
//   3. Thread 0 of this block takes that unit in R(r - 2), and `acquire` follows.
//   4. The | after R(r - 2) comes before S(r), so before R(r), too.
// So the emptying comes before the store. Where two of the rounds belong to different launches,
// the end of the one and the beginning of the other, which order everything, stand for | and
// `acquire`. A launch leaves out a | that no S follows, and `acquire` with it: nothing of this
// launch needs it by 4, and p's next launch begins after p has heard of this one's last rounds.
// One `release` per block and round is enough, and off the critical path. With one in each thread,
// 16 MB took 94 us instead of 56 (2 H100, bf16, one-shot, 2026-11-24).
//
// The counter of rounds is one per block, in device memory, so that a captured launch advances it
// at every replay. It may wrap, because 2^32 is a multiple of 4. All algorithms that use the slots
// share it, and other algorithms do not touch it or the slots. After an abort or a deadline, slots
// may be half full. Then the communicator is broken, its kernels send and take nothing more, and a
// new communicator has memory of its own, zeroed.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/flags/marked_slots.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

/// A block's view of a launch. `Ranks`: their number, 0 for any number. Data stay bits until they
/// are added up. As elements, those of packs that are loaded one by one and those of packs that are
/// loaded whole would meet in one variable, and each load would be waited for on the spot.
template <class T, int Ranks, class D>
class MarkedExchange {
 public:
  using Sum = typename Reducer<T>::template Accumulator<MarkedPack<T>::lanes>;

  /// Writers from which a thread takes units at once: all peers or, if the number of ranks is not
  /// known, the peers among four ranks.
  static constexpr int together = Ranks == 0 ? 4 : Ranks - 1;
  /// Places of a long message at which a thread takes units at once. With more ranks, a round
  /// seldom has more than one place for each thread.
  static constexpr int most_depth = Ranks == 2 ? 2 : 1;
  template <int Depth>
  using Taken = Marked[Depth * together];

  PLAIT_DEVICE MarkedExchange(D& device, const MarkedArgs& args)
      : dev(device),
        a(args),
        send_(static_cast<const T*>(args.send), args.count),
        recv_(static_cast<T*>(args.recv), args.count),
        reducer_(args.reduction),
        own_(reinterpret_cast<Marked*>(args.scratch.own) + args.layout.set(device.block(), 0)) {
    if constexpr (Ranks != 0) {
      PLAIT_UNROLL
      for (int k = 0; k < Ranks - 1; ++k) peers_[k] = slots_at(target(k));
    }
  }

  PLAIT_ELEMENT int ranks() const { return Ranks == 0 ? a.ranks : Ranks; }
  /// Peer number k, in rank order.
  PLAIT_ELEMENT int peer(int k) const { return k < a.rank ? k : k + 1; }
  /// Peer number k, in the order of sending: the next rank first, so that no two ranks write to the
  /// same peer at once. Over a switch they would share one link, and the others would rest.
  PLAIT_ELEMENT int target(int k) const {
    if (Ranks == 8 && sizeof(T) == 1) return peer(k);  // AMD GPUs lack two registers for it
    return Ranks == 0 ? rank_after(a.rank, k + 1, a.ranks) : (a.rank + k + 1) & (Ranks - 1);
  }

  /// Does rounds of at most `most` units in the order that the proof needs. `rounds` has
  ///   each(round)          the number of places that threads share;
  ///   send<Whole, Depth>(round, number, i)
  ///                        S at `Depth` places from i on (`place`);
  ///   phases, and take<Phase, Whole, Depth>(round, number, i)
  ///                        R, one phase after the other; false if a peer never came.
  /// `Whole`: all packs of the round are whole and aligned.
  template <class Rounds>
  PLAIT_DEVICE void run(std::uint32_t most, const Rounds& rounds) {
    const Range stripe = a.stripes.at(dev.block());
    if (stripe.size() == 0) return;
    std::uint32_t number = a.rounds[dev.block()];
    Range next = round(stripe, stripe.begin, most);
    send_round(rounds, next, number);
    for (;; ++number) {
      const Range now = next;
      const bool more = now.end < stripe.end;
      if (more) {
        next = round(stripe, now.end, most);
        send_round(rounds, next, number + 1);
      }
      sends_again_ = more && next.end < stripe.end;
      if (!take_round(rounds, now, number)) return;
      if (!more) break;
      if (sends_again_) {
        dev.sync();
        if (dev.thread() == 0) dev.release();
      }
    }
    dev.sync();  // all threads of the block have read the counter
    if (dev.thread() == 0) a.rounds[dev.block()] = number + 1;
  }

  /// The place of this thread that is `d` passes after place i.
  PLAIT_ELEMENT std::uint32_t place(std::uint32_t i, int d) const {
    return i + static_cast<unsigned>(d) * dev.threads();
  }

  /// A unit of block number `block` of what this rank sends.
  template <bool Whole>
  PLAIT_ELEMENT Marked load(std::size_t unit, int block = 0) const {
    const std::size_t begin = static_cast<unsigned>(block) * a.block;
    if constexpr (Whole) {
      return bits_as<Marked>(dev.load(send_.packs() + begin / MarkedPack<T>::lanes + unit));
    } else {
      const Packs<const T, sizeof(Marked)> from(static_cast<const T*>(a.send) + begin, a.count);
      return bits_as<Marked>(from.load_elements(unit));
    }
  }
  template <bool Whole>
  PLAIT_ELEMENT void store(std::size_t unit, Marked bits) const {
    const auto pack = bits_as<MarkedPack<T>>(bits);
    if constexpr (Whole) {
      dev.store(recv_.packs() + unit, pack);
    } else {
      recv_.store_elements(unit, pack);
    }
  }

  /// Sends to slot i of this rank's lane at `target(k)`, or of its lane of results.
  PLAIT_ELEMENT void put(int k, std::uint32_t number, bool results, std::uint32_t i,
                         Marked data) const {
    Marked* slots;
    if constexpr (Ranks == 0) {
      slots = slots_at(target(k));
    } else {
      slots = peers_[k];
    }
    dev.put(slots + index(number, results) + i, data);
  }

  /// S of a round in which each peer gets other data: sends the bits of elements that
  /// `rounds.load<Whole>(round, peer, i)` returns to every peer, at `Depth` places from i on.
  /// (Not by a lambda: the compiler for AMD inlines one later, and kernels of 8-bit types spilled.)
  template <bool Whole, int Depth, class Rounds>
  PLAIT_ELEMENT void scatter(const Rounds& rounds, Range round, std::uint32_t number,
                             std::uint32_t i) const {
    if constexpr (Ranks == 0) {
      for (int k = 0; k < a.ranks - 1; ++k)
        put(k, number, false, i, marked(rounds.template load<Whole>(round, target(k), i)));
    } else {
      constexpr int peers = Ranks - 1;
      Marked units[Depth * peers];
      PLAIT_UNROLL
      for (int u = 0; u < Depth * peers; ++u)
        units[u] = rounds.template load<Whole>(round, target(u % peers), place(i, u / peers));
      PLAIT_UNROLL
      for (int u = 0; u < Depth * peers; ++u)
        put(u % peers, number, false, place(i, u / peers), marked(units[u]));
    }
  }

  /// Takes the units at `Depth` places from i on, of the writers number `begin` and following
  /// (`writer`).
  template <int Depth>
  PLAIT_ELEMENT bool take(std::uint32_t number, bool results, std::uint32_t i, int begin,
                          Taken<Depth>& data) const {
    const Marked* slots[Depth * together];
    Waiting who[Depth * together];
    unsigned mask = 0;
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) {
      PLAIT_UNROLL
      for (int j = 0; j < together; ++j) {
        const int k = d * together + j;
        slots[k] = slot(number, results, lane(begin, j), place(i, d));
        who[k] = {writer(begin, j), number};
        if (is_peer(begin, j)) mask |= 1u << k;
      }
    }
    if (!dev.take(slots, data, mask, number + 1, who)) return false;
    if (i == 0 && !results && sends_again_) {
      for (int j = 0; j < together; ++j)
        if (is_peer(begin, j)) dev.acquire(slots[j]);
    }
    return true;
  }
  PLAIT_ELEMENT int writer(int begin, int j) const { return Ranks == 0 ? begin + j : peer(j); }
  PLAIT_ELEMENT bool is_peer(int begin, int j) const {
    return Ranks != 0 || (begin + j < a.ranks && begin + j != a.rank);
  }
  /// Empties the slots of all peers at `Depth` places from i on.
  template <int Depth>
  PLAIT_ELEMENT void empty(std::uint32_t number, bool results, std::uint32_t i) const {
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) {
      if constexpr (Ranks == 0) {
        for (int k = 0; k < a.ranks - 1; ++k) dev.empty(slot(number, results, k, place(i, d)));
      } else {
        PLAIT_UNROLL
        for (int k = 0; k < Ranks - 1; ++k) dev.empty(slot(number, results, k, place(i, d)));
      }
    }
  }

  /// Adds the terms of the writers number `begin` and following, and of this rank in its place:
  /// `own`, the bits of its unit. In rank order, so that all ranks get the same bits.
  PLAIT_ELEMENT void add(Sum& sum, int begin, Marked own, const Marked* data) const {
    PLAIT_UNROLL
    for (int j = 0; j < (Ranks == 0 ? together : Ranks); ++j) {
      const int r = Ranks == 0 ? begin + j : j;
      if (Ranks == 0 && r >= a.ranks) break;
      Marked term;
      PLAIT_UNROLL
      for (int w = 0; w < 2; ++w) {
        const std::uint64_t others =
            Ranks == 0 ? data[j].word[w]
                       : (j != together && (j == 0 || r < a.rank) ? data[j] : data[j - 1]).word[w];
        term.word[w] = r == a.rank ? own.word[w] : ~others;
      }
      const auto pack = bits_as<MarkedPack<T>>(term);
      if (r == 0) sum = reducer_.start(pack);
      else reducer_.add(sum, pack);
    }
  }
  /// R of a round without results to send: takes the units of all peers at `Depth` places from i
  /// on, adds them to `own`, the bits of this rank's, passes each result to `store(d, bits)`, and
  /// empties the slots. False if a peer never came.
  template <int Depth, class Store>
  PLAIT_ELEMENT bool add_taken(std::uint32_t number, std::uint32_t i, const Marked (&own)[Depth],
                               Store store) const {
    Taken<Depth> data;
    if constexpr (Ranks == 0) {
      Sum sum;
      for (int begin = 0; begin < a.ranks; begin += together) {
        if (!take<Depth>(number, false, i, begin, data)) return false;
        add(sum, begin, own[0], data);
      }
      store(0, result(sum));
    } else {
      if (!take<Depth>(number, false, i, 0, data)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < Depth; ++d) {
        Sum sum;
        add(sum, 0, own[d], data + d * together);
        store(d, result(sum));
      }
    }
    empty<Depth>(number, false, i);
    return true;
  }
  PLAIT_ELEMENT Marked result(const Sum& sum) const {
    return bits_as<Marked>(reducer_.template finish<sizeof(Marked)>(sum));
  }

  D& dev;
  const MarkedArgs& a;

 private:
  PLAIT_ELEMENT static Range round(Range stripe, std::size_t begin, std::uint32_t most) {
    return {begin, stripe.end - begin < most ? stripe.end : begin + most};
  }
  PLAIT_ELEMENT bool is_whole(Range round) const {
    return round.end <= send_.whole() && round.end <= recv_.whole() &&
           a.block % MarkedPack<T>::lanes == 0;
  }
  template <class Rounds>
  PLAIT_DEVICE void send_round(const Rounds& rounds, Range round, std::uint32_t number) const {
    const std::uint32_t each = rounds.each(round), step = dev.threads();
    std::uint32_t i = dev.thread();
    if (is_whole(round)) {
      if constexpr (most_depth > 1) {
        for (; place(i, most_depth - 1) < each; i += most_depth * step)
          rounds.template send<true, most_depth>(round, number, i);
      }
      for (; i < each; i += step) rounds.template send<true, 1>(round, number, i);
    } else {
      for (; i < each; i += step) rounds.template send<false, 1>(round, number, i);
    }
  }
  template <int Phase = 0, class Rounds>
  PLAIT_DEVICE bool take_round(const Rounds& rounds, Range round, std::uint32_t number) const {
    if constexpr (Phase == Rounds::phases) {
      return true;
    } else {
      const std::uint32_t each = rounds.each(round), step = dev.threads();
      std::uint32_t i = dev.thread();
      if (is_whole(round)) {
        if constexpr (most_depth > 1) {
          for (; place(i, most_depth - 1) < each; i += most_depth * step)
            if (!rounds.template take<Phase, true, most_depth>(round, number, i)) return false;
        }
        for (; i < each; i += step)
          if (!rounds.template take<Phase, true, 1>(round, number, i)) return false;
      } else {
        for (; i < each; i += step)
          if (!rounds.template take<Phase, false, 1>(round, number, i)) return false;
      }
      return take_round<Phase + 1>(rounds, round, number);
    }
  }

  /// The first slot of this rank's lane at `owner`, in the block's first set.
  PLAIT_ELEMENT Marked* slots_at(int owner) const {
    const auto lane = static_cast<std::uint32_t>(a.rank < owner ? a.rank : a.rank - 1);
    return reinterpret_cast<Marked*>(a.scratch.peer_ptr(owner)) + a.layout.set(dev.block(), 0) +
           lane * a.lane;
  }
  /// The lane of a writer: peers have lanes in rank order.
  PLAIT_ELEMENT int lane(int begin, int j) const {
    return Ranks != 0 ? j : begin + j - (begin + j > a.rank ? 1 : 0);
  }
  PLAIT_ELEMENT Marked* slot(std::uint32_t number, bool results, int lane, std::uint32_t i) const {
    return own_ + index(number, results) + static_cast<unsigned>(lane) * a.lane + i;
  }
  /// The index of a round's set or, where messages take two hops, of the half of the set that is
  /// for results.
  PLAIT_ELEMENT std::uint32_t index(std::uint32_t number, bool results) const {
    return number % MarkedLayout::sets * a.layout.slots +
           (results ? static_cast<unsigned>(ranks() - 1) * a.lane : 0);
  }

  const Packs<const T, sizeof(Marked)> send_;
  const Packs<T, sizeof(Marked)> recv_;
  const Reducer<T> reducer_;
  Marked* own_;                                // this block's slots
  bool sends_again_ = false;                   // after this R, into the set of two rounds ago
  Marked* peers_[Ranks == 0 ? 1 : Ranks - 1];  // this rank's lanes at its targets
};

/// The cases of a kernel `Rounds<T, Ranks, D>`, a class of `MarkedExchange` and rounds.
template <template <class, int, class> class Rounds, class T>
struct MarkedKernel {
  template <int Ranks>
  struct Case {
    static constexpr unsigned min_blocks_per_multiprocessor = 1;

    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const MarkedArgs& a) {
      Rounds<T, Ranks, D>(dev, a).run();
    }
  };
  using Cases = TypeList<Case<2>, Case<4>, Case<8>, Case<0>>;
  static unsigned case_of(const MarkedArgs& a) {
    return a.ranks == 2 ? 0 : a.ranks == 4 ? 1 : a.ranks == 8 ? 2 : 3;
  }
  /// As for packets (LLKernel), only two ranks gain by a separate case on a host.
  struct OnHost {
    using List = TypeList<Case<2>, Case<0>>;
    static unsigned index(const MarkedArgs& a) { return a.ranks == 2 ? 0 : 1; }
  };
};

}  // namespace plait
