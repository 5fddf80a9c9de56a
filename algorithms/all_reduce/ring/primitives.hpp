// The five primitives of a ring. The kernel reaches its neighbours through nothing else.
//
// A step receives a chunk from the previous rank, sends one to the next rank, or both, through this
// block's channels (algorithms/blocks/channels/channel.hpp proves that slots and counters are
// safe).
//
// Why it can't deadlock. With two slots or more, a rank that waits to send has a slot's worth of
// data on the way to the next rank. So round the ring, some rank always has data to receive and a
// free slot to send to. With one slot, all ranks could hold a full slot and wait for each other.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/ring/schedule.hpp"
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::ring {

/// Per channel. The fewest that can't deadlock, because large slots hide a step's latency best.
inline constexpr std::uint32_t slots = 2;

/// The n chunks of a round, in bytes. Each fills a slot, except in the last round.
struct RoundChunks {
  std::size_t begin;
  Partition partition;

  /// Cuts `size` bytes from `begin` on, at most `slot_bytes * ranks`. Chunks are whole packs of
  /// `pack_bytes`, except the last.
  PLAIT_DEVICE static RoundChunks of(std::size_t begin, std::size_t size, std::uint32_t slot_bytes,
                                     int ranks, std::uint32_t pack_bytes) {
    const auto n = static_cast<std::uint32_t>(ranks);
    if (size == std::size_t{slot_bytes} * n) return {begin, {size, slot_bytes}};
    const std::uint32_t packs = (static_cast<std::uint32_t>(size) + pack_bytes - 1) / pack_bytes;
    return {begin, {size, std::size_t{(packs + n - 1) / n} * pack_bytes}};
  }
  PLAIT_DEVICE Range at(int chunk) const {
    const Range piece = partition.at(static_cast<unsigned>(chunk));
    return {begin + piece.begin, begin + piece.end};
  }
};

template <class T, Device D>
class Primitives {
 public:
  PLAIT_DEVICE Primitives(D& dev, ChunkMover<T, D>& mover, const RingPlace& place,
                          const Channels& channels)
      : dev_(dev), mover_(mover), place_(place), channels_(channels, dev.block()) {}

  PLAIT_DEVICE void set_chunks(const RoundChunks& chunks) { chunks_ = chunks; }

  /// Ends the call, after the last step.
  PLAIT_DEVICE void advance() {
    if (place_.ranks == 1) return;
    dev_.sync();  // all threads have read the counters
    if (dev_.thread() != 0) return;
    channels_.advance_sent(way, place_.after, sent_);
    channels_.advance_received(way, place_.before, received_);
  }

  PLAIT_DEVICE bool send(int chunk) { return step<false, false, true>(chunk); }
  PLAIT_DEVICE bool recv_reduce_send(int chunk) { return step<true, false, true, true>(chunk); }
  PLAIT_DEVICE bool recv_reduce_copy_send(int chunk) { return step<true, true, true, true>(chunk); }
  PLAIT_DEVICE bool recv_copy_send(int chunk) { return step<true, true, true>(chunk); }
  PLAIT_DEVICE bool recv(int chunk) { return step<true, true, false>(chunk); }
  /// For a ring of one rank.
  PLAIT_DEVICE bool copy(int chunk) { return step<false, true, false>(chunk); }

 private:
  using P = Pack<T, D::pack_bytes>;

  /// Receives a chunk, adds the own input, stores the sum and sends it on, in this order. Each part
  /// is optional.
  template <bool Recv, bool Copy, bool Send, bool Reduce = false>
  PLAIT_DEVICE bool step(int chunk) {
    if (!ready<Recv, Send>(chunk)) return false;
    const P* from = Recv ? channels_.template incoming<P>(way, place_.before, received_) : nullptr;
    P* to = Send ? channels_.template outgoing<P>(way, place_.after, sent_) : nullptr;
    if constexpr (Reduce || !Recv) {
      constexpr bool finished = Copy;  // the rank that stores a sum first adds the last term
      mover_.template add<Recv ? 1 : 0, Send ? 1 : 0, Copy>(Own::input, chunks_.at(chunk),
                                                            {{from}, {to}}, finished);
    } else {
      mover_.template copy<Send ? 1 : 0, Copy>(chunks_.at(chunk), {{from}, {to}});
    }
    finish<Recv, Send>(chunk);
    return true;
  }

  /// Waits for a slot to read and for a slot to write, at the same time where the block has two
  /// threads.
  template <bool Recv, bool Send>
  PLAIT_DEVICE bool ready(int chunk) {
    const auto step = static_cast<std::uint32_t>(chunk);
    bool ok = true;
    if (Recv && dev_.thread() == 0)
      ok = wait(channels_.has_arrived(way, place_.before, received_), {place_.before, step});
    if (Send && ok && dev_.thread() == 1 % dev_.threads())
      ok = wait(channels_.may_send(way, place_.after, sent_), {place_.after, step});
    return dev_.all(ok);
  }
  PLAIT_DEVICE bool wait(ChannelWait wait, Waiting who) {
    return dev_.wait(wait.word, wait.at_least, who);
  }

  template <bool Recv, bool Send>
  PLAIT_DEVICE void finish(int chunk) {
    dev_.sync();  // all threads have read the one slot and written the other
    if (Send && dev_.thread() == 0)
      signal(channels_.publish(way, place_.after, sent_,
                               in_whole_packs<D::pack_bytes>(chunks_.at(chunk))));
    if (Recv && dev_.thread() == 1 % dev_.threads())
      signal(channels_.consume(way, place_.before, received_));
    if (Send) ++sent_;
    if (Recv) ++received_;
  }
  PLAIT_DEVICE void signal(ChannelSignal signal) { dev_.signal(signal.word, signal.value); }

  static constexpr unsigned way = 0;

  D& dev_;
  ChunkMover<T, D>& mover_;
  RingPlace place_;
  BlockChannels channels_;
  std::uint32_t sent_ = 0, received_ = 0;  // chunks of this call
  RoundChunks chunks_{};
};

}  // namespace plait::ring
