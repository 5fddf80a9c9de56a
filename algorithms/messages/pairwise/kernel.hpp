// Messages between two ranks: send, recv, send_recv and all_to_all_v. A launch has this rank's ends
// of any number of messages, to and from any of its peers; how a message travels was chosen from
// its size, which both ends know.
//
// A message is cut into one stripe a channel. Messages from one rank to another form a direction;
// some thread blocks of the launch work on it, and each takes message after message, and of each
// the channels that are its own, in rising order:
//   sender    1. waits for room in the channel; 2. puts a chunk there; 3. says so;
//   receiver  1. waits for the chunk; 2. stores it; 3. says that there is room again.
// As flagged units, putting and saying are one: a chunk is a round of a lane, and room for it is
// there when the round before has been taken. That the receiver says with a unit of its own, a
// credit. As slots, both sides count (algorithms/blocks/channels/channel.hpp). What a rank sends to
// itself is copied.
//
// Straight into the receiver's buffer, where that lies in symmetric memory and the sender knows the
// place, there is one chunk:
//   sender    1. waits for the receiver's offer of its buffer; 2. stores the stripe there; 3. says
//   so; receiver  1. offers; 2. waits until the stripe is there.
// A copy engine's copy stands between two launches of both ends: the first offers, and waits for
// the offer; the second says, and waits for, the rest.
//
// Pulled out of the sender's buffer, where ranks can read each other's memory (CPU ranks), there is
// one chunk as well:
//   sender    1. posts the address; 3. settles: waits until the stripe has been taken;
//   receiver  1. waits for the address; 2. reads the stripe; 3. says that it has taken it.
// Where a direction has one such message, its sender posts it in a block before all others of the
// launch and settles in one behind them, so that two ranks that exchange messages read at the same
// time.
//
// Why no barrier is needed. Flagged: data and flag of a unit arrive together. A lane is written
// anew only when the credit of the last round has come, which the receiver sends after all of its
// threads have read that round. Both ends count the rounds of a lane from one message to the next
// in memory of their own, the same, as they cut the same messages; flags are these numbers. Slots:
// see channel.hpp. Straight: the offer comes after everything that the receiver's stream had to do
// with the buffer, in its stream's order; both words count up, each by one writer. Pulled: posting
// is a release and taking one, too. An address is overwritten by the next post of the channel,
// which comes after the sender has settled the last one.
//
// Why it can't deadlock. Let ranks a and b have the meeting number (a + b) mod n; each rank meets
// one other, or itself, at a number. Blocks start in order. In a launch, blocks that post come
// first and wait for nothing, and blocks that settle come last. Those between have the order of
// meetings, at each first the direction from the lower rank; a posted direction is finished once
// its receiver has read it. Of all launches of a group look at the lowest meeting and direction
// that is not finished on some rank, there at the first message, and of that at the lowest channel.
// On both ranks everything before is finished, so the blocks of that direction are the first with
// something to do in their launch. They all run at once, as a direction has no more blocks than the
// device has multiprocessors (on the host, workers), so the one with that channel has started, and
// has come to it. Hence they can go on, however few of the other blocks are resident, and however
// many each rank gives to a direction. (If not all of them ran, some might wait in later channels,
// or messages, and keep its place: the two ends may give a direction different numbers of blocks,
// and group its messages differently. Where every block has one stripe, fewer will do: a block
// before it is not only finished but gone.) Ranks that group their ends differently must order them
// so that this holds; see Communicator::send. Of a message that may be a copy engine's, the first
// launches have only the offer and, at the sender, the wait for it, and the stores if they are made
// after all. None of them waits for a copy or an arrival of such a message, so all first launches
// go on as above; then all copies are made, and the second launches find what they wait for. A
// block that settles waits for the peer's block of that direction alone, which waits for no block
// that settles.
//
// Cost: one hop, each byte once over the link, in slots and lanes once more through the receiver's
// memory; straight, two hops. Pulled, two hops, and a system call for each stripe.
#pragma once
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/flags/units.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// Messages are moved as elements of a size that all pointers of a launch are aligned to.
using Types = MoveTypes;

