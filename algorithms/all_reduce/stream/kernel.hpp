// Push all-reduce through slots, for middle to large messages on any memory. Every byte crosses a
// link once in each direction, as a store, because stores are faster there than loads.
//
// The message is cut into one slice per rank, a slice into one stripe per block, and a stripe into
// chunks that fit a slot. (With two ranks there is one slice: both ranks reduce the whole message,
// in one hop.) In step j, a block handles three chunks:
//   1. Scatter: it pushes chunk j of every peer's slice into a slot of that peer.
//   2. Reduce: it adds up chunk j - lag of its own slice, from its input and the peers' slots,
//      stores the result and pushes it on, into a slot of every peer.
//   3. Gather: it copies the peers' results, chunks j - 2 lag, from slots to its output.
// Before them it waits for all that the three need; after them it signals all that it has sent and
// used. So a step has one wait and one release, and the block works on some chunks while others are
// on their way.
//
// A block uses its own channels (algorithms/blocks/channels/channel.hpp proves that slots may be
// used again): way 0 for the scatter, way 1 for results.
//
// Why it can't deadlock. Step j waits for chunks that peers send in their steps j - lag, and for
// slots that they empty in their step j - slots + lag at the latest. With 1 <= lag < slots, both
// are earlier than step j. So of all blocks with one number, the block in the least step can go on.
//
// In place is safe. The scatter reads chunk j of the peers' slices in step j. Results go to the
// same places in later steps, after a `sync`. A pack of the own slice is read and written by one
// thread.
//
// All ranks get the same bits: one rank sums a slice, in rank order. Two ranks that sum everything
// do so in the same order.
//
// Cost: two hops (one for two ranks), then 2 (n - 1) / n * bytes out of each rank; chunks are
// pipelined.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/stream/plan.hpp"
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pair.hpp"

namespace plait::stream {

using Types = InRuns<AllReducedTypes>;

struct Args {
  Channels channels;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Plan plan;
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

/// `Tree`: terms are added in a tree.
template <class T, class D, bool Tree>
class Stream {
 public:
  PLAIT_DEVICE Stream(D& dev, const Args& a)
      : dev_(dev),
        a_(a),
        rank_(a.channels.rank),
        ranks_(a.channels.ranks),
        channels_(a.channels, dev.block()),
        in_(static_cast<const T*>(a.send), a.count),
        out_(static_cast<T*>(a.recv), a.count),
        reducer_(a.reduction),
        stripe_(a.plan.stripes.at(dev.block())),
        chunks_(a.plan.chunks.count(stripe_)) {}

