// Broadcast and reduce in two hops through slots: middle to large messages on three ranks or more, on any memory. The root sends, or
// receives, every byte once; in one hop it would be n - 1 times.
//
// The message is cut into one slice for each rank but the root, its relay (algorithms/building_blocks/relay_pattern.hpp); a slice into one
// stripe a thread block, and a stripe into pieces that fit a slot. In step j of a broadcast
//   the root pushes piece j of every slice to its relay, and copies it to its own output;
//   a relay   1. passes on: piece j of its slice, from the root, to its output and to all other relays;
//             2. takes: piece j - lag of their slices, to its output.
// In step j of a reduce
//   a relay   1. pushes its terms of piece j of the other slices to their relays;
//             2. adds its own and the others' terms of piece j - lag of its slice, and pushes the sum to the root;
//   the root adds its own terms to piece j of every slice, from its relay, and stores the result.
// Before a step, a block waits for what it needs, after it it says what it has sent and used: one wait and one release.
//
// Partial sums travel in the type of the data (`Reducer::enter`, `add_entering`, `leave`).
//
// The channels (algorithms/building_blocks/channel.hpp, with the proof that slots may be used again) are a thread block's own, way 0: of the
// two hops, no two lead from one rank to the same other.
//
// Why it can't deadlock. Of the thread blocks with one number, let step j of a relay have the time j, that of the root j - 1/2 in a broadcast
// and j + lag + 1/2 in a reduce. Each waits for earlier ones only: a relay for pieces of relays' steps j - lag, for slots that relays emptied
// in their steps j - slots + lag, and for the root's step j in a broadcast, j - lag - slots in a reduce; the root for slots that relays
// emptied in their steps j - slots, or for sums of their steps j + lag. (1 <= lag < slots.)
//
// In place is safe. Nobody but the root has both buffers, and there a thread reads what it writes.
//
// Cost: two hops; the message once out of the root and (n - 2) / (n - 1) of it out of each relay, or the reverse.
#pragma once
#include "algorithms/building_blocks/channel.hpp"
#include "algorithms/building_blocks/pack_loop.hpp"
#include "algorithms/building_blocks/pieces.hpp"
#include "algorithms/building_blocks/relay_pattern.hpp"
#include "backends/kernel_table.hpp"

namespace plait::relay_push {

using Types = AllTypes;

inline constexpr std::uint32_t slots = 2, lag = 1;  // of a channel; steps from sending to receiving among relays

struct Args {
  Channels channels;
  const void* send;
  void* recv;
  std::size_t count;
  Parts slices;   // of the message, in bytes
  Parts stripes;  // of a slice, one a thread block
  Pieces pieces;  // of a stripe
  Reduction reduction;
  bool reduces;
  int root;
};

template <class T, class D>
class Relay {
 public:
  PLAIT_DEVICE Relay(D& dev, const Args& a)
      : dev_(dev),
        pattern_{a.reduces, a.channels.rank, a.channels.ranks, a.root},
        slices_(a.slices),
        stripe_(a.stripes.at(dev.block())),
        pieces_(a.pieces),
        channels_(a.channels, dev.block()),
        in_(static_cast<const T*>(a.send), a.count),
        out_(static_cast<T*>(a.recv), a.count),
        reducer_(a.reduction) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t longest = pieces_.count(stripe_), steps = longest == 0 ? 0 : longest + lag;
    for (std::uint32_t j = 0; j < steps; ++j) {
      if (!ready(j)) return;
      if (pattern_.is_root()) {
        if (pattern_.reduces) store_sums(j);
        else send(j);
      } else if (pattern_.reduces) {
        send_terms(j);
        if (j >= lag) add_terms(j - lag);
      } else {
        pass_on(j);
        if (j >= lag) take(j - lag);
      }
      announce(j);
    }
    finish();
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  static constexpr unsigned way = 0;
  static constexpr int in_flight = packs_in_flight<T, D>;

