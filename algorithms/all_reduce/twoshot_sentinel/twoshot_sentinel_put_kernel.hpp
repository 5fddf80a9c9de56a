// twoshot_sentinel, but with results that go straight into the outputs: symmetric memory.
//
// For each round, a thread
//   1. scatters: sends its units of slice p to rank p, for every peer p;
//   2. reduces: takes all peers' units of the rank's own slice, adds them to its own in rank order,
//      and stores the result into the outputs of all ranks.
// After its last round, the block
//   3. leaves: a barrier with the same blocks of all ranks. After it, all results have arrived.
//
// Cost: a hop, and a barrier. 2 (n - 1) / n * bytes leave each rank.
// Resources: 4 sets * blocks * (n - 1) lanes of slots, a counter, an epoch and n signals per block.
//
// Why no other barrier is needed. For the slots: algorithms/blocks/flags/marked.hpp, where S is 1
// and R is 2; every slice has a unit, as in twoshot_sentinel. For the outputs: a rank stores a
// result there after it has taken a unit of this call from each rank. So each rank has begun the
// call, and work before it in its stream has ended. In place, the units that a result replaces are
// those that the sum took: each rank had loaded them to send them, and the rank itself loads its
// own before it stores. No other thread handles them, and nothing is loaded for a unit beyond the
// end of a round.
#pragma once
#include "algorithms/all_reduce/twoshot_sentinel/rounds.hpp"
#include "algorithms/blocks/flags/block_peers.hpp"

namespace plait::twoshot_sentinel_put {

using Types = MarkedTypes;

struct Args : MarkedArgs {
  WindowView outputs;
  PeerSignals peers;
};

template <class T, int Ranks, class D>
class Twoshot : public twoshot_sentinel::Rounds<Twoshot<T, Ranks, D>, T, Ranks, D> {
  using Base = twoshot_sentinel::Rounds<Twoshot, T, Ranks, D>;

 public:
  static constexpr int phases = 1;

  PLAIT_DEVICE Twoshot(D& dev, const Args& a) : Base(dev, a), args_(a) {}

  PLAIT_DEVICE void run() {
    if (!this->run_rounds()) return;
    BlockPeers<D> peers(x_.dev, args_.peers);
    if (!peers.barrier()) return;
    peers.finish();
  }

  template <int, bool Whole, int Depth>
  PLAIT_DEVICE bool take(Range round, std::uint32_t number, std::uint32_t i) const {
    return this->template reduce<Whole, Depth>(round, number, i);
  }

  template <bool Whole>
  PLAIT_DEVICE Marked load(Range round, int slice, std::uint32_t i) const {
    const std::size_t wanted = this->unit(round, slice, i);
    Marked bits{};
    if (wanted < round.end) bits = x_.template load<Whole>(wanted);
    return bits;
  }

  template <bool Whole>
  PLAIT_DEVICE void publish(Range round, std::uint32_t, std::uint32_t i, Marked result) const {
    const std::size_t unit = this->unit(round, x_.a.rank, i);
    if (unit >= round.end) return;
    const auto pack = bits_as<MarkedPack<T>>(result);
    PLAIT_UNROLL
    for (int r = 0; r < (Ranks == 0 ? x_.a.ranks : Ranks); ++r) {
      const Packs<T, sizeof(Marked)> output(reinterpret_cast<T*>(args_.outputs.peer_ptr(r)),
                                            x_.a.count);
      if constexpr (Whole) {
        x_.dev.store(output.packs() + unit, pack);
      } else {
        output.store_elements(unit, pack);
      }
    }
  }

 private:
  using Base::x_;
  const Args& args_;
};

template <class T>
struct Kernel : twoshot_sentinel::KernelOfRounds<Twoshot, T, Args> {};

}  // namespace plait::twoshot_sentinel_put
