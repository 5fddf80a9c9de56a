// Broadcast, reduce and scan along a chain of all ranks, through slots: large messages on any
// memory; each rank talks to its neighbours only.
//
// Two ranks or more. The chain of a broadcast begins at the root, and that of a reduce ends there;
// both have the order of `Topology::ring`. The chain of a scan begins at rank 0 and has the order
// of ranks. The message is cut into one stripe per block, and a stripe into chunks that fit a slot.
// In step k, a block
//   1. waits for chunk k of the rank before it, and for a free slot at the rank after it;
//   2. in a broadcast, stores chunk k in its output and passes it on (the root passes it on from
//      its input); in a reduce, adds its own term to chunk k and passes the sum on (the root stores
//      it); in a scan, does so and stores the sum; in an exclusive scan, passes the sum on and
//      stores what has come in;
//   3. signals the chunk that it has sent and the slot that it has emptied.
// The first rank of the chain receives nothing, and the last one sends nothing.
//
// Partial sums travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`,
// `finish`).
//
// A block uses its own channels (algorithms/blocks/channels/channel.hpp proves that slots may be
// used again). Even chunks take one way and odd chunks the other, so that the memory of both ways
// holds chunks between two neighbours.
//
// Why it can't deadlock. Step k waits for step k of the rank before, and for an earlier step of the
// rank after. So of all blocks with one number, take those in the least step: the first of them in
// the chain can go on.
//
// In place is safe. Where a rank has both buffers, a thread reads the packs that it writes. In an
// exclusive scan a block goes over a chunk twice: the second time, a pack may be another thread's.
// So the block synchronises between, and has read all of the chunk's input before it stores.
//
// Cost: n - 1 hops for the first chunk, pipelined after it; the message once out of, and once into,
// each rank.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/blocks/patterns/ring_place.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"

namespace plait::chain {

using Types = InRuns<AllReducedTypes>;

inline constexpr std::uint32_t slots = 2;  // of a channel

enum class Mode : std::uint8_t { broadcast, reduce, scan, exscan };

struct Args {
  Channels channels;
  const void* send;
  void* recv;
  std::size_t count;
  Partition stripes;  // of the message, in bytes, one per block
  Chunks chunks;      // of a stripe
  Reduction reduction;
  Mode mode;
  RingPlace place;
  int first;  // the rank where the chain begins

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

template <class T, Device D>
class Chain {
 public:
  PLAIT_DEVICE Chain(D& dev, const Args& a)
      : dev_(dev),
        channels_(a.channels, dev.block()),
        mover_(dev, a.send, a.recv, a.count, a.reduction),
        chunks_(a.chunks),
        stripe_(a.stripes.at(dev.block())),
        in_(static_cast<const T*>(a.send), a.count),
        out_(static_cast<T*>(a.recv), a.count),
        before_(a.place.before),
        after_(a.place.after),
        mode_(a.mode),
        first_(a.channels.rank == a.first),
        last_(a.place.after == a.first) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t chunks = dev_.uniform(chunks_.count(stripe_));
    for (std::uint32_t k = 0; k < chunks; ++k) {
      if (!ready(k)) return;
      const Range chunk = chunks_.at(stripe_, k);
      if (mode_ == Mode::broadcast) pass_on(chunk, k);
      else add(chunk, k);
      if (keeps_incoming()) keep_incoming(chunk, k);
      announce(k);
    }
    finish(chunks);
  }

 private:
  using P = typename ChunkMover<T, D>::P;
  static constexpr int in_flight = packs_in_flight<T, D>;

  /// The way of chunk k, and its number on that way.
  PLAIT_DEVICE static unsigned way(std::uint32_t k) { return k % Channels::ways; }
  PLAIT_DEVICE static std::uint32_t nth(std::uint32_t k) { return k / Channels::ways; }
  PLAIT_DEVICE const P* incoming(std::uint32_t k) const {
    return channels_.template incoming<P>(way(k), before_, nth(k));
  }
  PLAIT_DEVICE P* outgoing(std::uint32_t k) const {
    return channels_.template outgoing<P>(way(k), after_, nth(k));
  }