  /// This thread block's stripe of a slice, in bytes of the message.
  PLAIT_DEVICE Range stripe(int slice) const {
    const Range whole = slices_.at(static_cast<unsigned>(slice));
    const auto clipped = [&](std::size_t offset) { return whole.begin + offset < whole.end ? whole.begin + offset : whole.end; };
    return {clipped(stripe_.begin), clipped(stripe_.end)};
  }
  /// Packs of the message; empty behind the last piece.
  PLAIT_DEVICE Range piece(int slice, std::uint32_t k) const { return in_packs<D::pack_bytes>(pieces_.at(stripe(slice), k)); }
  PLAIT_DEVICE static std::uint32_t size_of(const Range& range) { return static_cast<std::uint32_t>(range.size()); }
  PLAIT_DEVICE int own_slice() const { return pattern_.slice_of(pattern_.rank); }
  PLAIT_DEVICE int relays() const { return pattern_.ranks - 1; }
  PLAIT_DEVICE const P* incoming(int peer, std::uint32_t k) const { return channels_.template incoming<P>(way, peer, k); }
  PLAIT_DEVICE P* outgoing(int peer, std::uint32_t k) const { return channels_.template outgoing<P>(way, peer, k); }

  /// Calls body(peer, sending, k) for both ends of the channels that are used in step j; spread over the threads.
  template <class Body>
  PLAIT_DEVICE void for_each_end(std::uint32_t j, Body body) {
    const int rank = pattern_.rank, peers = pattern_.ranks - 1;
    for (int i = static_cast<int>(dev_.thread()); i < 2 * peers; i += static_cast<int>(dev_.threads())) {
      const bool sending = i < peers;
      const int peer = rank_after(rank, (sending ? i : i - peers) + 1, pattern_.ranks), from = sending ? rank : peer, to = sending ? peer : rank;
      const bool late = !pattern_.is_root() && (peer == pattern_.root ? pattern_.reduces : !sending);
      const std::uint32_t k = late ? j - lag : j;  // unsigned: no piece below lag
      if (pattern_.sends(from, to) && k < pieces_.count(stripe(pattern_.slice_between(from, to)))) body(peer, sending, k);
    }
  }

  PLAIT_DEVICE bool ready(std::uint32_t j) {
    bool ok = true;
    for_each_end(j, [&](int peer, bool sending, std::uint32_t k) {
      if (!ok) return;
      const ChannelWait wait = sending ? channels_.may_send(way, peer, k) : channels_.has_arrived(way, peer, k);
      ok = dev_.wait(wait.word, wait.at_least, {peer, j});
    });
    return dev_.all(ok);
  }

  PLAIT_DEVICE void announce(std::uint32_t j) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for_each_end(j, [&](int peer, bool sending, std::uint32_t k) {
      const ChannelSignal signal = sending ? channels_.publish(way, peer, k) : channels_.consume(way, peer, k);
      dev_.signal(signal.word, signal.value);
    });
  }

  PLAIT_DEVICE void finish() {
    dev_.sync();  // all threads have read the counters
    for (int i = static_cast<int>(dev_.thread()); i + 1 < pattern_.ranks; i += static_cast<int>(dev_.threads())) {
      const int rank = pattern_.rank, peer = rank_after(rank, i + 1, pattern_.ranks);
      const auto used = [&](int from, int to) {
        return pattern_.sends(from, to) ? pieces_.count(stripe(pattern_.slice_between(from, to))) : 0;
      };
      channels_.advance(way, peer, used(rank, peer), used(peer, rank));
    }
  }

  // Broadcast.

