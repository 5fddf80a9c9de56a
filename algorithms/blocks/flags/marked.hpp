// Elements that carry their own arrival mark: no flag, all of a slot is data.
//
// A slot is 16 bytes (`Marked`): zero while it is empty. Elements are sent as the complement of
// their bits, so the one pattern that may not be sent is a word of 8 bytes with all bits set. In
// every floating-point type that is a word of NaNs with the sign set. `marked` clears the sign of
// its last element, which leaves a NaN a NaN, and a reduction gives all NaNs one pattern
// (docs/floating-point.md). So no result depends on it, and nothing else is changed: numbers,
// infinities, zeros and subnormal numbers travel as they are. Integers have no such pattern.
//
// The reader empties a slot once it has taken its data, and memory begins zeroed, so no slot has to
// be prepared. Rounds use `sets` sets of slots in turn.
//
// Why a slot is empty when its writer comes again. The unit is a block and the same block of each
// peer. Name what a block does for round r, of whatever call and algorithm:
//
//   S(r)  its threads send units of the round to each peer, at least one each, into set r % 4;
//   R(r)  they take the units that each peer sent in S(r), perhaps send results into set r % 4 and
//         take those of others, and empty each slot that they took from.
//
// A launch does, for its rounds r, r + 1, ...: S(r) S(r + 1) R(r) | S(r + 2) R(r + 1) | S(r + 3)
// ..., where | is a `sync` followed by an `order` in all threads, then the remaining R. Its last
// bars are left out where no S follows. The end of a launch and the beginning of the next one are a
// bar, too. Let p be a peer, and look at a store of this block into p's slot of set r % 4, in S(r)
// or R(r):
//   - p's block emptied that slot in its R(r - 4).
//   - This block has heard p: it took a unit of p's S(r - 2) in its R(r - 2). A bar came between
//     that and the store: S(r) comes after the bar that follows R(r - 2), and R(r) after S(r).
//   - In p's block, a bar came between R(r - 4) and S(r - 2), for the same reason.
// So p's emptying comes before p's bar, p's sending, this block's taking, its bar and the store.
// Each bar is a fence of every thread that stores after it, for all that its block did before it.
// S(r) of a launch's first two rounds has the bar of the launch's beginning: R(r - 2) and, at p,
// R(r - 4) may be parts of earlier launches, and are complete.
//
// The counter of rounds is one per block, in device memory, so that a captured launch advances it
// at every replay. It may wrap, because 2^32 is a multiple of 4. All algorithms that use the slots
// share it, and other algorithms do not touch it or the slots. After an abort or a deadline, slots
// may be half full. Then the communicator is broken, its kernels send and take nothing more, and a
// new communicator has memory of its own, zeroed.
#pragma once
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/loops/rank_loops.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

using MarkedTypes = TypeList<f16, bf16, f8e4m3, f8e5m2, float, double>;

/// The elements of a slot.
template <class T>
using MarkedPack = Pack<T, sizeof(Marked)>;

/// A result of `Reducer`, whose NaNs have a clear sign.
template <class T>
PLAIT_DEVICE Marked marked_result(const MarkedPack<T>& pack) {
  auto data = bits_as<Marked>(pack);
  PLAIT_UNROLL
  for (auto& word : data.word) word = ~word;
  return data;
}
template <class T>
PLAIT_DEVICE Marked marked(const MarkedPack<T>& pack) {
  constexpr std::uint64_t last_sign = std::uint64_t{1} << 63;  // of a word's last element
  Marked data = marked_result<T>(pack);
  PLAIT_UNROLL
  for (auto& word : data.word) word = word == 0 ? last_sign : word;
  return data;
}
template <class T>
PLAIT_DEVICE MarkedPack<T> unmarked(Marked data) {
  PLAIT_UNROLL
  for (auto& word : data.word) word = ~word;
  return bits_as<MarkedPack<T>>(data);
}

/// The slots of a rank: [block][set][slot]. An algorithm divides a set into lanes of equal length,
/// each with one writing rank.
struct MarkedLayout {
  static constexpr unsigned sets = 4;

