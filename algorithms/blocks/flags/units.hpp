// Units, and the kernels that exchange messages in them. A unit is data and a flag that arrive
// together, so a receiver polls the unit itself and needs neither a signal nor a barrier. The field
// calls this protocol LL, for low latency, and its variant with lines LL128. In the names of
// classes here, LL stands for both.
//
// There are two units, and kernels are templates over them:
//   PacketUnit   8 bytes of data in 16, moved by one thread;
//   LineUnit<D>  120 bytes in 128, moved by several threads together, where the target has lines.
// Data is counted in words of 8 bytes. The last word of a message may be partial.
//
// Threads that move lines stay together in groups: every thread of a group takes part in every
// access of the group, also for a unit that the message does not have (backends/device/device.hpp
// says why). So a loop over units goes on while any thread of the group has a unit, and passes on
// whether this thread's unit is `live`. With packets a group is one thread, whose unit is always
// live.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "algorithms/blocks/loops/rank_loops.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

struct PacketUnit {
  using Slot = Packet;
  using Share = PacketData;               // the part of a unit that one thread holds
  static constexpr unsigned threads = 1;  // that move one unit
  static constexpr unsigned group = 1;    // threads that stay together
  static constexpr unsigned words = 1;    // of data in one unit
  static constexpr int share_words = 1;   // words in a share, flag included
  static constexpr int summed_words = 1;  // words of a share that may be data; the others are not
                                          // added up, because they may be uninitialised

  PLAIT_ELEMENT static PacketData& word(Share& share, int) { return share; }
  PLAIT_ELEMENT static const PacketData& word(const Share& share, int) { return share; }
};

template <class D>
struct LineUnit {
  using Slot = Line;
  static constexpr unsigned threads = D::line_threads;
  static constexpr unsigned group = D::line_group;
  static constexpr unsigned words = 15;
  static constexpr int share_words = 16 / static_cast<int>(threads);
  // With several threads, only the last share ends in the flag, so all words are added up.
  static constexpr int summed_words = threads == 1 ? int{words} : share_words;
  using Share = LineShare<share_words>;

  PLAIT_ELEMENT static PacketData& word(Share& share, int i) { return share.word[i]; }
  PLAIT_ELEMENT static const PacketData& word(const Share& share, int i) { return share.word[i]; }
};

/// The units that this thread works on, and its share of each.
template <class Unit, class T>
class Units {
 public:
  using Elements = PacketElements<T>;
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  PLAIT_DEVICE explicit Units(unsigned thread)
      : lane_(Unit::threads == 1 ? 0 : thread % Unit::threads),
        in_group_(Unit::group == 1 ? 0 : thread % Unit::group / Unit::threads) {}

  /// The thread works on units first, first + step, first + 2 * step, ...
  PLAIT_ELEMENT static unsigned first(unsigned thread) { return thread / Unit::threads; }
  PLAIT_ELEMENT static unsigned step(unsigned threads) { return threads / Unit::threads; }

  /// Whether any thread of this one's group is at a unit below `end` when this thread is at unit i.
  PLAIT_ELEMENT bool group_has(std::uint32_t i, std::uint32_t end) const {
    return i - in_group_ < end;
  }
  /// Whether unit i, which this thread is at, is below `end`.
  PLAIT_ELEMENT static bool live(std::uint32_t i, std::uint32_t end) {
    return Unit::group == 1 || i < end;
  }

  /// A caller that needs several units loads them all before it puts the first one, so that the
  /// loads are in flight together: nothing overtakes a put, and where the words are whole, a load's
  /// result is not touched here.
  template <class D>
  PLAIT_ELEMENT Share load(D& dev, const Packs<const T, packet_bytes>& message, std::size_t unit,
                           bool live) const {
    Share share{};
    const std::size_t begin = index(unit, 0);
    if (live && begin + data_words() <= message.whole()) {
      PLAIT_UNROLL
      for (int i = 0; i < Unit::share_words; ++i)  // a word that is no data gets any value
        Unit::word(share, i) =
            to_packet<T>(dev.load(message.packs() + begin + (is_data(i) ? i : 0)));
    } else if (live) {
      PLAIT_UNROLL
      for (int i = 0; i < Unit::share_words; ++i)
        if (is_data(i))
          Unit::word(share, i) =
              to_packet<T>(message.load_elements(begin + static_cast<unsigned>(i)));
    }
    return share;
  }
  template <class D>
  PLAIT_ELEMENT void store(D& dev, const Packs<T, packet_bytes>& message, std::size_t unit,
                           Share& share, bool live) const {
    PLAIT_UNROLL
    for (int i = 0; i < Unit::share_words; ++i)
      if (live && is_data(i))
        message.store(dev, index(unit, i), from_packet<T>(Unit::word(share, i)));
  }
  template <class D>
  PLAIT_ELEMENT static void put(D& dev, Slot* slot, const Share& share, std::uint32_t flag,
                                bool live) {
    if constexpr (std::is_same_v<Slot, Line>) {
      dev.put(slot, share, flag, live);
    } else {
      if (live) dev.put(slot, share, flag);
    }
  }

