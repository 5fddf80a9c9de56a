// All collectives of one hop, and scans, through slots: middle to large messages on any memory,
// with bounded scratch memory.
//
// Every rank sends its blocks straight to the ranks they are for, and receives the blocks that are
// for it; reduce-scatter, reduce and scans add these up. In a scan, a rank's block is for the ranks
// behind it, and for itself unless the scan is exclusive. A block of the call is cut into one
// stripe per thread block, and a stripe into chunks that fit a slot. In step j, a thread block
//   1. sends: pushes chunk j of the block for every rank that it sends to into a slot of that rank,
//      and copies chunk j of its block for itself;
//   2. receives: takes chunk j - lag of every rank that sends to it from slots, and copies each to
//      its place, or adds them up in rank order, with its own term if it sends to itself.
// Before them it waits for all that both need; after them it signals all that it has sent and used.
// So a step has one wait and one release.
//
// A thread block uses way 0 of its own channels (algorithms/blocks/channels/channel.hpp proves that
// slots may be used again, whichever ranks send to each other).
//
// Why it can't deadlock. Step j waits for chunks that peers send in their steps j - lag, and for
// slots that they empty in their step j - slots + lag at the latest. With 1 <= lag < slots, both
// are earlier than step j. So of all thread blocks with one number, the one in the least step can
// go on.
//
// In place is safe. Chunk j of a block is read in step j. Arriving chunks are written over it in
// step j + lag or later, after a `sync`. So is a sum without the own term; the thread that writes
// one with it has read it.
//
// Cost: one hop, and (n - 1) blocks out of, or into, the busiest rank.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/blocks/loops/slot_sum.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"

namespace plait::direct_push {

using Types = InRuns<AllReducedTypes>;

/// Of a channel between ranks of one node: few, because long chunks wait less. Between nodes more
/// chunks are on their way.
inline constexpr std::uint32_t slots = 2, slots_between_nodes = 8;

struct Args {
  Channels channels;
  DirectPattern pattern;
  int ahead;  // rank r's data is for ranks behind r - ahead: 1 in a scan, 0 in an exclusive scan,
              // and the number of ranks in all else
  const void* send;
  void* recv;
  std::size_t count;  // elements of a block
  Partition stripes;  // of a block, in bytes: one per thread block
  Chunks chunks;      // of a stripe
  std::uint32_t lag;  // steps from sending to receiving: from 1 to one less than the slots
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

/// `Reduces`: for collectives that add up; otherwise it only moves blocks. `Tree`: in a tree.
template <class T, class D, bool Reduces, bool Tree = false>
class Direct {
 public:
  PLAIT_DEVICE Direct(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        rank_(a.channels.rank),
        ranks_(a.channels.ranks),
        channels_(a.channels, dev.block()),
        reducer_(a.reduction),
        stripe_(a.stripes.at(dev.block())),
        chunks_(a.chunks.count(stripe_)) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = chunks_ == 0 ? 0 : chunks_ + a_.lag;
    for (std::uint32_t j = 0; j < steps; ++j) {
      if (!ready(j)) return;
      if (j < chunks_) send(j);
      if (j >= a_.lag) receive(j - a_.lag);
      announce(j);
    }
    finish();
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr unsigned way = 0;
  static constexpr int in_flight = packs_in_flight<T, D>;

  PLAIT_DEVICE int peer_at(unsigned i) const {
    return rank_after(rank_, static_cast<int>(i) + 1, ranks_);
  }
  PLAIT_DEVICE bool sends(int from, int to) const {
    return a_.pattern.sends(from, to) && (!Reduces || from < to + a_.ahead);
  }
  /// The number of ranks whose data this rank adds up.
  PLAIT_DEVICE int terms() const {
    if (!a_.pattern.sends(rank_, rank_)) return 0;
    return rank_ + a_.ahead < ranks_ ? rank_ + a_.ahead : ranks_;
  }
  PLAIT_DEVICE Input block_for(int target) const {
    return {static_cast<const T*>(a_.send) + a_.pattern.send_begin(target, a_.count), a_.count};
  }
  PLAIT_DEVICE Output block_from(int source) const {
    return {static_cast<T*>(a_.recv) + a_.pattern.recv_begin(source, a_.count), a_.count};
  }
  /// Chunk k of the own stripe, in packs of a block.
  PLAIT_DEVICE Range chunk(std::uint32_t k) const {
    return in_packs<D::pack_bytes>(a_.chunks.at(stripe_, k));
  }

  /// Calls body(peer, sending, k) for the channel ends that step j uses, spread over the threads.
  template <class Body>
  PLAIT_DEVICE void for_each_end(std::uint32_t j, Body body) {
    const auto peers = static_cast<unsigned>(ranks_ - 1);
    for (unsigned i = dev_.thread(); i < 2 * peers; i += dev_.threads()) {
      const int peer = peer_at(i % peers);
      const bool sending = i < peers;
      const std::uint32_t k = sending ? j : j - a_.lag;
      const bool used = sending ? sends(rank_, peer) : sends(peer, rank_);
      if (used && k < chunks_) body(peer, sending, k);  // unsigned: false below lag
    }
  }

  PLAIT_DEVICE bool ready(std::uint32_t j) {
    bool ok = true;
    for_each_end(j, [&](int peer, bool sending, std::uint32_t k) {
      if (!ok) return;
      const ChannelWait wait =
          sending ? channels_.may_send(way, peer, k) : channels_.has_arrived(way, peer, k);
      ok = dev_.wait(wait.word, wait.at_least, {peer, j});
    });
    return dev_.all(ok);
  }

  PLAIT_DEVICE void announce(std::uint32_t j) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for_each_end(j, [&](int peer, bool sending, std::uint32_t k) {
      const ChannelSignal signal =
          sending ? channels_.publish(way, peer, k, chunk(k).size() * sizeof(P))
                  : channels_.consume(way, peer, k);
      dev_.signal(signal.word, signal.value);
    });
  }

