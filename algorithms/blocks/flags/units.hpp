// What algorithms share that exchange flagged data: how much of a message travels in one chunk, and
// where chunks lie in scratch memory.
//
// A unit is that chunk: a packet (8 bytes of data in 16, a thread's own), a wide packet (24 in 32,
// where the target has them) or a line (120 bytes in 128, where the target has lines: several
// threads move it together). Kernels are templates over it. Data is counted in words of 8 bytes;
// the last one of a message may be partial.
//
// Threads that move lines stay together in groups: each of a group's threads takes part in every
// access of the group, also for a unit that the message does not have (backends/device/device.hpp
// says why). So loops over units go on as long as one of the group has a unit, and what they call
// is told whether this thread's unit is `live`. With packets a group is one thread, and always
// live.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

/// Calls `body` with every rank, the next one first, so that no two ranks write to the same peer
/// first; the own one last, or, unless `Own`, not. `Ranks`: how many, a power of two, or 0 for any.
template <int Ranks, bool Own = true, class Body>
PLAIT_DEVICE void for_each_rank(int rank, int ranks, Body body) {
  constexpr int left_out = Own ? 0 : 1;
  if constexpr (Ranks == 0) {
    for (int s = 1; s <= ranks - left_out; ++s) body(rank_after(rank, s, ranks));
  } else {
    PLAIT_UNROLL
    for (int s = 1; s <= Ranks - left_out; ++s) body((rank + s) & (Ranks - 1));
  }
}
template <int Ranks, class Body>
PLAIT_DEVICE void for_each_peer(int rank, int ranks, Body body) {
  for_each_rank<Ranks, false>(rank, ranks, body);
}

/// For all ranks in steps: calls `load(place, peer, there)` for as many ranks as are handled
/// together, then `put(place, peer, there)` for each. Places begin at 0 and are less than
/// `ranks_together<Ranks>`; ranks that are not there fill the last step.
template <int Ranks>
inline constexpr int ranks_together = Ranks == 0 ? 4 : Ranks;
template <int Ranks, class Load, class Put>
PLAIT_DEVICE void for_ranks_together(int rank, int ranks, Load load, Put put) {
  constexpr int together = ranks_together<Ranks>;
  const auto peer_at = [&](int s) {
    return Ranks != 0   ? (rank + s) & (together - 1)
           : s <= ranks ? rank_after(rank, s, ranks)
                        : rank;
  };
  for (int begin = 1; begin <= (Ranks == 0 ? ranks : 1); begin += together) {
    PLAIT_UNROLL
    for (int j = 0; j < together; ++j)
      load(j, peer_at(begin + j), Ranks != 0 || begin + j <= ranks);
    PLAIT_UNROLL
    for (int j = 0; j < together; ++j) put(j, peer_at(begin + j), Ranks != 0 || begin + j <= ranks);
  }
}

/// One packet.
struct PacketUnit {
  using Slot = Packet;
  using Share = PacketData;               // what a thread holds of a unit
  static constexpr unsigned threads = 1;  // that move a unit
  static constexpr unsigned group = 1;    // threads that stay together
  static constexpr unsigned words = 1;    // of data in a unit
  static constexpr int share_words = 1;   // words a thread holds, flag included
  static constexpr int summed_words = 1;  // of these, words that may be data: no others are added
                                          // up, as nothing may have been put there

  PLAIT_DEVICE static PacketData& word(Share& share, int) { return share; }
  PLAIT_DEVICE static const PacketData& word(const Share& share, int) { return share; }
};

/// One wide packet.
struct WideUnit {
  using Slot = WidePacket;
  using Share = WidePacketData;
  static constexpr unsigned threads = 1;
  static constexpr unsigned group = 1;
  static constexpr unsigned words = 3;
  static constexpr int share_words = 3;
  static constexpr int summed_words = 3;

  PLAIT_DEVICE static PacketData& word(Share& share, int i) { return share.word[i]; }
  PLAIT_DEVICE static const PacketData& word(const Share& share, int i) { return share.word[i]; }
};

/// One line of device D.
template <class D>
struct LineUnit {
  using Slot = Line;
  static constexpr unsigned threads = D::line_threads;
  static constexpr unsigned group = D::line_group;
  static constexpr unsigned words = 15;
  static constexpr int share_words = 16 / static_cast<int>(threads);
  static constexpr int summed_words =
      threads == 1 ? int{words}
                   : share_words;  // of several threads the last one has the flag there
  using Share = LineShare<share_words>;

