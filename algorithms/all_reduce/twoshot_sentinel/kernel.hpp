// Two-shot all-reduce in marked data: two hops, no flags, no barrier, any memory.
//
// The message is cut into one stripe per block, a stripe into rounds, and a round into n slices of
// at most `lane` units of 16 bytes. For each round, a thread
//   1. scatters: sends its units of slice p to rank p, for every peer p;
//   2. reduces: takes all peers' units of the rank's own slice, adds them to its own in rank order,
//      sends the result to every peer and stores it;
//   3. gathers: takes the results of all other slices and stores them.
// The scatter of a round comes before the reduction of the one before it, so that the links do not
// rest while a round ends.
//
// Cost: two hops. 2 (n - 1) / n * bytes leave each rank.
// Resources: 4 sets * blocks * 2 (n - 1) lanes of slots, one counter per block.
//
// Why no barrier is needed: algorithms/blocks/flags/marked.hpp. A unit says itself that it has
// arrived. S is 1, R is 2 and 3. Every rank sends to every peer in 1, because a slice has a unit
// even if the message ends before it: a unit of zeros, which is taken and not stored.
//
// In place is safe: a thread sends all its inputs of a round in 1, and loads those of its own slice
// in 2, before it stores a result there. No other thread handles its units.
#pragma once
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::twoshot_sentinel {

using Types = MarkedTypes;
using Args = MarkedArgs;

template <class T, int Ranks, class D>
class Twoshot {
 public:
  PLAIT_DEVICE Twoshot(D& dev, const Args& a) : x_(dev, a) {}

  PLAIT_DEVICE void run() { x_.run(x_.a.lane * static_cast<std::uint32_t>(x_.ranks()), *this); }

  PLAIT_DEVICE void send(Range round, std::uint32_t number) {
    const std::uint32_t each = each_of(round), step = x_.dev.threads();
    for (std::uint32_t i = x_.dev.thread(); i < each; i += depth * step) {
      if constexpr (Ranks == 0) {
        for_each_peer<0>(x_.a.rank, x_.a.ranks, [&](int peer) {
          scatter(number, peer, i, x_.load(unit(round, peer, i), has(round, peer, i)));
        });
      } else {
        Pack units[depth][Ranks];
        PLAIT_UNROLL
        for (int d = 0; d < depth; ++d) {
          const std::uint32_t at = i + static_cast<unsigned>(d) * step;
          PLAIT_UNROLL
          for (int s = 1; s < Ranks; ++s) {
            const int peer = (x_.a.rank + s) & (Ranks - 1);
            units[d][s] = x_.load(unit(round, peer, at), at < each && has(round, peer, at));
          }
        }
        PLAIT_UNROLL
        for (int d = 0; d < depth; ++d) {
          const std::uint32_t at = i + static_cast<unsigned>(d) * step;
          if (at >= each) break;
          PLAIT_UNROLL
          for (int s = 1; s < Ranks; ++s)
            scatter(number, (x_.a.rank + s) & (Ranks - 1), at, units[d][s]);
        }
      }
    }
  }

  PLAIT_DEVICE bool take(Range round, std::uint32_t number) {
    const std::uint32_t each = each_of(round), step = x_.dev.threads();
    for (std::uint32_t i = x_.dev.thread(); i < each; i += depth * step)
      if (!reduce(round, number, i, each)) return false;
    for (std::uint32_t i = x_.dev.thread(); i < each; i += depth * step)
      if (!gather(round, number, i, each)) return false;
    return true;
  }

 private:
  using Exchange = MarkedExchange<T, Ranks, D>;
  using Pack = MarkedPack<T>;
  using Sum = typename Exchange::Sum;
  static constexpr int depth = Exchange::depth, together = Exchange::together;

  PLAIT_DEVICE std::uint32_t each_of(Range round) const {
    const auto n = static_cast<std::uint32_t>(x_.ranks());
    return (static_cast<std::uint32_t>(round.size()) + n - 1) / n;
  }
  PLAIT_DEVICE std::size_t unit(Range round, int slice, std::uint32_t i) const {
    return round.begin + static_cast<unsigned>(slice) * each_of(round) + i;
  }
  PLAIT_DEVICE bool has(Range round, int slice, std::uint32_t i) const {
    return unit(round, slice, i) < round.end;
  }

  PLAIT_DEVICE void scatter(std::uint32_t number, int peer, std::uint32_t i, const Pack& data) {
    x_.dev.put(x_.slot(peer, number, x_.own_lane(peer), i), marked<T>(data));
  }

  /// Units i, i + threads, ... of this rank's slice, `depth` of them.
  PLAIT_DEVICE bool reduce(Range round, std::uint32_t number, std::uint32_t i, std::uint32_t each) {
    const int rank = x_.a.rank, n = x_.ranks();
    const auto wanted = [&](int writer, std::uint32_t at) {
      return writer < n && writer != rank && at < each;
    };
    Pack own[depth];
    PLAIT_UNROLL
    for (int d = 0; d < depth; ++d) {
      const std::uint32_t at = x_.place(i, d);
      own[d] = x_.load(unit(round, rank, at), at < each && has(round, rank, at));
    }
    Marked data[depth * together];
    if constexpr (Ranks == 0) {
      Sum sum;
      for (int begin = 0; begin < n; begin += together) {
        if (!x_.take(number, 0, i, begin, data, wanted)) return false;
        x_.add(sum, begin, own[0], data);
      }
      publish(round, number, i, each, sum);
    } else {
      if (!x_.take(number, 0, i, 0, data, wanted)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < depth; ++d) {
        Sum sum;
        x_.add(sum, 0, own[d], data + d * together);
        publish(round, number, x_.place(i, d), each, sum);
      }
    }
    x_.empty(number, 0, i, wanted);
    return true;
  }
  PLAIT_DEVICE void publish(Range round, std::uint32_t number, std::uint32_t i, std::uint32_t each,
                            const Sum& sum) {
    const int rank = x_.a.rank;
    if (i >= each || !has(round, rank, i)) return;
    const Pack result = x_.finish(sum);
    for_each_peer<Ranks>(rank, x_.a.ranks, [&](int peer) {
      x_.dev.put(x_.slot(peer, number, results() + x_.own_lane(peer), i), marked_result<T>(result));
    });
    x_.recv.store(x_.dev, unit(round, rank, i), result);
  }

  /// Units i, i + threads, ... of all other slices.
  PLAIT_DEVICE bool gather(Range round, std::uint32_t number, std::uint32_t i, std::uint32_t each) {
    const int rank = x_.a.rank, n = x_.ranks();
    const auto wanted = [&](int writer, std::uint32_t at) {
      return writer < n && writer != rank && at < each && has(round, writer, at);
    };
    for (int begin = 0; begin < n; begin += together) {
      Marked data[depth * together];
      if (!x_.take(number, results(), i, begin, data, wanted)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < depth; ++d) {
        PLAIT_UNROLL
        for (int j = 0; j < together; ++j) {
          if (wanted(begin + j, x_.place(i, d)))
            x_.recv.store(x_.dev, unit(round, begin + j, x_.place(i, d)),
                          unmarked<T>(data[d * together + j]));
        }
      }
    }
    x_.empty(number, results(), i, wanted);
    return true;
  }

  /// The first lane of results.
  PLAIT_DEVICE std::uint32_t results() const { return static_cast<std::uint32_t>(x_.ranks() - 1); }

  Exchange x_;
};

template <class T>
struct Kernel : MarkedKernel<T, Twoshot> {};

}  // namespace plait::twoshot_sentinel