  std::uint32_t slots;  // per block and set

  PLAIT_DEVICE std::uint32_t set(unsigned block, std::uint32_t round) const {
    return (block * sets + round % sets) * slots;
  }
  constexpr std::size_t all(unsigned blocks) const { return std::size_t{blocks} * sets * slots; }
};

/// One launch of an all-reduce.
struct MarkedArgs {
  WindowView scratch;
  MarkedLayout layout;
  std::uint32_t lane;     // slots of a lane
  std::uint32_t* rounds;  // one counter per block
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Parts stripes;  // of the message's units, one per block
  Reduction reduction;
  int rank, ranks;
};

/// A block's view of a launch. `Ranks`: their number, 0 for any number.
template <class T, int Ranks, class D>
class MarkedExchange {
 public:
  /// Ranks whose units a thread takes at once, at `depth` places of the message: as many as its
  /// registers hold. An element of 8 bits is an f32 during the reduction.
  static constexpr int together = Ranks == 0 ? 4 : Ranks;
  static constexpr int depth = Ranks == 0 || Ranks == 8 ? 1 : 8 / Ranks / (sizeof(T) == 1 ? 2 : 1);
  using Sum = typename Reducer<T>::template Accumulator<MarkedPack<T>::lanes>;

  PLAIT_DEVICE MarkedExchange(D& device, const MarkedArgs& args)
      : dev(device),
        a(args),
        send(static_cast<const T*>(args.send), args.count),
        recv(static_cast<T*>(args.recv), args.count),
        reducer(args.reduction) {}

  PLAIT_DEVICE int ranks() const { return Ranks == 0 ? a.ranks : Ranks; }

  /// Does rounds of at most `most` units in the order that the proof needs. `rounds.send(range,
  /// number)` is S, `rounds.take(range, number)` is R and false if a peer never came.
  template <class Rounds>
  PLAIT_DEVICE void run(std::uint32_t most, Rounds& rounds) {
    const Range stripe = a.stripes.at(dev.block());
    if (stripe.size() == 0) return;
    std::uint32_t number = a.rounds[dev.block()];
    Range next = round(stripe, stripe.begin, most);
    rounds.send(next, number);
    for (;; ++number) {
      const Range now = next;
      const bool more = now.end < stripe.end;
      if (more) {
        next = round(stripe, now.end, most);
        rounds.send(next, number + 1);
      }
      if (!rounds.take(now, number)) return;
      if (!more) break;
      if (next.end < stripe.end) {
        dev.sync();
        dev.order();
      }
    }
    dev.sync();  // all threads of the block have read the counter
    if (dev.thread() == 0) a.rounds[dev.block()] = number + 1;
  }

  /// This rank's lane among a rank's `ranks - 1` lanes, and `writer`'s among this rank's.
  PLAIT_DEVICE std::uint32_t own_lane(int owner) const { return lane_of(a.rank, owner); }
  PLAIT_DEVICE std::uint32_t lane(int writer) const { return lane_of(writer, a.rank); }

  /// Slot i of a lane of `owner`'s slots.
  PLAIT_DEVICE Marked* slot(int owner, std::uint32_t number, std::uint32_t lane,
                            std::uint32_t i) const {
    return reinterpret_cast<Marked*>(a.scratch.peer_ptr(owner)) + index(number, lane, i);
  }
  PLAIT_DEVICE Marked* slot(std::uint32_t number, std::uint32_t lane, std::uint32_t i) const {
    return reinterpret_cast<Marked*>(a.scratch.own) + index(number, lane, i);
  }

  /// A unit of the input; zeros if it is not `there`.
  PLAIT_DEVICE MarkedPack<T> load(std::size_t unit, bool there) const {
    return there ? send.load(dev, unit) : MarkedPack<T>{};
  }