  PLAIT_DEVICE void finish() {
    dev_.sync();  // all threads have read the counters
    for (unsigned i = dev_.thread(); i + 1 < static_cast<unsigned>(ranks_); i += dev_.threads()) {
      const int peer = peer_at(i);
      if (sends(rank_, peer)) channels_.advance_sent(way, peer, chunks_);
      if (sends(peer, rank_)) channels_.advance_received(way, peer, chunks_);
    }
  }

  PLAIT_DEVICE void send(std::uint32_t k) {
    const Range range = chunk(k);
    for (unsigned i = 0; i + 1 < static_cast<unsigned>(ranks_); ++i) {
      const int peer = peer_at(i);
      if (!sends(rank_, peer)) continue;
      fill_slot<in_flight>(dev_, block_for(peer), range,
                           channels_.template outgoing<P>(way, peer, k));
    }
    if (Reduces || !sends(rank_, rank_)) return;
    const Input from = block_for(rank_);
    const Output to = block_from(rank_);
    if (from.packs() != to.packs()) copy_packs<in_flight>(dev_, from, to, range);  // else in place
  }

  PLAIT_DEVICE void receive(std::uint32_t k) {
    const Range range = chunk(k);
    if constexpr (Reduces) {
      if (terms() > 0)
        add_slots<true, Tree>(dev_, reducer_, block_for(rank_), range, block_from(rank_),
                              range.begin, {rank_, terms()},
                              [&](int r) { return channels_.template incoming<P>(way, r, k); });
    } else {
      for (unsigned i = 0; i + 1 < static_cast<unsigned>(ranks_); ++i) {
        const int peer = peer_at(i);
        if (!sends(peer, rank_)) continue;
        empty_slot<in_flight>(dev_, channels_.template incoming<P>(way, peer, k), block_from(peer),
                              range);
      }
    }
  }

  D& dev_;
  const Args& a_;
  int rank_, ranks_;
  BlockChannels channels_;
  Reducer<T> reducer_;
  Range stripe_;
  std::uint32_t chunks_;
};

/// Move-only collectives launch as their `move_type`, so only those types compile the case of
/// moves. It comes first, so that the others' places don't depend on trees.
template <class T>
struct Kernel {
  struct Sums {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Direct<T, D, true>(dev, a).run();
    }
  };
  struct Trees {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Direct<T, D, true, true>(dev, a).run();
    }
  };
  struct Moves {
    // A gather has 256 large thread blocks. With two per multiprocessor all run at once, beside
    // those of another communicator.
    static constexpr unsigned min_blocks_per_multiprocessor = 2;

    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Direct<T, D, false>(dev, a).run();
    }
  };
  static constexpr bool moves = is_moved<T> || is_untyped<T>, has_trees = Reducer<T>::has_trees;
  using Adding = std::conditional_t<has_trees, TypeList<Sums, Trees>, TypeList<Sums>>;
  using Cases = std::conditional_t<moves, Concatenated<TypeList<Moves>, Adding>, Adding>;
  static unsigned case_of(const Args& a) {
    if (!a.pattern.reduces) return 0;
    return (moves ? 1 : 0) + (has_trees && a.reduction.tree ? 1 : 0);
  }
};

}  // namespace plait::direct_push