 private:
  /// Words of this thread's share that are data.
  PLAIT_ELEMENT unsigned data_words() const {
    const unsigned before = lane_ * Unit::share_words;
    return Unit::words - before < unsigned{Unit::share_words} ? Unit::words - before
                                                              : Unit::share_words;
  }
  PLAIT_ELEMENT bool is_data(int i) const {
    return Unit::threads == 1 ? i < int{Unit::words}
                              : lane_ * Unit::share_words + static_cast<unsigned>(i) < Unit::words;
  }
  PLAIT_ELEMENT std::size_t index(std::size_t unit, int i) const {
    return unit * Unit::words + lane_ * Unit::share_words + static_cast<unsigned>(i);
  }

  unsigned lane_;      // this thread's number among the threads that move a unit
  unsigned in_group_;  // its unit's number among the units of its group
};

/// The sum of one unit over all ranks, added in the order of ranks.
template <class Unit, class T>
class UnitSum {
 public:
  using Share = typename Unit::Share;

  PLAIT_ELEMENT explicit UnitSum(const Reducer<T>& reducer) : reducer_(reducer) {}

  /// Adds the shares of the next `size` ranks, at most Max. `first`: they begin with rank 0.
  template <int Max>
  PLAIT_ELEMENT void add(bool first, Share (&shares)[Max], int size) {
    PLAIT_UNROLL
    for (int i = 0; i < Unit::summed_words; ++i) {
      const PacketElements<T> head = from_packet<T>(Unit::word(shares[0], i));
      if (first) sum_[i] = reducer_.start(head);
      else reducer_.add(sum_[i], head);
    }
    PLAIT_UNROLL
    for (int j = 1; j < Max; ++j) {
      if (j >= size) break;
      PacketElements<T> terms[Unit::summed_words];
      PLAIT_UNROLL
      for (int i = 0; i < Unit::summed_words; ++i)
        terms[i] = from_packet<T>(Unit::word(shares[j], i));
      reducer_.add_each(sum_, terms);
    }
  }
  /// Adds the shares of two ranks, which are all. `own` is that of `rank`.
  PLAIT_ELEMENT void add_both(int rank, const Share& own, const Share& other) {
    Share shares[2];
    PLAIT_UNROLL
    for (int i = 0; i < Unit::summed_words; ++i) {
      Unit::word(shares[0], i) = Unit::word(rank == 0 ? own : other, i);
      Unit::word(shares[1], i) = Unit::word(rank == 0 ? other : own, i);
    }
    add(true, shares, 2);
  }
  PLAIT_ELEMENT Share result() const {
    Share share{};
    PLAIT_UNROLL
    for (int i = 0; i < Unit::summed_words; ++i)
      Unit::word(share, i) = to_packet<T>(reducer_.template finish<packet_bytes>(sum_[i]));
    return share;
  }

 private:
  const Reducer<T>& reducer_;
  typename Reducer<T>::template Accumulator<PacketElements<T>::lanes> sum_[Unit::summed_words] = {};
};

/// The layout of units in a rank's scratch memory: [block][half][lane][slot]. A lane has one
/// writing rank, and this rank reads it. The halves are for even and odd epochs.
struct LLLayout {
  std::uint32_t slots;  // units per lane, half and block: the most of one round
  std::uint32_t lanes;

  /// Offset of a slot in units. The same slot of the next lane is `slots` further.
  PLAIT_ELEMENT std::uint32_t at(unsigned block, Epoch epoch, int lane, std::uint32_t slot) const {
    return ((block * 2 + epoch.half()) * lanes + static_cast<unsigned>(lane)) * slots + slot;
  }
  constexpr std::size_t units(unsigned blocks) const {
    return std::size_t{blocks} * 2 * lanes * slots;
  }
};

/// A message as its blocks see it.
struct LLMessage {
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Partition stripes;  // of the message's units, one per block
};

/// The arguments that all messages of a launch share.
struct LLExchange {
  WindowView scratch;
  LLLayout layout;
  /// One per block, in device memory, so that a captured launch advances them at every replay.
  std::uint32_t* epochs;
  Reduction reduction;
  int rank, ranks;
  int terms;  // in this rank's result, those of the first ranks: all, except in a scan
};

/// A launch for one message.
struct LLArgs {
  LLExchange exchange;
  LLMessage message;
};

/// A work item: one of many messages. Its first stripe belongs to `first_block`, the next one to
/// the next block.
struct alignas(16) LLItem {
  LLMessage message;
  std::uint32_t first_block;
};
static_assert(sizeof(LLItem) == 48 && alignof(LLItem) == 16,
              "work items are copied in steps of 16 bytes");

