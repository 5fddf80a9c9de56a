// All-reduce, reduce-scatter and all-gather of ranks on several nodes, so that each byte crosses
// the network as seldom as possible: ranks of a node work together, and ranks of equal local
// number, a rail, exchange between nodes what their nodes have.
//
// With R rails and N nodes a message is cut into R x N blocks: block (q, m) belongs to the rank of
// rail q on node m. (A node may have more than R ranks; the others own no block.) A block is cut
// into one stripe per thread block, and a stripe into chunks. Chunk k of a message is chunk k of
// all its blocks. In a step, a thread block works on one chunk in each of these stages:
//   1. Scatter: pushes chunk k of rail q's N blocks to the rank of rail q on this node, for all q.
//   2. Reduce on the node: adds up what all ranks of the node have for the own rail, and pushes the
//      partial sums of block (q, m) along the rail to node m.
//   3. Reduce along the rail: adds up the nodes' partial sums of its own block, in the order of the
//      nodes, and pushes the result along the rail to all nodes.
//   4. Collect: takes the results of all blocks of its rail from the other nodes, and pushes them
//      to all ranks of this node.
//   5. Gather: takes the results of the other rails from the ranks of this node.
// All-reduce has all stages, reduce-scatter 1 to 3, all-gather 3 (it pushes its input) to 5.
// `everywhere` is for two nodes and for small messages: in stage 2 all partial sums go to all
// nodes, each node reduces all blocks of the rail in stage 3, and stage 4 has nothing to receive,
// so it is part of stage 3. That saves a hop, and for two nodes it costs no byte more.
// `by_all_ranks` (only with `everywhere`) saves one more, at the price of R times the bytes: in
// stage 1 each rank pushes all blocks to all ranks of its node, so each is the only rail of its own
// in stages 2 and 3, and has the result after them.
//
// Stages lie some steps apart, so that chunks are on their way while others are worked on. A step
// first waits for all that its stages need, and after them signals all that it has sent and used.
// Stages 1 and 2 use way 0 of the node's channels, 4 and 5 way 1; stages 2 and 3 use way 0 of the
// rail's channels, 3 and 4 way 1 (algorithms/blocks/channels/channel.hpp proves that slots may be
// used again). A call that needs one way along the rail, so any but an all-reduce that is not
// `everywhere`, takes the two in turn with others (`turn_to_send` there). Each way has separate
// slots and counters, so the same proof holds.
//
// Why it can't deadlock. A step waits for chunks that peers push in their steps before, by as many
// steps as the stages lie apart, at least one; and for slots that they empty, in their step
// j - slots + distance at the latest, which is before j because every distance is less than the
// number of slots. So of all thread blocks with one number on all ranks, one in the least step can
// go on. Proxies carry chunks without waiting for any kernel.
//
// In place is safe. Stages 1 and 2 read chunk k of the input, stages 3 to 5 write chunk k of the
// output in later steps, after a `sync`; stage 2 stores a partial sum where its thread has read the
// own term, in a block that no other stage reads.
//
// All ranks get the same bits: a node's partial sums are made in the order of its ranks, and added
// in the order of the nodes, wherever that is done; the own partial sum is rounded like those that
// travel.
//
// Cost: a hop on the node, one along the rail (two unless `everywhere`), and a hop on the node
// (none if `by_all_ranks`). Through each node's network, in either direction: 2 (N - 1) / N of the
// message for all-reduce, half of that for the others.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/blocks/loops/slot_sum.hpp"
#include "algorithms/nodes/rails/plan.hpp"
#include "algorithms/nodes/rails/wire.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::rails {

using Types = InRuns<ReducedTypes>;

struct Args {
  GroupChannels node;  // among the ranks of this node
  GroupChannels rail;  // along the rail; of no use to a rank without one
  const void* send;
  void* recv;
  /// The rank that owns block (q, m), at m * rails + q. Null: blocks lie in that order.
  const std::int32_t* owners;
  Plan plan;
  Reduction reduction;
};

