// Small collectives of one hop between ranks on several nodes: one rank of each node, its leader,
// exchanges with the other leaders for all ranks of its node. So there is one message from a node
// to another, whatever the number of ranks, and a proxy's work is little.
//
// Every rank has blocks for some ranks, and gets blocks of some (DirectPattern). In a call,
//   1. Hand in: a rank that has blocks pushes all of them to its leader.
//   2. Exchange: the leader waits for its ranks, and pushes to the leader of each other node the
//      blocks that are for that node, one after the other: those of its first rank, in the order of
//      the ranks that they are for, then those of its second rank, and so on. If the call reduces,
//      it adds up what its ranks have for a rank, in their order, and pushes the sum.
//   3. Hand out: the leader waits for the other leaders, and pushes to each rank of its node what
//      that gets, in the order of the rank's output. If the call reduces, it adds the sums of the
//      other nodes to the terms of its own, in the order of the nodes.
//   4. Take: the rank waits for its leader, and copies that to its output.
// A root that sends copies its own block itself, so it waits for nobody but for a free slot.
//
// Blocks that are too long for a slot go in pieces: the same part of every block in one round of
// these steps, the next part in the next round. A rank does 1 or 2 of a round before 3 or 4 of the
// round before, so the next pieces are on their way meanwhile.
//
// Channels: those of `NumberedChannels` (algorithms/blocks/channels/channel.hpp has the proof),
// both on the node and between leaders, with one chunk per round. So whoever only sends is up to
// `slots` rounds ahead, and between nodes no credit needs a message of its own. Both ends of a
// channel count the same rounds, because both know the pattern and the pieces.
//
// Why no barrier is missing. A `sync` stands between the block's stores to slots, and its loads
// from them, and the signals that speak of these. Counts are read before the last `sync` and
// advanced after it.
//
// Why it can't deadlock. 1 waits for a slot that an earlier round's 3 empties, 2 for 1 and for a
// slot that an earlier round's 3 empties on another node, 3 for 2 and for a slot that an earlier
// round's 4 empties, and 4 for 3. Those are `slots` rounds earlier, and a rank is at most one round
// ahead of itself. So of all rounds under way, the earliest step of the earliest can go on.
//
// In place is safe. A rank's input is read in 1, or in 2 and 3 before a `sync`, and its output is
// written after that. Other rounds have other parts of the blocks.
//
// Cost: a hop on the node, one between nodes, and one on the node; N - 1 messages of a leader.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::leaders {

using Types = InRuns<ReducedTypes>;

/// Of each channel.
inline constexpr std::uint32_t slots = 2 * ChunkNote::bulk;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // among the leaders
  DirectPattern pattern;
  const std::int32_t* owners;  // the ranks of node 0, of node 1, ...; each has node.ranks
  const void* send;
  void* recv;
  std::size_t count;  // elements of a block
  std::size_t piece;  // of them, those of a round; the last one may have fewer
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element, piece *= element; }  // for runs
};

