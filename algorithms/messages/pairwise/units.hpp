// Messages as units (algorithms/blocks/flags/units.hpp): packets and lines, each of which carries
// data and flag. A stripe travels through the lane of its channel, in rounds of up to `slots`
// units.
//
//   sender    1. waits for the credit of the last round; 2. puts the units of the next round into
//             the receiver's lane;
//   receiver  1. waits for the units; 2. stores them; 3. returns the credit: one unit in the
//             sender's memory.
//
// Why no barrier is needed. Data and flag of a unit arrive together. The sender writes a lane again
// only after the credit of the last round has come, and the receiver returns that after all of its
// threads have read the round. Flags and credits are numbers of rounds. Each end counts the rounds
// of a lane in its own memory, from one message to the next; the counts agree, because both ends
// cut the same messages in the same way.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// One block's work on stripes that travel as units.
template <class T, class D>
class UnitWay {
 public:
  PLAIT_DEVICE UnitWay(D& dev, const Paths& paths) : dev_(dev), a_(paths) {}

  /// A stripe with at most one unit per thread takes separate, shorter code, because instructions
  /// before the first store and after the last arrival add to its latency.
  template <class Unit>
  PLAIT_DEVICE bool send(const Lanes& lanes, const Message& m, unsigned channel, int peer) {
    return m.stripes.each <= Units<Unit, T>::step(dev_.threads())
               ? send_rounds<Unit, 1>(lanes, m, channel, peer)
               : send_rounds<Unit, batch>(lanes, m, channel, peer);
  }
  template <class Unit>
  PLAIT_DEVICE bool receive(const Lanes& lanes, const Message& m, unsigned channel, int peer) {
    return m.stripes.each <= Units<Unit, T>::step(dev_.threads())
               ? receive_rounds<Unit, 1>(lanes, m, channel, peer)
               : receive_rounds<Unit, batch>(lanes, m, channel, peer);
  }

 private:
  static constexpr int batch = 4;  // units of a long message that a thread has in flight

  PLAIT_DEVICE static unsigned round_size(const Lanes& lanes, std::size_t begin, std::size_t end) {
    return static_cast<unsigned>(end - begin < lanes.slots ? end - begin : lanes.slots);
  }
  template <class Unit>
  PLAIT_DEVICE typename Unit::Slot* credit(const Lanes& lanes, int owner, unsigned channel,
                                           int reader) const {
    return reinterpret_cast<typename Unit::Slot*>(lanes.credits.peer_ptr(owner)) +
           a_.index(channel, reader);
  }
  template <class Unit>
  PLAIT_DEVICE typename Unit::Slot* lane(const Lanes& lanes, int owner, unsigned channel,
                                         int writer) const {
    return reinterpret_cast<typename Unit::Slot*>(lanes.units.peer_ptr(owner)) +
           std::size_t{a_.index(channel, writer)} * lanes.slots;
  }

  /// True once the receiver has drained round `before`. Each thread, or group of threads, polls the
  /// credit itself; broadcasting one answer is slower. Only a thread whose group has a unit of the
  /// next round may ask: the receiver can't drain that round without the unit, so the credit can't
  /// move on to the next number before this thread has seen it.
  template <class Unit>
  PLAIT_DEVICE bool has_room(const Lanes& lanes, unsigned channel, int peer, std::uint32_t before) {
    const typename Unit::Slot* const slots[1] = {credit<Unit>(lanes, a_.slots.rank, channel, peer)};
    const Waiting who[1] = {{peer, before}};
    typename Unit::Share share[1];
    return dev_.get(slots, share, 1u, before, who);
  }
  /// Returns the credit of a round. Comes after a barrier of the block.
  template <class Unit>
  PLAIT_DEVICE void take(const Lanes& lanes, unsigned channel, int peer, std::uint32_t round) {
    if (dev_.thread() < Unit::group)
      Units<Unit, T>::put(dev_, credit<Unit>(lanes, peer, channel, a_.slots.rank),
                          typename Unit::Share{}, round, dev_.thread() < Unit::threads);
  }