  PLAIT_DEVICE static PacketData& word(Share& share, int i) { return share.word[i]; }
  PLAIT_DEVICE static const PacketData& word(const Share& share, int i) { return share.word[i]; }
};

/// This thread's way through units, and its words of each.
template <class Unit, class T>
class Units {
 public:
  using Elements = PacketElements<T>;
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;

  PLAIT_DEVICE explicit Units(unsigned thread)
      : lane_(Unit::threads == 1 ? 0 : thread % Unit::threads),
        in_group_(Unit::group == 1 ? 0 : thread % Unit::group / Unit::threads) {}

  /// Which unit of every `threads / Unit::threads` this thread works on first.
  PLAIT_DEVICE static unsigned first(unsigned thread) { return thread / Unit::threads; }
  PLAIT_DEVICE static unsigned step(unsigned threads) { return threads / Unit::threads; }

  /// Of the units below `end`: whether one of this thread's group has one yet when this thread is
  /// at i, and whether i is one.
  PLAIT_DEVICE bool group_has(std::uint32_t i, std::uint32_t end) const {
    return i - in_group_ < end;
  }
  PLAIT_DEVICE static bool live(std::uint32_t i, std::uint32_t end) {
    return Unit::group == 1 || i < end;
  }

  /// Loads of one unit after another are in flight together, so who needs several loads them all
  /// before it puts the first one: what a load gives is not touched here, where the words are
  /// whole, and nothing overtakes a put.
  template <class D>
  PLAIT_DEVICE Share load(D& dev, const Packs<const T, packet_bytes>& message, std::size_t unit,
                          bool live) const {
    Share share{};
    const std::size_t begin = index(unit, 0);
    if (live && begin + data_words() <= message.whole()) {
      PLAIT_UNROLL
      for (int i = 0; i < Unit::share_words;
           ++i)  // instead of a word that is none of the data, any
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
  PLAIT_DEVICE void store(D& dev, const Packs<T, packet_bytes>& message, std::size_t unit,
                          Share& share, bool live) const {
    PLAIT_UNROLL
    for (int i = 0; i < Unit::share_words; ++i)
      if (live && is_data(i))
        message.store(dev, index(unit, i), from_packet<T>(Unit::word(share, i)));
  }
  template <class D>
  PLAIT_DEVICE static void put(D& dev, Slot* slot, const Share& share, std::uint32_t flag,
                               bool live) {
    if constexpr (std::is_same_v<Slot, Line>) {
      dev.put(slot, share, flag, live);
    } else {
      if (live) dev.put(slot, share, flag);
    }
  }

 private:
  /// Of this thread's share.
  PLAIT_DEVICE unsigned data_words() const {
    const unsigned before = lane_ * Unit::share_words;
    return Unit::words - before < unsigned{Unit::share_words} ? Unit::words - before
                                                              : Unit::share_words;
  }
  PLAIT_DEVICE bool is_data(int i) const {
    return Unit::threads == 1 ? i < int{Unit::words}
                              : lane_ * Unit::share_words + static_cast<unsigned>(i) < Unit::words;
  }
  PLAIT_DEVICE std::size_t index(std::size_t unit, int i) const {
    return unit * Unit::words + lane_ * Unit::share_words + static_cast<unsigned>(i);
  }

  unsigned lane_;      // of the threads that move a unit
  unsigned in_group_;  // this thread's unit, of those of the group
};

/// The sum of a unit over the ranks, in the order of ranks.
template <class Unit, class T>
class UnitSum {
 public:
  using Share = typename Unit::Share;

  PLAIT_DEVICE explicit UnitSum(const Reducer<T>& reducer) : reducer_(reducer) {}

  /// The next `size` ranks' shares, up to Max of them; `first`: they begin with rank 0.
  template <int Max>
  PLAIT_DEVICE void add(bool first, Share (&shares)[Max], int size) {
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
  /// Both shares of two ranks: rank `rank` has `own`.
  PLAIT_DEVICE void add_both(int rank, const Share& own, const Share& other) {
    Share shares[2];
    PLAIT_UNROLL
    for (int i = 0; i < Unit::summed_words; ++i) {
      Unit::word(shares[0], i) = Unit::word(rank == 0 ? own : other, i);
      Unit::word(shares[1], i) = Unit::word(rank == 0 ? other : own, i);
    }
    add(true, shares, 2);
  }
  PLAIT_DEVICE Share result() const {
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

/// Where units lie in a rank's scratch: [block][half][lane][slot]. A lane has one writing rank and
/// one reader, this rank. Two halves, for odd and even epochs.
struct LLLayout {
  std::uint32_t slots;  // units a lane, half and block: what a round can hold
  std::uint32_t lanes;

  /// In units from the scratch memory's start; the next lane's is `slots` further.
  PLAIT_DEVICE std::uint32_t at(unsigned block, Epoch epoch, int lane, std::uint32_t slot) const {
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
  Parts stripes;  // of the message's units, one a block
};

/// What all messages of a launch share.
struct LLExchange {
  WindowView scratch;
  LLLayout layout;
  std::uint32_t*
      epochs;  // one a block, in device memory: a captured launch advances them at every replay
  Reduction reduction;
  int rank, ranks;
};

/// A launch for one message.
struct LLArgs {
  LLExchange exchange;
  LLMessage message;
};

/// One of many messages: a work item. Blocks `first_block` and after have its stripes.
struct alignas(16) LLItem {
  LLMessage message;
  std::uint32_t first_block;
};
static_assert(sizeof(LLItem) == 48 && alignof(LLItem) == 16,
              "work items are copied in units of 16 bytes");

/// What the blocks of a launch have to do, of which `Items` items are here; more follow. A block
/// has one stripe of a long message or several short messages, which it takes one after another.
/// Items are in the order of their first blocks; one more ends the list, whose first block is none.
template <std::size_t Items>
struct LLWork {
  static constexpr unsigned most_blocks = 128;

  std::uint16_t first[most_blocks];  // each block's first item
  LLItem items[Items];
};

/// A launch for many messages.
struct LLBatch {
  LLExchange exchange;
  const LLWork<1>* work;  // null: it is `few`
  LLWork<72> few;
};

/// The codes of a kernel that has one for each of these numbers of ranks, and one for any other.
/// `Code<Batch, All>`: `Batch` ranks' units are polled at once; `All`: that is all of them.
template <template <int Batch, bool All> class Code>
using RanksCodes = TypeList<Code<2, true>, Code<4, true>, Code<8, true>, Code<8, false>>;
constexpr unsigned ranks_code(int ranks) {
  return ranks == 2 ? 0 : ranks == 4 ? 1 : ranks == 8 ? 2 : 3;
}

/// The work of a launch. `Messages::run<Batch, All>(dev, exchange, message, stripe, epoch)` works
/// on one stripe and says whether it came to its end.
template <class Messages, int Batch, bool All, class D>
PLAIT_DEVICE void exchange_messages(D& dev, const LLArgs& a) {
  Epoch epoch{a.exchange.epochs[dev.block()]};
  if (!Messages::template run<Batch, All>(dev, a.exchange, a.message, dev.block(), epoch)) return;
  dev.sync();  // all threads of the block have read the epoch
  if (dev.thread() == 0) a.exchange.epochs[dev.block()] = epoch.value;
}

/// The same for many messages: a message begins as a round does within one.
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
    // On its way, perhaps from host memory, while the block works; not on AMD GPUs, whose registers
    // it would take too many of.
    LLItem following;
    if constexpr (D::indexed_arguments) {
      following = *++next;
    }
    item.message.send = dev.to_global(item.message.send);
    item.message.recv = dev.to_global(item.message.recv);
    const bool complete = Messages::template run<Batch, All>(dev, a.exchange, item.message,
                                                             block - item.first_block, epoch);
    // The whole block has finished this message before anybody sends of the next one.
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

/// A kernel that exchanges messages. `Exchange::Messages<D>`: see `exchange_messages`;
/// `Exchange::on<D>`: whether the target has its units.
template <class Exchange>
struct LLKernel {
  template <int Batch, bool All>
  struct Code {
    static constexpr unsigned least_blocks_a_unit =
        1;  // 128 blocks at most: rather registers for all of a thread's units

    template <Device D, class A>
    PLAIT_DEVICE static void run(D& dev, const A& a) {
      if constexpr (Exchange::template on<D>) {
        exchange_messages<typename Exchange::template Messages<D>, Batch, All>(dev, a);
      }
    }
  };
  using Codes = RanksCodes<Code>;
  template <class A>
  static unsigned code(const A& a) {
    return ranks_code(a.exchange.ranks);
  }
};

}  // namespace plait