  PLAIT_DEVICE void send(std::uint32_t k) {
    for (int s = 0; s < pattern_.slices(); ++s) {
      const Range range = piece(s, k);
      if (relays() != 0) send_input(range, outgoing(pattern_.relay(s), k));
      if (in_.packs() != out_.packs()) copy_packs<in_flight>(dev_, in_, out_, range);  // else in place
    }
  }
  PLAIT_DEVICE void pass_on(std::uint32_t k) {
    const Range range = piece(own_slice(), k);
    const P* const from = incoming(pattern_.root, k);
    for (int i = 0; i + 1 < relays(); ++i) {
      P* const to = outgoing(pattern_.other_relay(i), k);
      for_packs<in_flight>(dev_, size_of(range), true, [&]<int Count, bool Whole>(std::uint32_t first) {
        P packs[Count];
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) packs[u] = dev_.load(from + first + u * dev_.threads());
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) dev_.store(to + first + u * dev_.threads(), packs[u]);
      });
    }
    store_slot(from, range);
  }
  PLAIT_DEVICE void take(std::uint32_t k) {
    for (int i = 0; i + 1 < relays(); ++i) {
      const int peer = pattern_.other_relay(i);
      store_slot(incoming(peer, k), piece(pattern_.slice_of(peer), k));
    }
  }

  // Reduce.

  PLAIT_DEVICE void send_terms(std::uint32_t k) {
    for (int i = 0; i + 1 < relays(); ++i) {
      const int peer = pattern_.other_relay(i);
      send_input(piece(pattern_.slice_of(peer), k), outgoing(peer, k));
    }
  }
  PLAIT_DEVICE void add_terms(std::uint32_t k) {
    const Range range = piece(own_slice(), k);
    P* const to = outgoing(pattern_.root, k);
    for_packs<in_flight>(dev_, size_of(range), range.end <= in_.whole(), [&]<int Count, bool Whole>(std::uint32_t first) {
      P packs[Count];
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = load_pack<Whole>(dev_, in_, range.begin + first + u * dev_.threads());
      using Sum = decltype(reducer_.enter(packs[0]));
      Sum sum[Count];
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) sum[u] = reducer_.enter(packs[u]);
      for (int i = 0; i + 1 < relays(); ++i) {
        const P* const slot = incoming(pattern_.other_relay(i), k);
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) packs[u] = dev_.load(slot + first + u * dev_.threads());
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) reducer_.add_entering(sum[u], packs[u]);
      }
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) dev_.store(to + first + u * dev_.threads(), reducer_.template rounded<sizeof(P)>(sum[u]));
    });
  }
  PLAIT_DEVICE void store_sums(std::uint32_t k) {
    for (int s = 0; s < pattern_.slices(); ++s) {
      const Range range = piece(s, k);
      const bool alone = relays() == 0;
      const P* const slot = incoming(pattern_.relay(s), k);
      const bool whole = range.end <= in_.whole() && range.end <= out_.whole();
      for_packs<in_flight>(dev_, size_of(range), whole, [&]<int Count, bool Whole>(std::uint32_t first) {
        P packs[Count];
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) packs[u] = load_pack<Whole>(dev_, in_, range.begin + first + u * dev_.threads());
        using Sum = decltype(reducer_.enter(packs[0]));
        Sum sum[Count];
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u) sum[u] = reducer_.enter(packs[u]);
        if (!alone) {
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u) packs[u] = dev_.load(slot + first + u * dev_.threads());
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u) reducer_.add_partial(sum[u], packs[u]);
        }
        PLAIT_UNROLL
        for (int u = 0; u < Count; ++u)
          store_pack<Whole>(dev_, out_, range.begin + first + u * dev_.threads(),
                            reducer_.leave(reducer_.template rounded<sizeof(P)>(sum[u])));
      });
    }
  }

  /// Packs of the input into a slot; a slot's packs to their place in the output.
  PLAIT_DEVICE void send_input(const Range& range, P* to) {
    for_packs<in_flight>(dev_, size_of(range), range.end <= in_.whole(), [&]<int Count, bool Whole>(std::uint32_t first) {
      P packs[Count];
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = load_pack<Whole>(dev_, in_, range.begin + first + u * dev_.threads());
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) dev_.store(to + first + u * dev_.threads(), packs[u]);
    });
  }
  PLAIT_DEVICE void store_slot(const P* from, const Range& range) {
    for_packs<in_flight>(dev_, size_of(range), range.end <= out_.whole(), [&]<int Count, bool Whole>(std::uint32_t first) {
      P packs[Count];
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) packs[u] = dev_.load(from + first + u * dev_.threads());
      PLAIT_UNROLL
      for (int u = 0; u < Count; ++u) store_pack<Whole>(dev_, out_, range.begin + first + u * dev_.threads(), packs[u]);
    });
  }

  D& dev_;
  RelayPattern pattern_;
  Parts slices_;
  Range stripe_;  // in a slice
  Pieces pieces_;
  BlockChannels channels_;
  Packs<const T, D::pack_bytes> in_;
  Packs<T, D::pack_bytes> out_;
  Reducer<T> reducer_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Relay<T, D>(dev, a).run();
  }
};

}  // namespace plait::relay_push