/// The work of a launch. A block has one stripe of a long message, or several short messages that
/// it takes one after the other. Items are in the order of their first blocks. One more item, whose
/// first block is higher than any, ends the list. The array has `Items` of them; in memory, more
/// may follow.
template <std::size_t Items>
struct LLWork {
  static constexpr unsigned most_blocks = 128;

  std::uint16_t first[most_blocks];  // each block's first item
  LLItem items[Items];
};

/// A launch for many messages.
struct LLBatch {
  LLExchange exchange;
  const LLWork<1>* work;  // null: the work is `few`
  LLWork<72> few;
};

/// The cases of a kernel for 2, 4 and 8 ranks, and for any number. `Case<Batch, All>` polls the
/// units of `Batch` ranks at once; `All`: these are all ranks.
template <template <int Batch, bool All> class Case>
using CasesByRanks = TypeList<Case<2, true>, Case<4, true>, Case<8, true>, Case<8, false>>;
constexpr unsigned case_of_ranks(int ranks) {
  return ranks == 2 ? 0 : ranks == 4 ? 1 : ranks == 8 ? 2 : 3;
}

/// Runs a launch for one message. `Messages::run<Batch, All>(dev, exchange, message, stripe,
/// epoch)` works on one stripe, and returns false if a peer never came.
template <class Messages, int Batch, bool All, class D>
PLAIT_DEVICE void exchange_messages(D& dev, const LLArgs& a) {
  Epoch epoch{a.exchange.epochs[dev.block()]};
  if (!Messages::template run<Batch, All>(dev, a.exchange, a.message, dev.block(), epoch)) return;
  dev.sync();  // all threads of the block have read the epoch
  if (dev.thread() == 0) a.exchange.epochs[dev.block()] = epoch.value;
}

/// Runs a launch for many messages. The next message begins as the next round of the same message
/// would.
template <class Messages, int Batch, bool All, class D>
PLAIT_DEVICE void exchange_messages(D& dev, const LLBatch& a) {
  const unsigned block = dev.block();
  Epoch epoch{a.exchange.epochs[block]};
  const LLItem* next;
  if constexpr (D::indexed_arguments) {
    next =
        a.work != nullptr ? a.work->items + a.work->first[block] : a.few.items + a.few.first[block];
  } else {
    next = a.work->items + a.work->first[block];
  }
  LLItem item = dev.uniform(*next);
  for (;;) {
    // The next item is in flight, perhaps from host memory, while the block works. AMD GPUs load it
    // later, because it would take too many of their registers.
    LLItem following;
    if constexpr (D::indexed_arguments) {
      following = *++next;
    }
    item.message.send = dev.to_global(item.message.send);
    item.message.recv = dev.to_global(item.message.recv);
    const bool complete = Messages::template run<Batch, All>(dev, a.exchange, item.message,
                                                             block - item.first_block, epoch);
    // All threads have finished this message before any of them sends units of the next one.
    if (!dev.uniform(dev.all(complete) ? 1u : 0u)) return;
    if constexpr (!D::indexed_arguments) {
      following = *++next;
    }
    following = dev.uniform(following);
    if (following.first_block > block) break;
    item = following;
  }
  if (dev.thread() == 0) a.exchange.epochs[block] = epoch.value;
}

/// A kernel that exchanges messages. `Exchange::Messages<D>` is for `exchange_messages`;
/// `Exchange::on<D>` says whether the target has the unit.
template <class Exchange>
struct LLKernel {
  template <int Batch, bool All>
  struct Case {
    /// A launch has 128 blocks at most, so registers for all of a thread's units are worth more
    /// than a second block per multiprocessor.
    static constexpr unsigned min_blocks_per_multiprocessor = 1;

    template <Device D, class A>
    PLAIT_DEVICE static void run(D& dev, const A& a) {
      if constexpr (Exchange::template on<D>) {
        exchange_messages<typename Exchange::template Messages<D>, Batch, All>(dev, a);
      }
    }
  };
  using Cases = CasesByRanks<Case>;
  template <class A>
  static unsigned case_of(const A& a) {
    return all_terms(a) ? case_of_ranks(a.exchange.ranks) : case_of_ranks(0);
  }
  /// On a host, cases for 4 and 8 ranks gain nothing, and larger batches lose. Two ranks gain: 64
  /// KB by oneshot_ll take 275 us instead of 410 (2 cores of an EPYC, 2026-11-24).
  struct OnHost {
    using List = TypeList<Case<2, true>, Case<1, false>>;
    template <class A>
    static unsigned index(const A& a) {
      return a.exchange.ranks == 2 && all_terms(a) ? 0 : 1;
    }
  };

 private:
  /// Results of fewer terms take the case for any number of ranks, so the others need not count.
  template <class A>
  static bool all_terms(const A& a) {
    return a.exchange.terms == a.exchange.ranks;
  }
};

}  // namespace plait
