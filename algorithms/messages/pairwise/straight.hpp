// Messages without slots: stored straight into the receiver's buffer, or pulled out of the
// sender's. Either way a stripe is one chunk.
//
// Straight, where the receive buffer is symmetric and the sender knows its offset:
//   sender    1. waits for the receiver's offer of its buffer; 2. stores the stripe there; 3. says
//             so;
//   receiver  1. offers its buffer; 2. waits until the stripe has arrived.
// A copy engine's copy stands between two launches of both ends (`Way::open`, `Way::close`). In the
// first, the receiver offers and the sender waits for the offer; in the second, the sender says
// that the message is there and the receiver waits for that.
//
// Pulled, where ranks can read each other's memory (CPU ranks):
//   sender    1. posts the address of its buffer; 2. settles: waits until the stripe has been read;
//   receiver  1. waits for the address; 2. reads the stripe; 3. says that it has read it.
// A sender whose wait gives up shuts the gate that the receiver's read goes through: its program
// may then free the buffer.
//
// Why no barrier is needed. Straight: the offer comes after all earlier work on the buffer, in the
// order of the receiver's stream. Both words count up, and each has one writer. Pulled: a post is a
// release, and so is the signal that the stripe has been read. The next post of the channel
// overwrites the address, and comes after the sender has settled the last one.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// One block's work on stripes that travel without slots. Thread 0 alone reads and writes the
/// counters.
template <class T, class D>
class StraightWay {
 public:
  PLAIT_DEVICE StraightWay(D& dev, const Paths& paths) : dev_(dev), a_(paths) {}

  PLAIT_DEVICE bool put(const Message& m, unsigned channel, int peer) {
    if (!is_offered(channel, peer)) return false;
    copy(m, channel);
    return say(channel, peer);
  }
  PLAIT_DEVICE bool receive(unsigned channel, int peer) {
    return offer(channel, peer) && has_arrived(channel, peer);
  }

  /// Before a copy engine's copy: the first half of `put` and of `receive`.
  PLAIT_DEVICE bool open(unsigned channel, int peer, bool sends) {
    if (!sends) return offer(channel, peer);
    return channel == 0 ? is_offered(channel, peer) : skip_offer(channel, peer);
  }
  /// After the copy: the second half.
  PLAIT_DEVICE bool close(unsigned channel, int peer, bool sends) {
    return sends ? say(channel, peer) : has_arrived(channel, peer);
  }

  PLAIT_DEVICE bool post(const Message& m, unsigned channel, int peer) {
    if (dev_.thread() == 0)
      posted_at(peer, channel, a_.slots.rank) = {static_cast<const std::byte*>(m.from), a_.process,
                                                 D::reader_handle()};
    return say(channel, peer, pulled_base());
  }
  PLAIT_DEVICE bool settle(unsigned channel, int peer) {
    if (is_offered(channel, peer, pulled_base())) return true;
    if (dev_.thread() == 0) D::shut(gate(peer, channel, a_.slots.rank));
    return false;
  }
  PLAIT_DEVICE bool pull(const Message& m, unsigned channel, int peer) {
    if (!has_arrived(channel, peer, pulled_base())) return false;
    bool read = true;
    const Range stripe = m.stripes.at(channel);
    const PostedAt at = posted_at(a_.slots.rank, channel, peer);
    auto* const to = static_cast<std::byte*>(m.to) + stripe.begin;
    const std::byte* const from = at.address + stripe.begin;
    if (dev_.thread() == 0) {
      const Waiting who{peer, counters(channel, peer, pulled_base()).arrived};
      if (at.process != a_.process) {
        read = dev_.read_peer(at.reader_handle, to, from, stripe.size(), who);
      } else if ((read = dev_.enter(gate(a_.slots.rank, channel, peer), who))) {
        D::copy_bytes(to, from, stripe.size());
        D::leave(gate(a_.slots.rank, channel, peer));
      }
    }
    if (!dev_.all(read)) return false;
    return offer(channel, peer, pulled_base());
  }