  /// The first thread serves the rank before, the last thread the rank after. A block may have only
  /// one thread.
  PLAIT_DEVICE bool receives() const { return dev_.thread() == 0 && !first_; }
  PLAIT_DEVICE bool sends() const { return dev_.thread() == dev_.threads() - 1 && !last_; }

  PLAIT_DEVICE bool ready(std::uint32_t k) {
    bool ok = true;
    const auto wait = [&](const ChannelWait& w, int peer) {
      ok = ok && dev_.wait(w.word, w.at_least, {peer, k});
    };
    if (receives()) wait(channels_.has_arrived(way(k), before_, nth(k)), before_);
    if (sends()) wait(channels_.may_send(way(k), after_, nth(k)), after_);
    return dev_.all(ok);
  }
  PLAIT_DEVICE void announce(std::uint32_t k) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    const auto signal = [&](const ChannelSignal& s) { dev_.signal(s.word, s.value); };
    if (sends())
      signal(channels_.publish(way(k), after_, nth(k),
                               in_whole_packs<D::pack_bytes>(chunks_.at(stripe_, k))));
    if (receives()) signal(channels_.consume(way(k), before_, nth(k)));
  }
  /// Without a `sync`, because only the thread that serves a rank reads its counters.
  PLAIT_DEVICE void finish(std::uint32_t chunks) {
    for (unsigned w = 0; w < Channels::ways; ++w) {
      const std::uint32_t its = chunks / Channels::ways + (w < chunks % Channels::ways ? 1 : 0);
      if (receives()) channels_.advance_received(w, before_, its);
      if (sends()) channels_.advance_sent(w, after_, its);
    }
  }

  // Each mover has one call here, because the compiler copies its code to every call.

  PLAIT_DEVICE void pass_on(Range chunk, std::uint32_t k) {
    if (first_) {
      const Range range = in_packs<D::pack_bytes>(chunk);
      fill_slot<in_flight>(dev_, in_, range, outgoing(k));
      if (in_.packs() != out_.packs())
        copy_packs<in_flight>(dev_, in_, out_, range);  // else in place
    } else if (!last_) {
      mover_.template copy<1, true>(chunk, {{incoming(k)}, {outgoing(k)}});
    }
  }
  PLAIT_DEVICE void add(Range chunk, std::uint32_t k) {
    const bool stores = mode_ == Mode::scan;
    if (first_)
      mover_.template add<0, 1, true>(Own::input, chunk, {{}, {outgoing(k)}}, false, stores);
    else if (!last_)
      mover_.template add<1, 1, true>(Own::input, chunk, {{incoming(k)}, {outgoing(k)}}, false,
                                      stores);
    else if (mode_ != Mode::exscan)
      mover_.template add<1, 0, true>(Own::input, chunk, {{incoming(k)}, {}}, true);
  }
  /// Whether the output is what comes in.
  PLAIT_DEVICE bool keeps_incoming() const {
    return mode_ == Mode::exscan ? !first_ : mode_ == Mode::broadcast && last_;
  }
  PLAIT_DEVICE void keep_incoming(Range chunk, std::uint32_t k) {
    // In place, each thread has read the input that it overwrites. But runs are cut otherwise for
    // sums than for copies.
    if constexpr (is_untyped<T>) {
      if (mode_ == Mode::exscan) dev_.sync();
    }
    mover_.template copy<0, true>(chunk, {{incoming(k)}, {}});
  }

  D& dev_;
  BlockChannels channels_;
  ChunkMover<T, D> mover_;
  Chunks chunks_;
  Range stripe_;
  Packs<const T, D::pack_bytes> in_;
  Packs<T, D::pack_bytes> out_;
  int before_, after_;
  const Mode& mode_;  // in the arguments, where it takes no register
  bool first_, last_;
};

template <class T>
struct Kernel {
  // A broadcast may have 256 large thread blocks. With two per multiprocessor all run at once,
  // beside those of another communicator.
  static constexpr unsigned min_blocks_per_multiprocessor = 2;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Chain<T, D>(dev, a).run();
  }
};

}  // namespace plait::chain
