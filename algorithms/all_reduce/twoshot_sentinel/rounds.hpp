// What two-shot all-reduces in marked data have in common: slices, and the first hop.
#pragma once
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::twoshot_sentinel {

/// Rounds (`MarkedExchange::run`) of n slices each, one for each rank. `Own` is the class derived
/// from this. It has `phases` and `take`, of which the first phase is `reduce`, and
///   load<Whole>(round, slice, i)
///       the bits of this rank's unit, or any if it is beyond the end of the round;
///   publish<Whole>(round, number, i, result)
///       delivers the sum of this rank's slice at place i, to all ranks and to itself.
template <class Own, class T, int Ranks, class D>
class Rounds {
 public:
  PLAIT_DEVICE Rounds(D& dev, const MarkedArgs& a) : x_(dev, a) {}

  PLAIT_DEVICE bool run_rounds() {
    return x_.run(x_.a.lane * static_cast<std::uint32_t>(x_.ranks()), own());
  }

  /// Units of a slice. The last slices may be shorter, or empty. All the same, every slice has so
  /// many units: those beyond the end of the round carry any data and are not stored.
  PLAIT_DEVICE std::uint32_t each(Range round) const {
    const auto n = static_cast<std::uint32_t>(x_.ranks());
    return (static_cast<std::uint32_t>(round.size()) + n - 1) / n;
  }

  template <bool Whole, int Depth>
  PLAIT_DEVICE void send(Range round, std::uint32_t number, std::uint32_t i) const {
    x_.template scatter<Whole, Depth>(own(), round, number, i);
  }

 protected:
  using Exchange = MarkedExchange<T, Ranks, D>;
  static constexpr int together = Exchange::together;

  /// Not by `add_taken`: with that, two ranks took 16.5 us instead of 15.6 for 4 MB (2 H100, bf16,
  /// 2026-11-25; the compiler orders the loop otherwise and uses 85 registers instead of 94).
  template <bool Whole, int Depth>
  PLAIT_DEVICE bool reduce(Range round, std::uint32_t number, std::uint32_t i) const {
    Marked mine[Depth];
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d)
      mine[d] = own().template load<Whole>(round, x_.a.rank, x_.place(i, d));
    typename Exchange::template Taken<Depth> data;
    if constexpr (Ranks == 0) {
      typename Exchange::Sum sum;
      for (int begin = 0; begin < x_.a.ranks; begin += together) {
        if (!x_.template take<Depth>(number, false, i, begin, data)) return false;
        x_.add(sum, begin, mine[0], data);
      }
      own().template publish<Whole>(round, number, i, x_.result(sum));
    } else {
      if (!x_.template take<Depth>(number, false, i, 0, data)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < Depth; ++d) {
        typename Exchange::Sum sum;
        x_.add(sum, 0, mine[d], data + d * together);
        own().template publish<Whole>(round, number, x_.place(i, d), x_.result(sum));
      }
    }
    x_.template empty<Depth>(number, false, i);
    return true;
  }

  PLAIT_DEVICE std::size_t unit(Range round, int slice, std::uint32_t i) const {
    return round.begin + static_cast<unsigned>(slice) * each(round) + i;
  }

  Exchange x_;

 private:
  PLAIT_DEVICE const Own& own() const { return static_cast<const Own&>(*this); }
};

/// Two ranks have no code of their own on GPUs: in one shot they move as many bytes, sooner
/// (2 H100, 1 KB to 16 MB, 2026-11-25).
template <template <class, int, class> class Twoshot, class T, class Args>
struct KernelOfRounds : MarkedKernel<Twoshot, T, Args> {
  template <int Ranks>
  using Code = typename MarkedKernel<Twoshot, T, Args>::template Code<Ranks>;

  using Codes = TypeList<Code<4>, Code<8>, Code<0>>;
  static unsigned code(const Args& a) { return a.ranks == 4 ? 0 : a.ranks == 8 ? 1 : 2; }
};

}  // namespace plait::twoshot_sentinel