  PLAIT_DEVICE void copy(const Message& m, unsigned channel) {
    const Input from(static_cast<const T*>(m.from), m.bytes / sizeof(T));
    const Output to(static_cast<T*>(m.to), m.bytes / sizeof(T));
    copy_packs<packs_in_flight<T, D>>(dev_, from, to,
                                      in_packs<D::pack_bytes>(m.stripes.at(channel)));
  }

 private:
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;

  // Words and counters of pulled messages lie `pulled_base()` channels behind those of straight
  // ones, whose `base` is 0. In them an arrival is a post, and an offer tells the sender that its
  // last post has been read.
  PLAIT_DEVICE unsigned pulled_base() const { return a_.straight.channels; }

  /// The word in `owner`'s memory that counts the messages of the channel which `writer` has
  /// offered to take.
  PLAIT_DEVICE std::uint32_t* offers(int owner, unsigned channel, int writer, unsigned base) const {
    return reinterpret_cast<std::uint32_t*>(a_.straight.words.peer_ptr(owner)) +
           a_.index(channel + 2 * base, writer);
  }
  /// The word that counts the messages which `writer` has delivered.
  PLAIT_DEVICE std::uint32_t* arrivals(int owner, unsigned channel, int writer,
                                       unsigned base) const {
    return offers(owner, a_.straight.channels + channel, writer, base);
  }
  PLAIT_DEVICE StraightCounters& counters(unsigned channel, int peer, unsigned base = 0) const {
    return a_.straight.counters[a_.index(channel + base, peer)];
  }

  PLAIT_DEVICE bool offer(unsigned channel, int peer, unsigned base = 0) {
    if (dev_.thread() == 0)
      dev_.signal(offers(peer, channel, a_.slots.rank, base),
                  ++counters(channel, peer, base).offered);
    return true;
  }
  PLAIT_DEVICE bool is_offered(unsigned channel, int peer, unsigned base = 0) {
    return reached(offers(a_.slots.rank, channel, peer, base), counters(channel, peer, base).taken,
                   peer);
  }
  /// Counts an offer without a wait. A copy engine copies the whole buffer, and any one offer
  /// speaks for all of it, so the sender waits for that of channel 0 alone: the receiver's first
  /// block makes it before it waits for anything. Blocks of other channels may not have started,
  /// because the receiver need not know that a copy engine wants all of the buffer at once.
  PLAIT_DEVICE bool skip_offer(unsigned channel, int peer) {
    if (dev_.thread() == 0) ++counters(channel, peer).taken;
    return true;
  }
  PLAIT_DEVICE bool say(unsigned channel, int peer, unsigned base = 0) {
    dev_.sync();  // all threads have written
    if (dev_.thread() == 0)
      dev_.signal(arrivals(peer, channel, a_.slots.rank, base),
                  ++counters(channel, peer, base).said);
    return true;
  }
  PLAIT_DEVICE bool has_arrived(unsigned channel, int peer, unsigned base = 0) {
    return reached(arrivals(a_.slots.rank, channel, peer, base),
                   counters(channel, peer, base).arrived, peer);
  }
  /// Advances the counter, and waits until the word is as high.
  PLAIT_DEVICE bool reached(const std::uint32_t* word, std::uint32_t& counter, int peer) {
    bool there = true;
    if (dev_.thread() == 0) {
      const std::uint32_t next = ++counter;
      there = dev_.wait(word, next, {peer, next});
    }
    return dev_.all(there);
  }

  /// The gate of `reader` in front of the message that `writer` has posted.
  PLAIT_DEVICE std::uint32_t* gate(int reader, unsigned channel, int writer) const {
    const unsigned pairs = a_.straight.channels * static_cast<unsigned>(a_.slots.ranks);
    return reinterpret_cast<std::uint32_t*>(
               reinterpret_cast<PostedAt*>(a_.straight.posted.peer_ptr(reader)) + pairs) +
           a_.index(channel, writer);
  }
  PLAIT_DEVICE PostedAt& posted_at(int owner, unsigned channel, int writer) const {
    return reinterpret_cast<PostedAt*>(
        a_.straight.posted.peer_ptr(owner))[a_.index(channel, writer)];
  }

  D& dev_;
  const Paths& a_;
};

}  // namespace plait::pairwise
