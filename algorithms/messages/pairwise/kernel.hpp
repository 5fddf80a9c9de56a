// Messages between two ranks: send, recv, send_recv and all_to_all_v. A launch has this rank's ends
// of any number of messages, to and from any of its peers. The way of a message was chosen from its
// size, which both ends know.
//
// A message is cut into one stripe per channel. All messages of a launch from one rank to another
// form a direction, and some of its blocks work on that. Each of these blocks takes one message
// after the other and, of each message, the channels that are its own, in rising order.
//   units.hpp     packets and lines, which carry data and flag together, through lanes;
//   slots.hpp     chunks through slots;
//   straight.hpp  stores straight into the receiver's buffer, a copy engine's copy, and pulls.
// Each of these files has the steps of both ends, and the proof that no barrier is missing. A
// message from a rank to itself is copied.
//
// Why it can't deadlock. Let ranks a and b have the meeting number (a + b) mod n: at each number a
// rank meets one other rank, or itself. Blocks start in order. A direction that sends a single
// pulled message is split, unless the launch has no other direction: blocks before all others post
// the message, and blocks behind all others settle it, so two ranks that exchange messages read at
// the same time. Blocks that post wait for nothing. The blocks between are in the order of meetings
// and, at each meeting, the direction from the lower rank comes first. A posted direction is
// finished once its receiver has read it.
//
// Among all launches of a group, take the lowest meeting and direction that some rank has not
// finished; of this direction the first unfinished message, and of that the lowest unfinished
// channel. On both ranks everything before is finished, so in both launches the blocks of this
// direction are the first that still have work. They all run at once, because a direction has no
// more blocks than the device has multiprocessors (on the host: workers). So the block with that
// channel has started, and has come to it. Hence both ends go on, however few of the other blocks
// are resident, and however many blocks each rank gives to a direction.
//
// All blocks of a direction must run at once because the two ends may give it different numbers of
// blocks and group its messages differently: some blocks might wait in later channels or messages,
// and hold the place of one that has not started. Fewer are enough where every block has one
// stripe, because there an earlier block is not only finished but gone. Ranks that group their ends
// differently must order them so that the argument above holds; see Communicator::send.
//
// A message that a copy engine may copy takes two launches. The first has only the receiver's offer
// and, at the sender, the wait for it, and the stores if they are made after all. Nothing in a
// first launch waits for a copy or an arrival of such a message, so all first launches go on as
// above. Then all copies are made, and the second launches find what they wait for. A block that
// settles waits only for the peer's block of that direction, which waits for no block that settles.
//
// Cost. Units and slots: one hop; each byte crosses the link once, and the receiver's memory once
// more. Straight: two hops. Pulled: two hops, and one system call per stripe.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/units.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/messages/pairwise/slots.hpp"
#include "algorithms/messages/pairwise/straight.hpp"
#include "algorithms/messages/pairwise/units.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// Messages are moved as elements of a size that all pointers of a launch are aligned to.
using Types = MoveTypes;

/// `Only`: the way of all messages, if this case is for one way alone.
template <class T, class D, Way... Only>
class Pairwise {
 public:
  /// Copies the paths, because clang for AMD GPUs loses track of which of so many pointers in the
  /// arguments point to global memory.
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
  PLAIT_DEVICE static constexpr Way way_of(const Message& m) {
    if constexpr (sizeof...(Only) == 0) {
      return m.way;
    } else {
      return (Only, ...);
    }
  }

  /// This block's stripes of a message. False: the communicator is broken. Stripes that another
  /// block has posted are settled all the same, so that no reader is left.
  PLAIT_DEVICE bool move_stripes(const Message& m, const Direction& direction, bool& first) {
    const int peer = static_cast<int>(direction.peer);
    bool whole = true;
    for (unsigned channel = dev_.block() - direction.first_block; channel < m.channels;
         channel += direction.blocks) {
      if (!first) dev_.sync();  // counters that one stripe has advanced are read for the next
      first = false;
      if (move(m, channel, peer, direction.sends != 0)) continue;
      if (!D::has_peer_reads || way_of(m) != Way::settle) return false;
      whole = false;
    }
    return whole;
  }

  PLAIT_DEVICE bool move(const Message& m, unsigned channel, int peer, bool sends) {
    switch (way_of(m)) {
      case Way::packets:
        return sends ? units().template send<PacketUnit>(a_.packets, m, channel, peer)
                     : units().template receive<PacketUnit>(a_.packets, m, channel, peer);
      case Way::lines:
        if constexpr (D::line_threads != 0) {
          return sends ? units().template send<LineUnit<D>>(a_.lines, m, channel, peer)
                       : units().template receive<LineUnit<D>>(a_.lines, m, channel, peer);
        }
        return false;
      case Way::slots:
        return sends ? slots().send(m, channel, peer) : slots().receive(m, channel, peer);
      case Way::put:
        return sends ? straight().put(m, channel, peer) : straight().receive(channel, peer);
      case Way::open:
        return straight().open(channel, peer, sends);
      case Way::close:
        return straight().close(channel, peer, sends);
      case Way::own:
        straight().copy(m, channel);
        return true;
      case Way::pull:
      case Way::post:
      case Way::settle:
        if constexpr (D::has_peer_reads) {
          if (!sends) return straight().pull(m, channel, peer);
          if (way_of(m) != Way::settle && !straight().post(m, channel, peer)) return false;
          return way_of(m) == Way::post || straight().settle(channel, peer);
        }
        return false;
    }
    return false;
  }

  PLAIT_DEVICE UnitWay<T, D> units() { return {dev_, a_}; }
  PLAIT_DEVICE SlotWay<T, D> slots() { return {dev_, a_}; }
  PLAIT_DEVICE StraightWay<T, D> straight() { return {dev_, a_}; }

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

  /// Small messages are faster in code that has one way only (2 H200, 16 KB: 3.50 us instead of
  /// 3.71; 2026-11-22).
  template <Way... Only>
  struct Case {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Pairwise<T, D, Only...>(dev, a.paths).run(a);
    }
  };
  using Cases = TypeList<Case<Way::packets>, Case<Way::lines>, Case<>>;
  static unsigned case_of(const Args& a) {
    const Way way = a.first_message.way;
    return way != a.second_message.way ? 2 : way == Way::packets ? 0 : way == Way::lines ? 1 : 2;
  }
};

}  // namespace plait::pairwise