  /// Adds the terms of `together` ranks from `begin` on, in rank order. Peers' terms are in `data`.
  PLAIT_DEVICE void add(Sum& sum, int begin, const MarkedPack<T>& own, const Marked* data) const {
    PLAIT_UNROLL
    for (int j = 0; j < together; ++j) {
      if (Ranks == 0 && begin + j >= a.ranks) break;
      const MarkedPack<T> term = begin + j == a.rank ? own : unmarked<T>(data[j]);
      if (begin + j == 0) sum = reducer.start(term);
      else reducer.add(sum, term);
    }
  }
  PLAIT_DEVICE MarkedPack<T> finish(const Sum& sum) const {
    return reducer.template finish<sizeof(Marked)>(sum);
  }

  /// Takes units i, i + threads, ... (`depth` of them) of `together` writers from `begin` on, in
  /// the lanes from `lanes` on. `wanted(writer, i)`: whether there is such a unit.
  template <class Wanted>
  PLAIT_DEVICE bool take(std::uint32_t number, std::uint32_t lanes, std::uint32_t i, int begin,
                         Marked (&data)[depth * together], Wanted wanted) {
    const Marked* slots[depth * together];
    Waiting who[depth * together];
    unsigned mask = 0;
    PLAIT_UNROLL
    for (int d = 0; d < depth; ++d) {
      PLAIT_UNROLL
      for (int j = 0; j < together; ++j) {
        const int k = d * together + j;
        slots[k] = slot(number, lanes + lane(begin + j), place(i, d));
        who[k] = {begin + j, number};
        if (wanted(begin + j, place(i, d))) mask |= 1u << k;
      }
    }
    return dev.take(slots, data, mask, number + 1, who);
  }
  /// Empties the slots of the same units of all writers.
  template <class Wanted>
  PLAIT_DEVICE void empty(std::uint32_t number, std::uint32_t lanes, std::uint32_t i,
                          Wanted wanted) {
    for_each_peer<Ranks>(a.rank, a.ranks, [&](int writer) {
      PLAIT_UNROLL
      for (int d = 0; d < depth; ++d) {
        if (wanted(writer, place(i, d))) dev.empty(slot(number, lanes + lane(writer), place(i, d)));
      }
    });
  }

  PLAIT_DEVICE std::uint32_t place(std::uint32_t i, int d) const {
    return i + static_cast<unsigned>(d) * dev.threads();
  }

  D& dev;
  const MarkedArgs& a;
  const Packs<const T, sizeof(Marked)> send;
  const Packs<T, sizeof(Marked)> recv;
  const Reducer<T> reducer;

 private:
  PLAIT_DEVICE static Range round(Range stripe, std::size_t begin, std::uint32_t most) {
    return {begin, stripe.end - begin < most ? stripe.end : begin + most};
  }
  PLAIT_DEVICE static std::uint32_t lane_of(int writer, int owner) {
    return static_cast<std::uint32_t>(writer < owner ? writer : writer - 1);
  }
  PLAIT_DEVICE std::uint32_t index(std::uint32_t number, std::uint32_t lane,
                                   std::uint32_t i) const {
    return a.layout.set(dev.block(), number) + lane * a.lane + i;
  }
};

/// The codes of a kernel `Rounds<T, Ranks, D>`, a class of `MarkedExchange` and rounds.
template <class T, template <class, int, class> class Rounds>
struct MarkedKernel {
  template <int Ranks>
  struct Code {
    static constexpr unsigned min_blocks_per_multiprocessor = 1;

    template <Device D>
    PLAIT_DEVICE static void run(D& dev, const MarkedArgs& a) {
      Rounds<T, Ranks, D>(dev, a).run();
    }
  };
  using Codes = TypeList<Code<2>, Code<4>, Code<8>, Code<0>>;
  static unsigned code(const MarkedArgs& a) {
    return a.ranks == 2 ? 0 : a.ranks == 4 ? 1 : a.ranks == 8 ? 2 : 3;
  }
  /// As for packets (LLKernel), only two ranks gain by a code of their own on a host.
  struct OnHost {
    using List = TypeList<Code<2>, Code<0>>;
    static unsigned index(const MarkedArgs& a) { return a.ranks == 2 ? 0 : 1; }
  };
};

}  // namespace plait