template <class T, class D, bool Reduces>
class Leaders {
 public:
  PLAIT_DEVICE Leaders(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        own_(a.node.rank),
        here_(a.node.ranks),
        own_node_(a.rail.rank),
        nodes_(a.rail.ranks),
        root_(place_of_root()),
        node_(a.node),
        rail_(a.rail),
        reducer_(a.reduction) {}

  PLAIT_DEVICE void run() {
    const auto rounds = static_cast<std::uint32_t>((a_.count + a_.piece - 1) / a_.piece);
    for (std::uint32_t next = 0; next <= rounds; ++next) {
      if (next < rounds && !first_half(next)) return;
      if (next > 0 && !second_half(next - 1)) return;
    }
    finish(rounds);
  }

 private:
  PLAIT_DEVICE void enter(std::uint32_t round) {
    round_ = round;
    begin_ = round * a_.piece;
    count_ = begin_ + a_.piece < a_.count ? a_.piece : a_.count - begin_;
  }
  PLAIT_DEVICE bool first_half(std::uint32_t round) {
    enter(round);
    if (!leads()) return hand_in();
    if (!ready_to_exchange()) return false;
    return exchange(), true;
  }
  PLAIT_DEVICE bool second_half(std::uint32_t round) {
    enter(round);
    if (leads() ? !ready_to_hand_out() : !take()) return false;
    if (leads()) hand_out();
    if (a_.pattern.root_sends && is_root(own_)) {
      const int own = place(own_node_, own_);
      copy(block_of(own_, own), block_from(output(), own), count_);
    }
    return true;
  }

  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr int in_flight = packs_in_flight<T, D>;

  // Ranks have places in `owners`: `here_` of each node. Those of this node have numbers, too.
  PLAIT_DEVICE int place_of_root() const {
    int place = 0;
    if (a_.pattern.rooted())
      while (a_.owners[place] != a_.pattern.root) ++place;
    return place;
  }
  PLAIT_DEVICE int place(int node, int number) const { return node * here_ + number; }
  PLAIT_DEVICE std::size_t rank_at(int place) const {
    return static_cast<std::size_t>(a_.owners[place]);
  }
  PLAIT_DEVICE bool leads() const { return own_ == 0; }
  PLAIT_DEVICE bool is_root(int number) const {
    return a_.pattern.rooted() && place(own_node_, number) == root_;
  }

  // The ranks of a node that have blocks, or get some: all, or the root alone.
  struct Some {
    int begin, end;
    PLAIT_DEVICE int size() const { return end - begin; }
    PLAIT_DEVICE bool has(int number) const { return number >= begin && number < end; }
  };
  PLAIT_DEVICE Some some(int node, bool root_only) const {
    const int number = root_ - place(node, 0);
    if (!root_only) return {0, here_};
    return number >= 0 && number < here_ ? Some{number, number + 1} : Some{0, 0};
  }
  PLAIT_DEVICE Some senders(int node) const { return some(node, a_.pattern.root_sends); }
  PLAIT_DEVICE Some receivers(int node) const { return some(node, a_.pattern.root_receives); }
  PLAIT_DEVICE bool sends(int from, int to) const {
    return from != to && senders(from).size() > 0 && receivers(to).size() > 0;
  }
  PLAIT_DEVICE bool has_blocks(int number) const { return senders(own_node_).has(number); }
  /// Whether the leader hands out anything to it. A root that sends gets nothing.
  PLAIT_DEVICE bool gets(int number) const {
    return receivers(own_node_).has(number) && !(a_.pattern.root_sends && is_root(number));
  }

  // The round's pieces of blocks: in the program's memory one in each block, in a slot one after
  // the other.
  template <class U>
  struct Pieces {
    U* first;
    std::size_t stride;
  };
  PLAIT_DEVICE Pieces<const T> input() const {
    return {static_cast<const T*>(a_.send) + begin_, a_.count};
  }
  PLAIT_DEVICE Pieces<T> output() const { return {static_cast<T*>(a_.recv) + begin_, a_.count}; }
  template <class U>
  PLAIT_DEVICE Pieces<U> in_slot(U* slot) const {
    return {slot, count_};
  }
  /// Where those of a rank of this node lie that it has for a place, and where it stores those of a
  /// place.
  PLAIT_DEVICE const T* block_of(int number, int target) const {
    const Pieces<const T> from =
        number == own_ ? input() : in_slot(node_.template incoming<T>(number, round_));
    return from.first + (a_.pattern.block_per_target ? rank_at(target) * from.stride : 0);
  }
  PLAIT_DEVICE T* block_from(const Pieces<T>& to, int source) const {
    return to.first + (a_.pattern.block_per_source ? rank_at(source) * to.stride : 0);
  }
  /// In the message of one leader to another: the block from a sender for a receiver, which count
  /// among those of their nodes.
  PLAIT_DEVICE std::size_t in_message(int sender, int receiver, const Some& receivers) const {
    const int targets = a_.pattern.block_per_target ? receivers.size() : 1;
    return static_cast<unsigned>((Reduces ? 0 : sender) * targets +
                                 (a_.pattern.block_per_target ? receiver : 0)) *
           count_;
  }

  /// Calls body(i) for the ends of channels 0, ..., count - 1, spread over the threads.
  template <class Body>
  PLAIT_DEVICE void for_each(int count, Body body) {
    for (unsigned i = dev_.thread(); i < static_cast<unsigned>(count); i += dev_.threads())
      body(static_cast<int>(i));
  }
  PLAIT_DEVICE bool wait(const ChannelWait& wait, int rank, std::uint32_t step) {
    return dev_.wait(wait.word, wait.at_least, {rank, step});
  }
  PLAIT_DEVICE void signal(const ChannelSignal& signal) { dev_.signal(signal.word, signal.value); }

  PLAIT_DEVICE bool hand_in() {
    if (!has_blocks(own_)) return true;
    bool ok = true;
    if (dev_.thread() == 0) ok = wait(node_.may_send(0, round_), a_.node.number_of(0), 0);
    if (!dev_.all(ok)) return false;
    copy_all(input(), in_slot(node_.template outgoing<T>(0, round_)), a_.pattern.block_per_target);
    dev_.sync();  // all threads have written
    if (dev_.thread() == 0) signal(node_.publish(0, round_, 0));
    return true;
  }

  PLAIT_DEVICE bool ready_to_exchange() {
    bool ok = true;
    for_each(here_ + nodes_, [&](int i) PLAIT_INLINED {
      const int node = i - here_;
      if (!ok) return;
      if (i < here_ && i != own_ && has_blocks(i))
        ok = wait(node_.has_arrived(i, round_), a_.node.number_of(i), 1);
      if (i >= here_ && sends(own_node_, node))
        ok = wait(rail_.may_send(node, round_), a_.rail.number_of(node), 1);
    });
    return dev_.all(ok);
  }
  PLAIT_DEVICE void exchange() {
    for (int i = 1; i < nodes_; ++i) {
      const int node = rank_after(own_node_, i, nodes_);
      if (sends(own_node_, node)) fill_message(node);
    }
    dev_.sync();  // all threads have written
    for_each(nodes_, [&](int node) PLAIT_INLINED {
      if (sends(own_node_, node)) signal(rail_.publish(node, round_, message_bytes(node)));
    });
  }
  PLAIT_DEVICE void fill_message(int node) {
    const Some from = senders(own_node_), to = receivers(node);
    T* const message = rail_.template outgoing<T>(node, round_);
    const int targets = a_.pattern.block_per_target ? to.size() : 1;
    for (int t = 0; t < targets; ++t) {
      const int target = place(node, to.begin + t);
      if constexpr (Reduces) {
        add(
            here_, here_, [&](int i) PLAIT_INLINED { return block_of(i, target); },
            message + in_message(0, t, to), false);
      } else {
        for (int s = from.begin; s < from.end; ++s)
          copy(block_of(s, target), message + in_message(s - from.begin, t, to), count_);
      }
    }
  }
  PLAIT_DEVICE std::size_t message_bytes(int node) const {
    const Some to = receivers(node);
    const int sources = Reduces ? 1 : senders(own_node_).size(),
              targets = a_.pattern.block_per_target ? to.size() : 1;
    return static_cast<unsigned>(sources * targets) * count_ * sizeof(T);
  }

  PLAIT_DEVICE bool ready_to_hand_out() {
    bool ok = true;
    for_each(here_ + nodes_, [&](int i) PLAIT_INLINED {
      const int node = i - here_;
      if (!ok) return;
      if (i < here_ && i != own_ && gets(i))
        ok = wait(node_.may_send(i, round_), a_.node.number_of(i), 2);
      if (i >= here_ && sends(node, own_node_))
        ok = wait(rail_.has_arrived(node, round_), a_.rail.number_of(node), 2);
    });
    return dev_.all(ok);
  }
  PLAIT_DEVICE void hand_out() {
    for (int i = 1; i < here_; ++i)
      if (gets(i)) fill_output(i, in_slot(node_.template outgoing<T>(i, round_)));
    dev_.sync();  // all threads have read the input
    if (gets(own_)) fill_output(own_, output());
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for_each(here_ + nodes_, [&](int i) PLAIT_INLINED {
      const int node = i - here_;
      if (i < here_ && i != own_ && gets(i)) signal(node_.publish(i, round_, 0));
      if (i < here_ && i != own_ && has_blocks(i)) signal(node_.consume(i, round_));
      if (i >= here_ && sends(node, own_node_)) signal(rail_.consume(node, round_));
    });
  }
  /// What a rank of this node gets, in the order of its output.
  PLAIT_DEVICE void fill_output(int number, const Pieces<T>& output) {
    const Some to = receivers(own_node_);
    const int target = place(own_node_, number), t = number - to.begin;
    if constexpr (Reduces) {
      add(
          here_, here_ + nodes_ - 1,
          [&](int i) PLAIT_INLINED {
            if (i < here_) return block_of(i, target);
            const int node = i - here_ + (i - here_ >= own_node_ ? 1 : 0);
            return rail_.template incoming<T>(node, round_) + in_message(0, t, to);
          },
          output.first, true);
    } else {
      for (int node = 0; node < nodes_; ++node) {
        const Some from = senders(node);
        for (int s = from.begin; s < from.end; ++s)
          copy(node == own_node_
                   ? block_of(s, target)
                   : rail_.template incoming<T>(node, round_) + in_message(s - from.begin, t, to),
               block_from(output, place(node, s)), count_);
      }
    }
  }

  PLAIT_DEVICE bool take() {
    if (!gets(own_)) return true;
    bool ok = true;
    if (dev_.thread() == 0) ok = wait(node_.has_arrived(0, round_), a_.node.number_of(0), 3);
    if (!dev_.all(ok)) return false;
    copy_all(in_slot(node_.template incoming<T>(0, round_)), output(), a_.pattern.block_per_source);
    dev_.sync();  // all threads have read
    if (dev_.thread() == 0) signal(node_.consume(0, round_));
    return true;
  }

  PLAIT_DEVICE void finish(std::uint32_t rounds) {
    dev_.sync();  // all threads have read the counts
    for_each(leads() ? here_ + nodes_ : 1, [&](int i) PLAIT_INLINED {
      const int node = i - here_;
      if (!leads()) {
        if (has_blocks(own_)) node_.advance_sent(0, rounds);
        if (gets(own_)) node_.advance_received(0, rounds);
      } else if (i < here_ && i != own_) {
        if (has_blocks(i)) node_.advance_received(i, rounds);
        if (gets(i)) node_.advance_sent(i, rounds);
      } else if (i >= here_) {
        if (sends(own_node_, node)) rail_.advance_sent(node, rounds);
        if (sends(node, own_node_)) rail_.advance_received(node, rounds);
      }
    });
  }

  /// Copies elements, unless they are there already.
  PLAIT_DEVICE void copy(const T* from, T* to, std::size_t count) {
    const Output out(to, count);
    if (from != to) copy_packs<in_flight>(dev_, Input(from, count), out, {0, out.size()});
  }
  /// Copies the pieces of one block, or of one for each rank: at once if they are whole.
  PLAIT_DEVICE void copy_all(const Pieces<const T>& from, const Pieces<T>& to, bool one_per_rank) {
    const std::size_t all = one_per_rank ? static_cast<unsigned>(here_ * nodes_) : 1;
    if (from.stride == to.stride) return copy(from.first, to.first, all * count_);
    for (std::size_t i = 0; i < all; ++i)
      copy(from.first + i * from.stride, to.first + i * to.stride, count_);
  }
  /// Adds the terms of `entering` ranks and the sums behind them, `terms` in all, and stores a
  /// block: the result if it is `finished`.
  template <class Term>
  PLAIT_DEVICE void add(int entering, int terms, Term term, T* to, bool finished) {
    const Output out(to, count_);
    if constexpr (is_untyped<T>) {
      reducer_.sum(
          dev_, {0, out.size()}, count_, entering, terms, term, 1, [&](int) { return to; },
          finished);
    } else {
      for (std::size_t i = dev_.thread(); i < out.size(); i += dev_.threads()) {
        auto sum = reducer_.start(Input(term(0), count_).load(dev_, i));
        for (int t = 1; t < entering; ++t) reducer_.add(sum, Input(term(t), count_).load(dev_, i));
        for (int t = entering; t < terms; ++t)
          reducer_.add_partial(sum, Input(term(t), count_).load(dev_, i));
        if (finished) reducer_.average(sum);
        out.store(dev_, i, reducer_.template rounded<sizeof(P)>(sum));
      }
    }
  }

  D& dev_;
  const Args& a_;
  int own_, here_;  // number on the node, and ranks there
  int own_node_, nodes_;
  int root_;  // its place
  std::uint32_t round_ = 0;
  std::size_t begin_ = 0, count_ = 0;  // its elements of each block
  NumberedChannels<GroupChannels> node_, rail_;
  Reducer<T> reducer_;
};

/// Collectives that move launch as their `move_type`.
template <class T>
struct Kernel {
  struct Sums {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Leaders<T, D, true>(dev, a).run();
    }
  };
  struct Moves {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Leaders<T, D, false>(dev, a).run();
    }
  };
  static constexpr bool moves = is_moved<T> || is_untyped<T>;
  using Cases = std::conditional_t<moves, TypeList<Moves, Sums>, TypeList<Sums>>;
  static unsigned case_of(const Args& a) { return moves && a.pattern.reduces ? 1 : 0; }
};

}  // namespace plait::leaders