/// `Wire`: how chunks travel along the rail (wire.hpp).
template <class T, class D, class Wire = PlainWire<T, D>>
class Rails {
 public:
  PLAIT_DEVICE Rails(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        plan_(a.plan),
        own_(a.node.rank),
        own_rail_(a.plan.work.by_all_ranks ? 0 : a.node.rank),
        own_node_(a.rail.rank),
        node_(a.node, dev.block()),
        rail_(a.rail, dev.block()),
        reducer_(a.reduction),
        stripe_(plan_.stripes.at(dev.block())),
        chunks_(plan_.chunks.count(stripe_)) {}

  PLAIT_DEVICE void run() {
    const std::uint32_t steps = chunks_ == 0 ? 0 : chunks_ + plan_.at.gather;
    for (std::uint32_t j = 0; j < steps; ++j) {
      if (!ready(j)) return;
      if (plan_.work.reduces && j < chunks_) scatter(j);
      if (has_rail()) {  // unsigned: a stage that has not begun has a large k
        if (const auto k = j - plan_.at.node; plan_.work.reduces && k < chunks_) reduce_on_node(k);
        if (const auto k = j - plan_.at.rail; k < chunks_) reduce_along_rail(k);
        if (const auto k = j - plan_.at.collect; plan_.work.gathers && k < chunks_) collect(k);
      }
      if (const auto k = j - plan_.at.gather; plan_.work.gathers && k < chunks_) gather(k);
      announce(j);
    }
    finish();
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Input = Packs<const T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr int in_flight = packs_in_flight<T, D>;
  static constexpr unsigned down = 0, up = 1;  // ways: towards the owner, and from it

  PLAIT_DEVICE bool has_rail() const { return own_rail_ < plan_.rails; }

  // Blocks: where they lie, and chunk k of one, in packs from the beginning of the block.
  PLAIT_DEVICE Input block_in(int q, int m) const {
    const Range block = plan_.block(position(q, m));
    return {static_cast<const T*>(a_.send) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  PLAIT_DEVICE Output block_out(int q, int m) const {
    const Range block = plan_.block(has_own_block_only() ? 0 : position(q, m));
    return {static_cast<T*>(a_.recv) + block.begin / sizeof(T), block.size() / sizeof(T)};
  }
  /// True for a reduce-scatter: the output has only the own block.
  PLAIT_DEVICE bool has_own_block_only() const {
    return !plan_.work.gathers && !plan_.work.by_all_ranks;
  }
  /// The input of an all-gather has only the own block.
  PLAIT_DEVICE Input own_input() const {
    const Range block = plan_.block(0);
    return {static_cast<const T*>(a_.send), block.size() / sizeof(T)};
  }
  PLAIT_DEVICE unsigned position(int q, int m) const {
    const int i = m * plan_.rails + q;
    return static_cast<unsigned>(a_.owners == nullptr ? i : a_.owners[i]);
  }
  PLAIT_DEVICE Range chunk(int q, int m, std::uint32_t k) const {
    const std::size_t size = plan_.block(position(q, m)).size();
    Range range = plan_.chunks.at(stripe_, k);
    if (range.begin > size) range.begin = size;
    if (range.end > size) range.end = size;
    return in_packs<D::pack_bytes>(range);
  }
  /// Packs from one block's chunk to the next one's, where a slot has those of all nodes.
  PLAIT_DEVICE std::size_t stride(std::uint32_t k) const {
    return in_packs<D::pack_bytes>(plan_.chunks.at(stripe_, k)).size();
  }
  /// Where node m's chunk lies in the slots along the rail, in bytes.
  PLAIT_DEVICE std::size_t rail_offset(int m, std::uint32_t k) const {
    return plan_.work.everywhere ? static_cast<unsigned>(m) * Wire::bytes(stride(k)) : 0;
  }

  // The ends of channels that a call uses are numbered, and spread over the threads. Loops over
  // them are written out: clang for AMD GPUs simplifies the body of a lambda before it inlines it,
  // and would choose between the addresses of `node_` and `rail_`, which keeps Args in memory.
  struct End {
    bool on_node, sends;
    unsigned way;
    int peer;         // -1: the call does not use the end
    std::uint32_t k;  // the chunk that it has in the step; none if not below `chunks_`
  };
  PLAIT_DEVICE unsigned ends() const { return Plan::ends * peers_at_most(); }
  PLAIT_DEVICE unsigned peers_at_most() const {
    const int here = a_.node.ranks, nodes = plan_.nodes;
    return static_cast<unsigned>(here > nodes ? here : nodes);
  }
  /// End i of `ends()` in step j.
  PLAIT_DEVICE End end(unsigned i, std::uint32_t j) const {
    const int here = a_.node.ranks, rails = plan_.rails, nodes = plan_.nodes;
    const Plan::End kind = plan_.end(i / peers_at_most(), has_rail());
    const bool on_node = kind.group != Plan::Group::rail;
    const int peers = !on_node                                ? nodes
                      : kind.group == Plan::Group::rails_here ? rails
                                                              : here,
              own = on_node ? own_ : own_node_, peer = static_cast<int>(i % peers_at_most());
    const bool is_used = kind.used && peer != own && peer < peers;
    return {.on_node = on_node,
            .sends = kind.sends,
            .way = !is_used || on_node ? kind.way
                   : kind.sends        ? way_to(kind.way, peer)
                                       : way_from(kind.way, peer),
            .peer = is_used ? peer : -1,
            .k = j - kind.at};
  }
  // The way along the rail of what is sent to node m, and received from it, in stages of `way`.
  PLAIT_DEVICE unsigned way_to(unsigned way, int m) const {
    return plan_.takes_turns() ? rail_.turn_to_send(m) : way;
  }
  PLAIT_DEVICE unsigned way_from(unsigned way, int m) const {
    return plan_.takes_turns() ? rail_.turn_to_receive(m) : way;
  }

  PLAIT_DEVICE bool ready(std::uint32_t j) {
    bool ok = true;
    for (unsigned i = dev_.thread(); ok && i < ends(); i += dev_.threads()) {
      const End e = end(i, j);
      if (e.peer < 0 || e.k >= chunks_) continue;
      // One wait for both groups: of two, clang for AMD GPUs makes loops in which a way leads past
      // the invalidation of the caches.
      const ChannelWait wait = e.on_node ? wait_for(node_, e) : wait_for(rail_, e);
      const int number = e.on_node ? a_.node.number_of(e.peer) : a_.rail.number_of(e.peer);
      ok = dev_.wait(wait.word, wait.at_least, {number, j});
    }
    return dev_.all(ok);
  }
  PLAIT_DEVICE static ChannelWait wait_for(const BlockGroupChannels& channels, const End& e) {
    return e.sends ? channels.may_send(e.way, e.peer, e.k)
                   : channels.has_arrived(e.way, e.peer, e.k);
  }

  PLAIT_DEVICE void announce(std::uint32_t j) {
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for (unsigned i = dev_.thread(); i < ends(); i += dev_.threads()) {
      const End e = end(i, j);
      if (e.peer < 0 || e.k >= chunks_) continue;
      const ChannelSignal signal = e.on_node ? signal_for(node_, e) : signal_for(rail_, e);
      dev_.signal(signal.word, signal.value);
    }
  }
  PLAIT_DEVICE ChannelSignal signal_for(const BlockGroupChannels& channels, const End& e) const {
    return e.sends ? channels.publish(e.way, e.peer, e.k, bytes_to(e))
                   : channels.consume(e.way, e.peer, e.k);
  }
  /// The bytes of a chunk along the rail. (Those on the node interest no proxy.)
  PLAIT_DEVICE std::size_t bytes_to(const End& e) const {
    if (!has_rail()) return 0;
    const bool of_sums = plan_.takes_turns() ? plan_.work.reduces : e.way == down;
    const int last = plan_.work.everywhere ? plan_.nodes - 1 : of_sums ? e.peer : own_node_;
    if (last >= plan_.nodes) return 0;
    return rail_offset(last, e.k) + Wire::bytes(chunk(own_rail_, last, e.k).size());
  }

  PLAIT_DEVICE void finish() {
    dev_.sync();  // all threads have read the counters
    for (unsigned i = dev_.thread(); i < ends(); i += dev_.threads()) {
      const End e = end(i, 0);
      if (e.peer < 0) continue;
      if (e.on_node) advance(node_, e);
      else advance(rail_, e);
      if (!e.on_node && plan_.takes_turns()) end_turn(e);
    }
  }
  PLAIT_DEVICE void end_turn(const End& e) const {
    if (e.sends) rail_.end_turn_to_send(e.peer);
    else rail_.end_turn_to_receive(e.peer);
  }
  PLAIT_DEVICE void advance(const BlockGroupChannels& channels, const End& e) const {
    if (e.sends) channels.advance_sent(e.way, e.peer, chunks_);
    else channels.advance_received(e.way, e.peer, chunks_);
  }

  PLAIT_DEVICE void scatter(std::uint32_t k) {
    const int receivers = plan_.work.by_all_ranks ? a_.node.ranks : plan_.rails;
    for (int p = 0; p < receivers; ++p) {
      if (p == own_) continue;
      const int q = plan_.work.by_all_ranks ? 0 : p;
      P* const slot = node_.template outgoing<P>(down, p, k);
      for (int m = 0; m < plan_.nodes; ++m)
        fill_slot<in_flight>(dev_, block_in(q, m), chunk(q, m, k),
                             slot + static_cast<unsigned>(m) * stride(k));
    }
  }

  PLAIT_DEVICE void reduce_on_node(std::uint32_t k) {
    for (int m = 0; m < plan_.nodes; ++m) {
      const Range range = chunk(own_rail_, m, k);
      const std::size_t at = static_cast<unsigned>(m) * stride(k);
      const bool stays = m == own_node_ || plan_.work.everywhere || Wire::is_coded;
      const Output to =
          stays ? block_out(own_rail_, m)
                : as_buffer(rail_.template outgoing<P>(way_to(down, m), m, k), range.size());
      add_slots<false>(dev_, reducer_, block_in(own_rail_, m), range, to, stays ? range.begin : 0,
                       {own_, a_.node.ranks},
                       [&](int p) { return node_.template incoming<P>(down, p, k) + at; });
      const bool to_all = plan_.work.everywhere;
      if (to_all || Wire::is_coded)
        push_along_rail(down, m, range, k, to_all ? 0 : m, to_all ? plan_.nodes : m + 1);
    }
  }

  /// Pushes a chunk of block (own rail, m) of the output to the nodes begin, ..., end - 1 but the
  /// own one.
  PLAIT_DEVICE void push_along_rail(unsigned way, int m, const Range& range, std::uint32_t k,
                                    int begin, int end) {
    regroup();
    Wire::push(dev_, block_out(own_rail_, m), range, begin, end, own_node_, [&](int to) {
      return rail_.template outgoing<std::byte>(way_to(way, to), to, k) + rail_offset(m, k);
    });
    regroup();
  }
  /// Coded chunks are cut into other pieces than packs, and threads have other pieces of them.
  PLAIT_DEVICE void regroup() {
    if constexpr (Wire::is_coded) {
      dev_.sync();
    }
  }
  PLAIT_DEVICE static Output as_buffer(P* slot, std::size_t packs) {
    return {reinterpret_cast<T*>(slot), packs * P::lanes};
  }
  PLAIT_DEVICE void push_on_node(int m, const Range& range, std::uint32_t k) {
    const Output result = block_out(own_rail_, m);
    const Input from(reinterpret_cast<const T*>(result.packs()), result.count());
    const std::size_t at = static_cast<unsigned>(m) * stride(k);
    for (int p = 0; p < a_.node.ranks; ++p)
      if (p != own_)
        fill_slot<in_flight>(dev_, from, range, node_.template outgoing<P>(up, p, k) + at);
  }

  /// All-gather has nothing to add up: it takes its input for the result.
  PLAIT_DEVICE void reduce_along_rail(std::uint32_t k) {
    for (int m = 0; m < plan_.nodes; ++m) {
      if (m != own_node_ && !plan_.work.everywhere) continue;
      const Range range = chunk(own_rail_, m, k);
      const Output to = block_out(own_rail_, m);
      if (Wire::is_coded || plan_.work.reduces)
        Wire::add(dev_, reducer_, to, range, plan_.nodes, own_node_, [&](int from) {
          return rail_.template incoming<std::byte>(way_from(down, from), from, k) +
                 rail_offset(m, k);
        });
      else if (own_input().packs() != to.packs())
        copy_packs<in_flight>(dev_, own_input(), to, range);
      regroup();
      if (plan_.work.gathers && !plan_.work.everywhere)
        push_along_rail(up, m, range, k, 0, plan_.nodes);
    }
  }

  PLAIT_DEVICE void collect(std::uint32_t k) {
    for (int m = 0; m < plan_.nodes; ++m) {
      const Range range = chunk(own_rail_, m, k);
      if (m != own_node_ && !plan_.work.everywhere) {
        Wire::pull(dev_, rail_.template incoming<std::byte>(way_from(up, m), m, k),
                   block_out(own_rail_, m), range);
        regroup();
      }
      push_on_node(m, range, k);
    }
  }

  PLAIT_DEVICE void gather(std::uint32_t k) {
    for (int q = 0; q < plan_.rails; ++q) {
      if (q == own_rail_) continue;
      const P* const slot = node_.template incoming<P>(up, q, k);
      for (int m = 0; m < plan_.nodes; ++m)
        empty_slot<in_flight>(dev_, slot + static_cast<unsigned>(m) * stride(k), block_out(q, m),
                              chunk(q, m, k));
    }
  }

  D& dev_;
  const Args& a_;
  const Plan& plan_;
  int own_;  // number on the node
  int own_rail_, own_node_;
  BlockGroupChannels node_, rail_;
  Reducer<T> reducer_;
  Range stripe_;
  std::uint32_t chunks_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Rails<T, D>(dev, a).run();
  }
};

}  // namespace plait::rails
