// Broadcast and reduce in two hops, in flagged units
// (algorithms/blocks/patterns/relay_pattern.hpp).
//
// The message's units are cut into one slice for each rank but the root; that rank is the slice's
// relay. A slice is cut into one stripe per block, and a stripe into rounds that fit a lane. Each
// thread handles its units of every slice. In each round of a broadcast:
//   1. The root pushes the units of every slice to the slice's relay, and stores them in its own
//      output.
//   2. A relay polls the units of its own slice. As each comes, it pushes it to the other relays
//      and stores it.
//   3. A relay polls the units of the other slices, and stores them.
// In each round of a reduce:
//   1. A relay pushes its units of the other slices to their relays.
//   2. A relay polls the other relays' units of its own slice, adds them to its own, and pushes the
//      sum to the root.
//   3. The root polls the units of every slice, adds its own, and stores the result.
// Partial sums travel in the type of the data (`Reducer::start`, `add`, `rounded`, `finish`).
//
// Why no barrier is needed: see algorithms/blocks/flags/peer_lanes.hpp. Not all ranks hear from
// all: in a broadcast the root hears from no relay, and in a reduce no relay hears from the root.
//
// Why it can't deadlock. No rank waits for a later round than its own. In a round, all units of the
// first hop are pushed before any unit is waited for, and the second hop waits for the first alone.
//
// In place is safe. Only the root has both buffers, and a thread stores the units that it has read
// itself.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/peer_lanes.hpp"
#include "algorithms/blocks/patterns/relay_pattern.hpp"

namespace plait {

struct RelayArgs {
  LanesArgs lanes;
  Reduction reduction;
  RelayPattern pattern;
  const void* send;
  void* recv;
  std::size_t count;
  Partition slices;   // of the message's units
  Partition stripes;  // of a slice's units, one per block
};

/// One block's part of the call.
template <class T, class Unit, class D>
class RelayUnits {
 public:
  PLAIT_DEVICE static void run(D& dev, const RelayArgs& a) {
    RelayUnits relay(dev, a);
    if (relay.exchange(a.stripes.at(dev.block()))) relay.lanes_.keep();
  }

 private:
  using Share = typename Unit::Share;
  using Slot = typename Unit::Slot;
  using Sum = typename Reducer<T>::template Accumulator<PacketElements<T>::lanes>;
  static constexpr int batch = 4;  // ranks whose units are polled at once

  PLAIT_DEVICE RelayUnits(D& dev, const RelayArgs& a)
      : dev_(dev),
        pattern_(a.pattern),
        slices_(a.slices),
        lanes_(dev, a.lanes),
        units_(lanes_.units()),
        reducer_(a.reduction),
        in_(static_cast<const T*>(a.send), a.count),
        out_(static_cast<T*>(a.recv), a.count) {}

  PLAIT_DEVICE bool exchange(Range stripe) {
    for (begin_ = stripe.begin; begin_ < stripe.end; begin_ += lanes_.slots()) {
      if (!lanes_.begin_round(false)) return false;
      size_ = static_cast<std::uint32_t>(stripe.end - begin_ < lanes_.slots() ? stripe.end - begin_
                                                                              : lanes_.slots());
      lanes_.be_heard([&](int peer) {
        return pattern_.sends(pattern_.rank, peer) &&
               unit(pattern_.slice_between(pattern_.rank, peer), 0).there;
      });
      if (!round()) return false;
    }
    return true;
  }

  PLAIT_DEVICE bool round() {
    if (pattern_.is_root()) {
      if (pattern_.reduces) return for_units([&](std::uint32_t i) { return store_sums(i); });
      return for_units([&](std::uint32_t i) { return send(i), true; });
    }
    if (pattern_.reduces)
      return for_units([&](std::uint32_t i) { return send_terms(i), true; }) &&
             for_units([&](std::uint32_t i) { return add_terms(i); });
    return for_units([&](std::uint32_t i) { return pass_on(i); }) &&
           for_units([&](std::uint32_t i) { return take(i); });
  }
  template <class Body>
  PLAIT_DEVICE bool for_units(Body body) {
    for (std::uint32_t i = units_.first(dev_.thread()); units_.group_has(i, size_);
         i += units_.step(dev_.threads()))
      if (!body(i)) return false;
    return true;
  }