  PLAIT_DEVICE void run() {
    if constexpr (is_untyped<T> || Tree) {  // trees have one loop: less code
      run_ranks<0>();
    } else {
      switch (ranks_) {
        case 2:
          return run_ranks<2>();
        case 4:
          return run_ranks<4>();
        case 8:
          return run_ranks<8>();
        default:
          run_ranks<0>();
      }
    }
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  static constexpr unsigned scattering = 0, gathering = 1;  // ways of the channels
  /// The packs that a thread moves at once, of all peers together. Sums of 8-bit elements take four
  /// times their space.
  static constexpr int in_flight = D::pack_bytes >= 64 ? 1 : sizeof(T) == 1 ? 4 : 8;

  /// `Ranks`: the number of ranks, or 0 for any number.
  template <int Ranks>
  PLAIT_DEVICE void run_ranks() {
    const std::uint32_t lag = a_.plan.lag;
    const bool gathers = a_.plan.has_results;
    const std::uint32_t steps = chunks_ == 0 ? 0 : chunks_ + (gathers ? 2 * lag : lag);
    for (std::uint32_t j = 0; j < steps; ++j) {
      if (!ready(j, gathers)) return;
      if (j < chunks_) scatter<Ranks>(j);
      if (j - lag < chunks_) {  // unsigned: false below lag
        if constexpr (is_untyped<T>) {
          reduce_run(j - lag);
        } else {
          reduce<Ranks>(j - lag);
        }
      }
      if (gathers && j - 2 * lag < chunks_) gather<Ranks>(j - 2 * lag);
      announce(j, gathers);
    }
    finish(gathers);
  }

  /// Chunk k of this block's stripe of a slice, in packs of the message.
  PLAIT_DEVICE Range chunk(int slice, std::uint32_t k) const {
    return in_packs<D::pack_bytes>(a_.plan.chunk(slice, stripe_, k));
  }
  PLAIT_DEVICE int own_slice() const { return a_.plan.has_results ? rank_ : 0; }
  PLAIT_DEVICE int slice_for(int peer) const { return a_.plan.has_results ? peer : 0; }
  PLAIT_DEVICE int peer_at(unsigned i) const {
    return rank_after(rank_, static_cast<int>(i) + 1, ranks_);
  }

  /// Calls body(way, peer, sending, k) for the channel ends that step j uses, where k is the chunk
  /// of that end. The ends are spread over the threads.
  template <class Body>
  PLAIT_DEVICE void for_each_end(std::uint32_t j, bool gathers, Body body) {
    const auto peers = static_cast<unsigned>(ranks_ - 1);
    for (unsigned i = dev_.thread(); i < (gathers ? 4 : 2) * peers; i += dev_.threads()) {
      const unsigned way = i / peers / 2;
      const bool sending = i / peers % 2 == 0;
      const std::uint32_t k = j - (way + (sending ? 0 : 1)) * a_.plan.lag;
      if (k < chunks_) body(way, peer_at(i % peers), sending, k);
    }
  }

  PLAIT_DEVICE bool ready(std::uint32_t j, bool gathers) {
    bool ok = true;
    for_each_end(j, gathers, [&](unsigned way, int peer, bool sending, std::uint32_t k) {
      if (!ok) return;
      const ChannelWait wait =
          sending ? channels_.may_send(way, peer, k) : channels_.has_arrived(way, peer, k);
      ok = dev_.wait(wait.word, wait.at_least, {peer, j});
    });
    return dev_.all(ok);
  }

  PLAIT_DEVICE void announce(std::uint32_t j, bool gathers) {
    if (a_.channels.notes != nullptr)
      for_each_end(j, gathers, [&](unsigned way, int peer, bool sending, std::uint32_t k) {
        if (!sending) return;
        const Range sent = chunk(way == gathering ? own_slice() : slice_for(peer), k);
        channels_.note(way, peer, k, sent.size() * sizeof(P));
      });
    dev_.sync();  // all threads have written what is published, and read what is consumed
    for_each_end(j, gathers, [&](unsigned way, int peer, bool sending, std::uint32_t k) {
      const ChannelSignal signal =
          sending ? channels_.publish(way, peer, k) : channels_.consume(way, peer, k);
      dev_.signal(signal.word, signal.value);
    });
  }

  PLAIT_DEVICE void finish(bool gathers) {
    dev_.sync();  // all threads have read the counters
    const auto peers = static_cast<unsigned>(ranks_ - 1);
    for (unsigned i = dev_.thread(); i < (gathers ? 2 : 1) * peers; i += dev_.threads()) {
      channels_.advance_sent(i / peers, peer_at(i % peers), chunks_);
      channels_.advance_received(i / peers, peer_at(i % peers), chunks_);
    }
  }

  template <int Ranks>
  PLAIT_DEVICE void scatter(std::uint32_t k) {
    move<Ranks, true>(k);
  }
  template <int Ranks>
  PLAIT_DEVICE void gather(std::uint32_t k) {
    move<Ranks, false>(k);
  }
  template <int Ranks, bool ToSlots>
  PLAIT_DEVICE void move(std::uint32_t k) {
    if constexpr (is_untyped<T>) {
      exchange_runs<ToSlots>(k);
    } else {
      exchange<Ranks, ToSlots>(k);
    }
  }

  /// `exchange`, each chunk as a run.
  template <bool ToSlots>
  PLAIT_DEVICE void exchange_runs(std::uint32_t k) {
    for (unsigned s = 0; s + 1 < static_cast<unsigned>(ranks_); ++s) {
      const int peer = peer_at(s);
      const Range range = chunk(slice_for(peer), k);
      if constexpr (ToSlots) {
        fill_slot<1>(dev_, in_, range, channels_.template outgoing<P>(scattering, peer, k));
      } else {
        empty_slot<1>(dev_, channels_.template incoming<P>(gathering, peer, k), out_, range);
      }
    }
  }

  /// Copies chunk k of all peers' slices from the input to slots, or from slots to the output.
  template <int Ranks, bool ToSlots>
  PLAIT_DEVICE void exchange(std::uint32_t k) {
    for_peers<Ranks>([&]<int Peers>(unsigned first) {
      const P* from[Peers];
      P* to[Peers];
      Range range[Peers], whole[Peers];
      PLAIT_UNROLL
      for (int s = 0; s < Peers; ++s) {
        const int peer = peer_at(first + static_cast<unsigned>(s));
        range[s] = chunk(slice_for(peer), k);
        if constexpr (ToSlots) {
          from[s] = in_.packs() + range[s].begin;
          to[s] = channels_.template outgoing<P>(scattering, peer, k);
          whole[s] = {range[s].begin, range[s].begin + in_.whole_in(range[s])};
        } else {
          from[s] = channels_.template incoming<P>(gathering, peer, k);
          to[s] = out_.packs() + range[s].begin;
          whole[s] = {range[s].begin, range[s].begin + out_.whole_in(range[s])};
        }
      }
      copy_whole(from, to, whole);
      PLAIT_UNROLL
      for (int s = 0; s < Peers; ++s) {
        for (std::size_t i = whole[s].end + dev_.thread(); i < range[s].end; i += dev_.threads()) {
          if constexpr (ToSlots) {
            dev_.store(to[s] + (i - range[s].begin), in_.load(dev_, i));
          } else {
            out_.store(dev_, i, dev_.load(from[s] + (i - range[s].begin)));
          }
        }
      }
    });
  }

  /// Calls body for all peers at once where their number is known, else for one after another.
  template <int Ranks, class Body>
  PLAIT_DEVICE void for_peers(Body body) {
    if constexpr (Ranks == 0) {
      for (unsigned s = 0; s + 1 < static_cast<unsigned>(ranks_); ++s)
        body.template operator()<1>(s);
    } else {
      body.template operator()<Ranks - 1>(0);
    }
  }

  /// Copies complete, aligned packs of several chunks at once.
  template <int Peers>
  PLAIT_DEVICE void copy_whole(const P* const (&from)[Peers], P* const (&to)[Peers],
                               const Range (&range)[Peers]) {
    constexpr int unroll = in_flight / Peers > 1 ? in_flight / Peers : 1;
    std::uint32_t most = 0;
    PLAIT_UNROLL
    for (int s = 0; s < Peers; ++s)
      if (range[s].size() > most) most = static_cast<std::uint32_t>(range[s].size());
    for (std::uint32_t i = dev_.thread(); i < most; i += unroll * dev_.threads()) {
      P packs[Peers][unroll];
      PLAIT_UNROLL
      for (int s = 0; s < Peers; ++s) {
        PLAIT_UNROLL
        for (int u = 0; u < unroll; ++u)
          if (i + u * dev_.threads() < range[s].size())
            packs[s][u] = dev_.load(from[s] + i + u * dev_.threads());
      }
      PLAIT_UNROLL
      for (int s = 0; s < Peers; ++s) {
        PLAIT_UNROLL
        for (int u = 0; u < unroll; ++u)
          if (i + u * dev_.threads() < range[s].size())
            dev_.store(to[s] + i + u * dev_.threads(), packs[s][u]);
      }
    }
  }

  /// Reduces chunk k of the own slice.
  template <int Ranks>
  PLAIT_DEVICE void reduce(std::uint32_t k) {
    const Range range = chunk(own_slice(), k);
    const auto size = static_cast<std::uint32_t>(range.size());
    const std::uint32_t step = dev_.threads();
    std::uint32_t i = dev_.thread();
    if constexpr (Ranks != 0) {
      constexpr int unroll = in_flight / Ranks > 1 ? in_flight / Ranks : 1;
      const std::uint32_t whole = both_whole(in_.whole_in(range), out_.whole_in(range));
      const P* from[Ranks];
      P* to[Ranks];
      PLAIT_UNROLL
      for (int r = 0; r < Ranks; ++r) {
        from[r] = r == rank_ ? in_.packs() + range.begin
                             : channels_.template incoming<P>(scattering, r, k);
        to[r] = destination(r, range, k);
      }
      for (; i + (unroll - 1) * step < whole; i += unroll * step)
        reduce_whole<Ranks, unroll>(from, to, i);
      for (; i < whole; i += step) reduce_whole<Ranks, 1>(from, to, i);
    }
    for (; i < size; i += step) reduce_one(range, k, i);
  }

  PLAIT_DEVICE void reduce_run(std::uint32_t k) {
    const Range range = chunk(own_slice(), k);
    const std::size_t begin = range.begin * sizeof(P);
    if (range.size() == 0) return;
    reducer_.sum(
        dev_, {0, range.size()}, in_.count() - begin, ranks_, ranks_,
        [&](int r) {
          return r == rank_ ? in_.packs() + range.begin
                            : channels_.template incoming<P>(scattering, r, k);
        },
        a_.plan.has_results ? ranks_ : 1,
        [&](int step) { return destination(rank_after(rank_, step, ranks_), range, k); }, true);
  }

  /// Where the result of the own chunk goes at rank r; null if the rank needs none.
  PLAIT_DEVICE P* destination(int r, const Range& range, std::uint32_t k) const {
    if (r == rank_) return out_.packs() + range.begin;
    return a_.plan.has_results ? channels_.template outgoing<P>(gathering, r, k) : nullptr;
  }

  template <int Ranks, int Unroll>
  PLAIT_DEVICE void reduce_whole(const P* const (&from)[Ranks], P* const (&to)[Ranks],
                                 std::uint32_t i) {
    P packs[Ranks][Unroll];
    PLAIT_UNROLL
    for (int r = 0; r < Ranks; ++r) {
      PLAIT_UNROLL
      for (int u = 0; u < Unroll; ++u) packs[r][u] = dev_.load(from[r] + i + u * dev_.threads());
    }
    using Sum = decltype(reducer_.start(packs[0][0]));
    Sum sum[Unroll];
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) sum[u] = reducer_.start(packs[0][u]);
    PLAIT_UNROLL
    for (int r = 1; r < Ranks; ++r) reducer_.add_each(sum, packs[r]);
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[0][u] = reducer_.template finish<sizeof(P)>(sum[u]);
    PLAIT_UNROLL
    for (int r = 0; r < Ranks; ++r)
      if (to[r] != nullptr) {
        PLAIT_UNROLL
        for (int u = 0; u < Unroll; ++u) dev_.store(to[r] + i + u * dev_.threads(), packs[0][u]);
      }
  }

