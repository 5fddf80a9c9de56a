// One-shot all-reduce in marked data: one hop, no flags, no barrier, any memory.
//
// The message is cut into one stripe per block, and a stripe into rounds of at most `lane` units of
// 16 bytes. For each round, a thread
//   1. sends its units to every peer;
//   2. takes the same units of all peers, adds them to its own in rank order and stores the result.
// Step 1 of a round comes before step 2 of the one before it, so that the links do not rest while a
// round ends.
//
// Cost: one hop. (n - 1) * bytes leave each rank.
// Resources: 4 sets * blocks * (n - 1) lanes of slots, one counter per block.
//
// Why no barrier is needed: algorithms/blocks/flags/marked.hpp, where S is 1 and R is 2. A round
// has a unit, so every rank sends to every peer.
//
// In place is safe: a thread sends and loads an input before it stores the result there. No other
// thread handles its units.
#pragma once
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::oneshot_sentinel {

using Types = MarkedTypes;
using Args = MarkedArgs;

template <class T, int Ranks, class D>
class Oneshot {
 public:
  PLAIT_DEVICE Oneshot(D& dev, const Args& a) : x_(dev, a) {}

  PLAIT_DEVICE void run() { x_.run(x_.a.lane, *this); }

  PLAIT_DEVICE void send(Range round, std::uint32_t number) {
    for (std::uint32_t i = x_.dev.thread(); i < round.size(); i += depth * x_.dev.threads()) {
      Pack own[depth];
      load(round, i, own);
      PLAIT_UNROLL
      for (int d = 0; d < depth; ++d) {
        if (x_.place(i, d) >= round.size()) break;
        const Marked data = marked<T>(own[d]);
        for_each_peer<Ranks>(x_.a.rank, x_.a.ranks, [&](int peer) {
          x_.dev.put(x_.slot(peer, number, x_.own_lane(peer), x_.place(i, d)), data);
        });
      }
    }
  }

  PLAIT_DEVICE bool take(Range round, std::uint32_t number) {
    for (std::uint32_t i = x_.dev.thread(); i < round.size(); i += depth * x_.dev.threads())
      if (!reduce(round, number, i)) return false;
    return true;
  }

 private:
  using Exchange = MarkedExchange<T, Ranks, D>;
  using Pack = MarkedPack<T>;
  using Sum = typename Exchange::Sum;
  static constexpr int depth = Exchange::depth, together = Exchange::together;

  PLAIT_DEVICE void load(Range round, std::uint32_t i, Pack (&own)[depth]) const {
    PLAIT_UNROLL
    for (int d = 0; d < depth; ++d)
      own[d] = x_.load(round.begin + x_.place(i, d), x_.place(i, d) < round.size());
  }

  /// Units i, i + threads, ..., `depth` of them.
  PLAIT_DEVICE bool reduce(Range round, std::uint32_t number, std::uint32_t i) {
    const int rank = x_.a.rank, n = x_.ranks();
    const auto wanted = [&](int writer, std::uint32_t at) {
      return writer < n && writer != rank && at < round.size();
    };
    Pack own[depth];
    load(round, i, own);
    Marked data[depth * together];
    if constexpr (Ranks == 0) {
      Sum sum;
      for (int begin = 0; begin < n; begin += together) {
        if (!x_.take(number, 0, i, begin, data, wanted)) return false;
        x_.add(sum, begin, own[0], data);
      }
      store(round, i, sum);
    } else {
      if (!x_.take(number, 0, i, 0, data, wanted)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < depth; ++d) {
        Sum sum;
        x_.add(sum, 0, own[d], data + d * together);
        store(round, x_.place(i, d), sum);
      }
    }
    x_.empty(number, 0, i, wanted);
    return true;
  }
  PLAIT_DEVICE void store(Range round, std::uint32_t i, const Sum& sum) {
    if (i < round.size()) x_.recv.store(x_.dev, round.begin + i, x_.finish(sum));
  }

  Exchange x_;
};

template <class T>
struct Kernel : MarkedKernel<T, Oneshot> {};

}  // namespace plait::oneshot_sentinel
