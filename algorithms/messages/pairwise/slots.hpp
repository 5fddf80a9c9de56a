// Messages in chunks through the slots of channels. The chunks of a stripe take turns in several
// channels. algorithms/blocks/channels/channel.hpp proves that no barrier between ranks is needed:
// both ends count the chunks.
//
//   sender    1. waits until the slot is free; 2. fills it with a chunk; 3. publishes the chunk;
//   receiver  1. waits for the chunk; 2. stores it; 3. frees the slot.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// One block's work on stripes that travel through slots.
template <class T, class D>
class SlotWay {
 public:
  PLAIT_DEVICE SlotWay(D& dev, const Paths& paths) : dev_(dev), a_(paths) {}

  PLAIT_DEVICE bool send(const Message& m, unsigned channel, int peer) {
    const Input from(static_cast<const T*>(m.from), m.bytes / sizeof(T));
    const Range stripe = m.stripes.at(channel);
    const Chunks cut = chunks_of(m.stripes);
    const std::uint32_t chunks = cut.count(stripe);
    for (std::uint32_t k = 0; k < chunks; ++k) {
      const Turn own = turn(channel, k);
      bool room = true;
      if (dev_.thread() == 0) room = wait(own.channels.may_send(own.way, peer, own.nth), peer, k);
      if (!dev_.all(room)) return false;
      const Range packs = in_packs<D::pack_bytes>(cut.at(stripe, k));
      fill_slot<in_flight>(dev_, from, packs,
                           own.channels.template outgoing<P>(own.way, peer, own.nth));
      dev_.sync();  // all threads have written
      if (dev_.thread() == 0)
        signal(own.channels.publish(own.way, peer, own.nth, packs.size() * sizeof(P)));
    }
    dev_.sync();  // the counters have been read
    advance(channel, peer, chunks, true);
    return true;
  }

  PLAIT_DEVICE bool receive(const Message& m, unsigned channel, int peer) {
    const Output to(static_cast<T*>(m.to), m.bytes / sizeof(T));
    const Range stripe = m.stripes.at(channel);
    const Chunks cut = chunks_of(m.stripes);
    const std::uint32_t chunks = cut.count(stripe);
    for (std::uint32_t k = 0; k < chunks; ++k) {
      const Turn own = turn(channel, k);
      bool arrived = true;
      if (dev_.thread() == 0)
        arrived = wait(own.channels.has_arrived(own.way, peer, own.nth), peer, k);
      if (!dev_.all(arrived)) return false;
      const Range packs = in_packs<D::pack_bytes>(cut.at(stripe, k));
      empty_slot<in_flight>(dev_, own.channels.template incoming<P>(own.way, peer, own.nth), to,
                            packs);
      dev_.sync();  // all threads have read
      if (dev_.thread() == 0) signal(own.channels.consume(own.way, peer, own.nth));
    }
    dev_.sync();  // the counters have been read
    advance(channel, peer, chunks, false);
    return true;
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr int in_flight = packs_in_flight<T, D>;

  /// The channel of a chunk, and the chunk's number among those of the stripe that use it.
  struct Turn {
    BlockChannels channels;
    unsigned way;
    std::uint32_t nth;
  };
  /// For chunk k of a stripe.
  PLAIT_DEVICE Turn turn(unsigned channel, std::uint32_t k) const {
    const std::uint32_t t = k % a_.turns;
    return {BlockChannels(a_.slots, channel + t / Channels::ways * a_.channels), t % Channels::ways,
            k / a_.turns};
  }

  PLAIT_DEVICE bool wait(const ChannelWait& wait, int peer, std::uint32_t k) {
    return dev_.wait(wait.word, wait.at_least, {peer, k});
  }
  PLAIT_DEVICE void signal(const ChannelSignal& signal) { dev_.signal(signal.word, signal.value); }

  /// Four or more chunks per stripe, so that they overlap in flight; fewer where a chunk would be
  /// so short that the cost of its signal shows. A chunk fits a slot.
  PLAIT_DEVICE Chunks chunks_of(const Partition& stripes) const {
    constexpr std::size_t least = 16384;
    const std::size_t part = (stripes.each / 4 + least - 1) / least * least;
    return {part != 0 && part < a_.slots.slot_bytes ? static_cast<std::uint32_t>(part)
                                                    : a_.slots.slot_bytes};
  }

  /// After the last chunk of a stripe: counts its chunks, one thread per turn.
  PLAIT_DEVICE void advance(unsigned channel, int peer, std::uint32_t chunks, bool sends) {
    for (std::uint32_t t = dev_.thread(); t < a_.turns; t += dev_.threads()) {
      const std::uint32_t mine = chunks / a_.turns + (t < chunks % a_.turns ? 1 : 0);
      const Turn own = turn(channel, t);
      if (sends) own.channels.advance_sent(own.way, peer, mine);
      else own.channels.advance_received(own.way, peer, mine);
    }
  }

  D& dev_;
  const Paths& a_;
};

}  // namespace plait::pairwise