/// `Only`: the way of all messages, if the code is for one alone.
template <class T, class D, Way... Only>
class Pairwise {
 public:
  /// With a copy of its own, as clang for AMD GPUs loses track of which of so many pointers in the
  /// arguments are to global memory.
  PLAIT_DEVICE Pairwise(D& dev, const Paths& paths) : dev_(dev), a_(paths) {
    const auto global = [&](WindowView& view) {
      view.own = dev.to_global(view.own);
      view.distances = dev.to_global(view.distances);
    };
    const auto all_global = [&](Lanes& lanes) {
      global(lanes.units);
      global(lanes.credits);
      lanes.counters = dev.to_global(lanes.counters);
    };
    all_global(a_.packets);
    all_global(a_.lines);
    global(a_.straight.words);
    if constexpr (D::has_peer_reads) {
      global(a_.straight.posted);
    }
    a_.straight.counters = dev.to_global(a_.straight.counters);
    global(a_.slots.slot_memory);
    global(a_.slots.signal_memory);
    a_.slots.states = dev.to_global(a_.slots.states);
  }

  PLAIT_DEVICE void run(const Args& a) {
    const bool second = dev_.block() >= a.second.first_block;
    const Direction direction = second ? a.second : a.first;
    Message message = second ? a.second_message : a.first_message;
    message.from = dev_.to_global(message.from);
    message.to = dev_.to_global(message.to);
    bool first = true;
    move_stripes(message, direction, first);
  }