  /// Reduces one pack, perhaps the last and partial one, for any number of ranks and any alignment.
  PLAIT_DEVICE void reduce_one(const Range& range, std::uint32_t k, std::uint32_t i) {
    const auto term = [&](int r) PLAIT_INLINED {
      return r == rank_ ? in_.load(dev_, range.begin + i)
                        : dev_.load(channels_.template incoming<P>(scattering, r, k) + i);
    };
    const P result =
        Tree ? sum_in_tree<P>(reducer_, ranks_, term) : sum_in_turn<P>(reducer_, ranks_, term);
    out_.store(dev_, range.begin + i, result);
    if (!a_.plan.has_results) return;
    for (unsigned s = 0; s + 1 < static_cast<unsigned>(ranks_); ++s) {
      dev_.store(channels_.template outgoing<P>(gathering, peer_at(s), k) + i, result);
    }
  }

  D& dev_;
  const Args& a_;
  int rank_, ranks_;
  BlockChannels channels_;
  Packs<const T, D::pack_bytes> in_;
  Packs<T, D::pack_bytes> out_;
  Reducer<T> reducer_;
  Range stripe_;
  std::uint32_t chunks_;
};

template <class T>
struct Kernel {
  template <bool Tree>
  struct Adding {
    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const Args& a) {
      Stream<T, D, Tree>(dev, a).run();
    }
  };
  using Cases = std::conditional_t<Reducer<T>::has_trees, TypeList<Adding<false>, Adding<true>>,
                                   TypeList<Adding<false>>>;
  static unsigned case_of(const Args& a) {
    return Reducer<T>::has_trees && a.reduction.tree ? 1 : 0;
  }
};

}  // namespace plait::stream