  /// Unit i of a slice in this round, if it exists.
  struct Place {
    std::size_t number;  // in the message
    bool there;
  };
  PLAIT_DEVICE Place unit(int slice, std::uint32_t i) const {
    const Range range = slices_.at(static_cast<unsigned>(slice));
    const std::size_t number = range.begin + begin_ + i;
    return {number, i < size_ && number < range.end};
  }
  PLAIT_DEVICE int own_slice() const { return pattern_.slice_of(pattern_.rank); }
  PLAIT_DEVICE int relays() const { return pattern_.ranks - 1; }

  PLAIT_DEVICE Share load(const Place& place) const {
    return units_.load(dev_, in_, place.number, place.there);
  }
  PLAIT_DEVICE void store(const Place& place, Share& share) const {
    units_.store(dev_, out_, place.number, share, place.there);
  }
  PLAIT_DEVICE void put(int peer, std::uint32_t i, const Place& place, const Share& share) const {
    units_.put(dev_, lanes_.slot(peer, i), share, lanes_.flag(), place.there);
  }
  /// Receives the units i that `count` ranks send: the n-th comes from peer(n) and belongs to
  /// slice(n). They come in batches, and j is the number in the batch. Calls prepare(j, place)
  /// before the wait for a batch, and body(j, place, share) after it.
  template <class Peer, class Slice, class Prepare, class Body>
  PLAIT_DEVICE bool receive(std::uint32_t i, int count, Peer peer, Slice slice, Prepare prepare,
                            Body body) const {
    for (int begin = 0; begin < count; begin += batch) {
      const Slot* slots[batch];
      Waiting who[batch];
      Share shares[batch];
      Place places[batch];
      unsigned wanted = 0;
      PLAIT_UNROLL
      for (int j = 0; j < batch; ++j) {
        const int n = begin + j < count ? begin + j : begin;
        places[j] = unit(slice(n), i);
        slots[j] = lanes_.lane(peer(n), i);
        who[j] = {peer(n), lanes_.flag()};
        if (places[j].there && begin + j < count) wanted |= 1u << j;
        prepare(j, places[j]);
      }
      if (!dev_.get(slots, shares, wanted, lanes_.flag(), who)) return false;
      PLAIT_UNROLL
      for (int j = 0; j < batch; ++j)
        if ((wanted >> j & 1u) != 0) body(j, places[j], shares[j]);
    }
    return true;
  }

  /// Loads this rank's own units i of `count` slices, the n-th of slice(n), and calls body(n,
  /// place, share) for each. The loads of a batch are in flight together.
  template <class Slice, class Body>
  PLAIT_DEVICE void load_each(std::uint32_t i, int count, Slice slice, Body body) const {
    for (int begin = 0; begin < count; begin += batch) {
      Share shares[batch];
      Place places[batch];
      PLAIT_UNROLL
      for (int j = 0; j < batch; ++j) {
        places[j] = unit(slice(begin + j < count ? begin + j : begin), i);
        places[j].there = places[j].there && begin + j < count;
        shares[j] = load(places[j]);
      }
      PLAIT_UNROLL
      for (int j = 0; j < batch; ++j)
        if (begin + j < count) body(begin + j, places[j], shares[j]);
    }
  }