  PLAIT_DEVICE void run(const Batch& a) {
    const std::byte* work;
    if constexpr (D::indexed_arguments) {
      work = a.work != nullptr ? a.work : a.few;
    } else {
      work = a.work;
    }
    const unsigned owner =
        dev_.uniform(unsigned{reinterpret_cast<const Owners*>(work)->direction[dev_.block()]});
    const Direction direction =
        dev_.uniform(reinterpret_cast<const Direction*>(work + sizeof(Owners))[owner]);
    const Message* next = reinterpret_cast<const Message*>(work + a.messages) + direction.first;
    bool first = true;
    for (std::uint32_t i = 0; i < direction.count; ++i, ++next) {
      Message message = dev_.uniform(*next);
      message.from = dev_.to_global(message.from);
      message.to = dev_.to_global(message.to);
      if (!move_stripes(message, direction, first)) return;
    }
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr int in_flight = packs_in_flight<T, D>;
  static constexpr int batch = 4;  // units of a long message that a thread has on their way at once

  PLAIT_DEVICE static constexpr Way way_of(const Message& m) {
    if constexpr (sizeof...(Only) == 0) {
      return m.way;
    } else {
      return (Only, ...);
    }
  }

  /// This block's stripes of a message. False: the communicator is broken.
  PLAIT_DEVICE bool move_stripes(const Message& m, const Direction& direction, bool& first) {
    const int peer = static_cast<int>(direction.peer);
    for (unsigned channel = dev_.block() - direction.first_block; channel < m.channels;
         channel += direction.blocks) {
      if (!first) dev_.sync();  // counters that one stripe has advanced are read for the next
      first = false;
      if (!move(m, channel, peer, direction.sends != 0)) return false;
    }
    return true;
  }

  PLAIT_DEVICE bool move(const Message& m, unsigned channel, int peer, bool sends) {
    switch (way_of(m)) {
      case Way::packets:
        return sends ? send_units<PacketUnit>(a_.packets, m, channel, peer)
                     : receive_units<PacketUnit>(a_.packets, m, channel, peer);
      case Way::lines:
        if constexpr (D::line_threads != 0) {
          return sends ? send_units<LineUnit<D>>(a_.lines, m, channel, peer)
                       : receive_units<LineUnit<D>>(a_.lines, m, channel, peer);
        }
        return false;
      case Way::slots:
        return sends ? send_chunks(m, channel, peer) : receive_chunks(m, channel, peer);
      case Way::put:
        if (!sends) return offer(channel, peer) && has_arrived(channel, peer);
        if (!is_offered(channel, peer)) return false;
        copy(m, channel);
        return say(channel, peer);
      case Way::open:
        if (!sends) return offer(channel, peer);
        return channel == 0 ? is_offered(channel, peer) : skip_offer(channel, peer);
      case Way::close:
        return sends ? say(channel, peer) : has_arrived(channel, peer);
      case Way::own:
        copy(m, channel);
        return true;
      case Way::pull:
      case Way::post:
      case Way::settle:
        if constexpr (D::has_peer_reads) {
          if (!sends) return pull(m, channel, peer);
          if (way_of(m) != Way::settle && !post(m, channel, peer)) return false;
          return way_of(m) == Way::post || is_offered(channel, peer, pulled_base());
        }
        return false;
    }
    return false;
  }

  // --- flagged units
  // ---------------------------------------------------------------------------------------------------------------

  PLAIT_DEVICE std::uint32_t index(unsigned channel, int peer) const {
    return channel * static_cast<unsigned>(a_.slots.ranks) + static_cast<unsigned>(peer);
  }
  PLAIT_DEVICE static unsigned round_size(const Lanes& lanes, std::size_t begin, std::size_t end) {
    return static_cast<unsigned>(end - begin < lanes.slots ? end - begin : lanes.slots);
  }
  template <class Unit>
  PLAIT_DEVICE typename Unit::Slot* credit(const Lanes& lanes, int owner, unsigned channel,
                                           int reader) const {
    return reinterpret_cast<typename Unit::Slot*>(lanes.credits.peer_ptr(owner)) +
           index(channel, reader);
  }
  template <class Unit>
  PLAIT_DEVICE typename Unit::Slot* lane(const Lanes& lanes, int owner, unsigned channel,
                                         int writer) const {
    return reinterpret_cast<typename Unit::Slot*>(lanes.units.peer_ptr(owner)) +
           std::size_t{index(channel, writer)} * lanes.slots;
  }

  /// Whether the round before has been taken: every thread, or group of threads, asks for itself,
  /// as that is sooner known than told. It must have a unit of this round, without which that can't
  /// be taken: else it might come when the credit is already the next one.
  template <class Unit>
  PLAIT_DEVICE bool has_room(const Lanes& lanes, unsigned channel, int peer, std::uint32_t before) {
    const typename Unit::Slot* const slots[1] = {credit<Unit>(lanes, a_.slots.rank, channel, peer)};
    const Waiting who[1] = {{peer, before}};
    typename Unit::Share share[1];
    return dev_.get(slots, share, 1u, before, who);
  }
  /// Says that a round has been taken, after a barrier of the block.
  template <class Unit>
  PLAIT_DEVICE void take(const Lanes& lanes, unsigned channel, int peer, std::uint32_t round) {
    if (dev_.thread() < Unit::group)
      Units<Unit, T>::put(dev_, credit<Unit>(lanes, peer, channel, a_.slots.rank),
                          typename Unit::Share{}, round, dev_.thread() < Unit::threads);
  }

  /// Messages of one unit a thread have code of their own: what is executed before the first store,
  /// and after the last arrival, is what they wait for.
  template <class Unit>
  PLAIT_DEVICE bool send_units(const Lanes& lanes, const Message& m, unsigned channel, int peer) {
    return m.stripes.each <= Units<Unit, T>::step(dev_.threads())
               ? send_rounds<Unit, 1>(lanes, m, channel, peer)
               : send_rounds<Unit, batch>(lanes, m, channel, peer);
  }
  template <class Unit>
  PLAIT_DEVICE bool receive_units(const Lanes& lanes, const Message& m, unsigned channel,
                                  int peer) {
    return m.stripes.each <= Units<Unit, T>::step(dev_.threads())
               ? receive_rounds<Unit, 1>(lanes, m, channel, peer)
               : receive_rounds<Unit, batch>(lanes, m, channel, peer);
  }

  /// `Batch`: units that a thread has on their way at once; 1: it has no more in a round.
  template <class Unit, int Batch>
  PLAIT_DEVICE bool send_rounds(const Lanes& lanes, const Message& m, unsigned channel, int peer) {
    const Units<Unit, T> units(dev_.thread());
    const Packs<const T, packet_bytes> from(static_cast<const T*>(m.from), m.bytes / sizeof(T));
    LaneCounters& counters = lanes.counters[index(channel, peer)];
    typename Unit::Slot* const slots = lane<Unit>(lanes, peer, channel, a_.slots.rank);
    const unsigned first = units.first(dev_.thread()), step = units.step(dev_.threads());
    const Range stripe = m.stripes.at(channel);
    Epoch round{counters.sent};
    bool room = true;
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += lanes.slots) {
      const unsigned size = round_size(lanes, begin, stripe.end);
      typename Unit::Share shares[Batch];
      const auto load = [&](unsigned i) {
        PLAIT_UNROLL
        for (int j = 0; j < Batch; ++j)
          shares[j] = units.load(dev_, from, begin + i + j * step, i + j * step < size);
      };
      const bool sends = units.group_has(first, size);
      load(first);  // on its way while the credit is looked for
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
          load(i);
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
    LaneCounters& counters = lanes.counters[index(channel, peer)];
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

  // --- slots
  // -----------------------------------------------------------------------------------------------------------------------

  /// The channel of a turn: the n-th chunk that a stripe sends, or receives, through it, and its
  /// way.
  struct Turn {
    BlockChannels channels;
    unsigned way;
    std::uint32_t nth;
  };
  /// Of chunk k of a stripe.
  PLAIT_DEVICE Turn turn(unsigned channel, std::uint32_t k) const {
    const std::uint32_t t = k % a_.turns;
    return {BlockChannels(a_.slots, channel + t / Channels::ways * a_.channels), t % Channels::ways,
            k / a_.turns};
  }

  /// Waits, by one thread for all.
  PLAIT_DEVICE bool wait(const ChannelWait& wait, int peer, std::uint32_t k) {
    return dev_.wait(wait.word, wait.at_least, {peer, k});
  }
  PLAIT_DEVICE void signal(const ChannelSignal& signal) { dev_.signal(signal.word, signal.value); }

  /// Four of a stripe or more, so that they overlap on their way; but neither so short that a
  /// signal for each shows, nor longer than a slot.
  PLAIT_DEVICE Chunks chunks_of(const Parts& stripes) const {
    constexpr std::size_t least = 16384;
    const std::size_t part = (stripes.each / 4 + least - 1) / least * least;
    return {part != 0 && part < a_.slots.slot_bytes ? static_cast<std::uint32_t>(part)
                                                    : a_.slots.slot_bytes};
  }

  /// After the last chunk, a thread a turn.
  PLAIT_DEVICE void advance(unsigned channel, int peer, std::uint32_t chunks, bool sends) {
    for (std::uint32_t t = dev_.thread(); t < a_.turns; t += dev_.threads()) {
      const std::uint32_t mine = chunks / a_.turns + (t < chunks % a_.turns ? 1 : 0);
      const Turn own = turn(channel, t);
      if (sends) own.channels.advance_sent(own.way, peer, mine);
      else own.channels.advance_received(own.way, peer, mine);
    }
  }

  PLAIT_DEVICE bool send_chunks(const Message& m, unsigned channel, int peer) {
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
      if (dev_.thread() == 0) signal(own.channels.publish(own.way, peer, own.nth));
    }
    dev_.sync();  // the counters have been read
    advance(channel, peer, chunks, true);
    return true;
  }

  PLAIT_DEVICE bool receive_chunks(const Message& m, unsigned channel, int peer) {
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

  // --- straight
  // --------------------------------------------------------------------------------------------------------------------

  /// `base`: 0 of what goes straight into the receiver's buffer, `pulled_base()` of what the
  /// receiver reads.
  PLAIT_DEVICE unsigned pulled_base() const { return a_.straight.channels; }
  /// In `owner`'s memory, where `writer` says how many messages of the channel it has offered to
  /// take, or how many are there.
  PLAIT_DEVICE std::uint32_t* offers(int owner, unsigned channel, int writer, unsigned base) const {
    return reinterpret_cast<std::uint32_t*>(a_.straight.words.peer_ptr(owner)) +
           index(channel + 2 * base, writer);
  }
  PLAIT_DEVICE std::uint32_t* arrivals(int owner, unsigned channel, int writer,
                                       unsigned base) const {
    return offers(owner, a_.straight.channels + channel, writer, base);
  }
  PLAIT_DEVICE StraightCounters& straight(unsigned channel, int peer, unsigned base = 0) const {
    return a_.straight.counters[index(channel + base, peer)];
  }

  // Counters are read and written by thread 0 alone.
  PLAIT_DEVICE bool offer(unsigned channel, int peer, unsigned base = 0) {
    if (dev_.thread() == 0)
      dev_.signal(offers(peer, channel, a_.slots.rank, base),
                  ++straight(channel, peer, base).offered);
    return true;
  }
  PLAIT_DEVICE bool is_offered(unsigned channel, int peer, unsigned base = 0) {
    return reached(offers(a_.slots.rank, channel, peer, base), straight(channel, peer, base).taken,
                   peer);
  }
  /// Any offer speaks for the whole buffer. The first block makes the first one and waits for
  /// nobody before; the others might not have started, as the receiver need not know that a copy
  /// engine wants all of the buffer at once.
  PLAIT_DEVICE bool skip_offer(unsigned channel, int peer) {
    if (dev_.thread() == 0) ++straight(channel, peer).taken;
    return true;
  }
  PLAIT_DEVICE bool say(unsigned channel, int peer, unsigned base = 0) {
    dev_.sync();  // all threads have written
    if (dev_.thread() == 0)
      dev_.signal(arrivals(peer, channel, a_.slots.rank, base),
                  ++straight(channel, peer, base).said);
    return true;
  }
  PLAIT_DEVICE bool has_arrived(unsigned channel, int peer, unsigned base = 0) {
    return reached(arrivals(a_.slots.rank, channel, peer, base),
                   straight(channel, peer, base).arrived, peer);
  }
  /// Whether the word is one more than the counter, as that will be.
  PLAIT_DEVICE bool reached(const std::uint32_t* word, std::uint32_t& counter, int peer) {
    bool there = true;
    if (dev_.thread() == 0) {
      const std::uint32_t next = ++counter;
      there = dev_.wait(word, next, {peer, next});
    }
    return dev_.all(there);
  }

  // Pulled: `say` tells of the address, and `offer` that the next one may be posted.
  PLAIT_DEVICE PostedAt& posted_at(int owner, unsigned channel, int writer) const {
    return reinterpret_cast<PostedAt*>(a_.straight.posted.peer_ptr(owner))[index(channel, writer)];
  }
  PLAIT_DEVICE bool post(const Message& m, unsigned channel, int peer) {
    if (dev_.thread() == 0)
      posted_at(peer, channel, a_.slots.rank) = {static_cast<const std::byte*>(m.from), a_.process,
                                                 D::reader_handle()};
    return say(channel, peer, pulled_base());
  }
  PLAIT_DEVICE bool pull(const Message& m, unsigned channel, int peer) {
    if (!has_arrived(channel, peer, pulled_base())) return false;
    bool read = true;
    const Range stripe = m.stripes.at(channel);
    const PostedAt at = posted_at(a_.slots.rank, channel, peer);
    auto* const to = static_cast<std::byte*>(m.to) + stripe.begin;
    const std::byte* const from = at.address + stripe.begin;
    if (dev_.thread() == 0 && at.process != a_.process)
      read = dev_.read_peer(at.reader_handle, to, from, stripe.size(),
                            {peer, straight(channel, peer, pulled_base()).arrived});
    else if (dev_.thread() == 0) D::copy_bytes(to, from, stripe.size());
    if (!dev_.all(read)) return false;
    return offer(channel, peer, pulled_base());
  }

  PLAIT_DEVICE void copy(const Message& m, unsigned channel) {
    const Input from(static_cast<const T*>(m.from), m.bytes / sizeof(T));
    const Output to(static_cast<T*>(m.to), m.bytes / sizeof(T));
    copy_packs<in_flight>(dev_, from, to, in_packs<D::pack_bytes>(m.stripes.at(channel)));
  }

  D& dev_;
  Paths a_;
};

template <class T>
struct Kernel {
  using BatchArgs = Batch;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Batch& a) {
    Pairwise<T, D>(dev, a.paths).run(a);
  }

  /// Small messages are faster in code of their own (2 H200, 16 KB: 3.50 us instead of 3.71;
  /// 2026-11-22).
  template <Way... Only>
  struct Code {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Pairwise<T, D, Only...>(dev, a.paths).run(a);
    }
  };
  using Codes = TypeList<Code<Way::packets>, Code<Way::lines>, Code<>>;
  static unsigned code(const Args& a) {
    const Way way = a.first_message.way;
    return way != a.second_message.way ? 2 : way == Way::packets ? 0 : way == Way::lines ? 1 : 2;
  }
};

}  // namespace plait::pairwise