  /// Loads units i, i + step, ... of a round that begins at unit `begin` of the message. A
  /// function, because g++ would not inline a lambda everywhere.
  template <class Unit, int Batch>
  PLAIT_DEVICE void load(const Units<Unit, T>& units, const Packs<const T, packet_bytes>& from,
                         std::size_t begin, unsigned i, unsigned size,
                         typename Unit::Share (&shares)[Batch]) {
    const unsigned step = units.step(dev_.threads());
    PLAIT_UNROLL
    for (int j = 0; j < Batch; ++j)
      shares[j] = units.load(dev_, from, begin + i + j * step, i + j * step < size);
  }

  /// `Batch`: units that a thread has in flight; 1: it has no more than one per round.
  template <class Unit, int Batch>
  PLAIT_DEVICE bool send_rounds(const Lanes& lanes, const Message& m, unsigned channel, int peer) {
    const Units<Unit, T> units(dev_.thread());
    const Packs<const T, packet_bytes> from(static_cast<const T*>(m.from), m.bytes / sizeof(T));
    LaneCounters& counters = lanes.counters[a_.index(channel, peer)];
    typename Unit::Slot* const slots = lane<Unit>(lanes, peer, channel, a_.slots.rank);
    const unsigned first = units.first(dev_.thread()), step = units.step(dev_.threads());
    const Range stripe = m.stripes.at(channel);
    Epoch round{counters.sent};
    bool room = true;
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += lanes.slots) {
      const unsigned size = round_size(lanes, begin, stripe.end);
      typename Unit::Share shares[Batch];
      const bool sends = units.group_has(first, size);
      load(units, from, begin, first, size, shares);  // in flight while the credit is polled
      if (sends) room = has_room<Unit>(lanes, channel, peer, round.value);
      if (!room) break;
      round = round.next();
      const auto put = [&](unsigned i) {
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j) {
          const bool live = i + j * step < size;
          units.put(dev_, slots + (live ? i + j * step : 0), shares[j], round.value, live);
        }
      };
      if (sends) put(first);
      if constexpr (Batch != 1) {
        for (unsigned i = first + Batch * step; units.group_has(i, size); i += Batch * step) {
          load(units, from, begin, i, size, shares);
          put(i);
        }
      }
    }
    if (!dev_.all(room)) return false;  // all threads have read the counter
    if (dev_.thread() == 0) counters.sent = round.value;
    return true;
  }

  template <class Unit, int Batch>
  PLAIT_DEVICE bool receive_rounds(const Lanes& lanes, const Message& m, unsigned channel,
                                   int peer) {
    const Units<Unit, T> units(dev_.thread());
    const Packs<T, packet_bytes> to(static_cast<T*>(m.to), m.bytes / sizeof(T));
    LaneCounters& counters = lanes.counters[a_.index(channel, peer)];
    const typename Unit::Slot* const own = lane<Unit>(lanes, a_.slots.rank, channel, peer);
    const unsigned first = units.first(dev_.thread()), step = units.step(dev_.threads());
    const Range stripe = m.stripes.at(channel);
    Epoch round{counters.received};
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += lanes.slots) {
      round = round.next();
      const unsigned size = round_size(lanes, begin, stripe.end);
      bool complete = true;
      for (unsigned i = first; units.group_has(i, size); i += Batch * step) {
        const typename Unit::Slot* slots[Batch];
        Waiting who[Batch];
        typename Unit::Share shares[Batch];
        unsigned wanted = 0;
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j) {
          const bool live = i + j * step < size;
          slots[j] = own + (live ? i + j * step : 0);
          who[j] = {peer, round.value};
          if (live) wanted |= 1u << j;
        }
        complete = dev_.get(slots, shares, wanted, round.value, who);
        if (!complete) break;
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j)
          units.store(dev_, to, begin + i + j * step, shares[j], (wanted >> j & 1u) != 0);
        if constexpr (Batch == 1) {
          break;
        }
      }
      if (!dev_.all(complete)) return false;  // all threads have read
      take<Unit>(lanes, channel, peer, round.value);
    }
    if (dev_.thread() == 0 && stripe.begin < stripe.end) counters.received = round.value;
    return true;
  }

  D& dev_;
  const Paths& a_;
};

}  // namespace plait::pairwise