  PLAIT_DEVICE void send(std::uint32_t i) {
    load_each(
        i, pattern_.slices(), [](int s) { return s; },
        [&](int s, const Place& place, Share& share) {
          if (relays() != 0) put(pattern_.relay(s), i, place, share);
          if (in_.packs() != out_.packs()) store(place, share);  // else in place
        });
  }
  PLAIT_DEVICE bool pass_on(std::uint32_t i) {
    const Place place = unit(own_slice(), i);
    const Slot* const slots[1] = {lanes_.lane(pattern_.root, i)};
    const Waiting who[1] = {{pattern_.root, lanes_.flag()}};
    Share share[1];
    if (!dev_.get(slots, share, place.there ? 1u : 0u, lanes_.flag(), who)) return false;
    for (int n = 0; n + 1 < relays(); ++n) put(pattern_.other_relay(n), i, place, share[0]);
    store(place, share[0]);
    return true;
  }
  PLAIT_DEVICE bool take(std::uint32_t i) {
    return receive(
        i, relays() - 1, [&](int n) { return pattern_.other_relay(n); },
        [&](int n) { return pattern_.slice_of(pattern_.other_relay(n)); }, [](int, const Place&) {},
        [&](int, const Place& place, Share& share) { store(place, share); });
  }

  PLAIT_DEVICE void send_terms(std::uint32_t i) {
    load_each(
        i, relays() - 1, [&](int n) { return pattern_.slice_of(pattern_.other_relay(n)); },
        [&](int n, const Place& place, Share& share) {
          put(pattern_.other_relay(n), i, place, share);
        });
  }
  PLAIT_DEVICE bool add_terms(std::uint32_t i) {
    const Place place = unit(own_slice(), i);
    Share own = load(place);
    Sum sum[Unit::summed_words];
    PLAIT_UNROLL
    for (int w = 0; w < Unit::summed_words; ++w)
      sum[w] = reducer_.start(from_packet<T>(Unit::word(own, w)));
    const bool complete = receive(
        i, relays() - 1, [&](int n) { return pattern_.other_relay(n); },
        [&](int) { return own_slice(); }, [](int, const Place&) {},
        [&](int, const Place&, Share& share) {
          PLAIT_UNROLL
          for (int w = 0; w < Unit::summed_words; ++w)
            reducer_.add(sum[w], from_packet<T>(Unit::word(share, w)));
        });
    if (!complete) return false;
    PLAIT_UNROLL
    for (int w = 0; w < Unit::summed_words; ++w)
      Unit::word(own, w) = to_packet<T>(reducer_.template rounded<packet_bytes>(sum[w]));
    put(pattern_.root, i, place, own);
    return true;
  }
  PLAIT_DEVICE bool store_sums(std::uint32_t i) {
    if (relays() == 0) {
      const Place place = unit(0, i);
      Share own = load(place);
      add_to_own(own, nullptr);
      store(place, own);
      return true;
    }
    Share own[batch];
    return receive(
        i, relays(), [&](int n) { return pattern_.relay(n); }, [&](int n) { return n; },
        [&](int j, const Place& place) { own[j] = load(place); },
        [&](int j, const Place& place, Share& share) {
          add_to_own(own[j], &share);
          store(place, own[j]);
        });
  }
  /// Turns the root's terms into the result, with the sum of the other ranks, if there are any.
  PLAIT_DEVICE void add_to_own(Share& own, Share* others) {
    PLAIT_UNROLL
    for (int w = 0; w < Unit::summed_words; ++w) {
      Sum sum = reducer_.start(from_packet<T>(Unit::word(own, w)));
      if (others != nullptr) reducer_.add_partial(sum, from_packet<T>(Unit::word(*others, w)));
      Unit::word(own, w) = to_packet<T>(reducer_.template finish<packet_bytes>(sum));
    }
  }

  D& dev_;
  const RelayPattern& pattern_;
  Partition slices_;
  PeerLanes<T, Unit, D> lanes_;
  Units<Unit, T> units_;  // a copy: see algorithms/one_hop/direct_ll/direct_units.hpp
  Reducer<T> reducer_;
  Packs<const T, packet_bytes> in_;
  Packs<T, packet_bytes> out_;
  std::size_t begin_ = 0;   // of the round, in a slice
  std::uint32_t size_ = 0;  // of the round, in units
};

}  // namespace plait
