// Sums of this rank's term in a buffer and of other ranks' in slots, by the threads of a block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"
#include "backends/device/untyped.hpp"

namespace plait {

/// Whose terms are added: those of the first `number` ranks, in their order, of which `own` has its
/// term in the buffer.
struct SlotTerms {
  int own, number;
};

/// Adds the packs `range` of the own buffer and of slots, where they begin at pack 0 of slot_of(r),
/// and stores the sums in `to` from pack `begin` on. `Finished`: as results, else as partial ones.
/// `Tree`: in a tree.
template <bool Finished, bool Tree = false, class T, class D, class SlotOf>
PLAIT_DEVICE void add_slots(D& dev, const Reducer<T>& reducer,
                            const Packs<const T, D::pack_bytes>& own, const Range& range,
                            const Packs<T, D::pack_bytes>& to, std::size_t begin,
                            const SlotTerms& terms, SlotOf slot_of) {
  using P = Pack<T, D::pack_bytes>;
  if constexpr (is_untyped<T>) {
    if (range.size() != 0)
      reducer.sum(
          dev, {0, range.size()}, own.count() - range.begin * sizeof(P), terms.number, terms.number,
          [&](int r) { return r == terms.own ? own.packs() + range.begin : slot_of(r); }, 1,
          [&](int) { return to.packs() + begin; }, Finished);
  } else {
    const std::uint32_t whole =
        both_whole(own.whole_in(range), to.whole_in({begin, begin + range.size()}));
    for_packs<packs_in_flight<T, D>>(
        dev, static_cast<std::uint32_t>(range.size()), whole,
        [&]<int Count, bool Whole>(std::uint32_t first) {
          if constexpr (Tree) {
            for (int u = 0; u < Count; ++u) {
              const std::uint32_t at = first + static_cast<std::uint32_t>(u) * dev.threads();
              const auto term = [&](int r) PLAIT_INLINED {
                return r == terms.own ? load_pack<Whole>(dev, own, range.begin + at)
                                      : dev.load(slot_of(r) + at);
              };
              store_pack<Whole>(dev, to, begin + at, sum_in_tree<P>(reducer, terms.number, term));
            }
            return;
          }
          P packs[Count];
          const auto load = [&](int r) {
            const P* const slot = r == terms.own ? nullptr : slot_of(r);
            PLAIT_UNROLL
            for (int u = 0; u < Count; ++u) {
              const std::uint32_t at = first + u * dev.threads();
              packs[u] = r == terms.own ? load_pack<Whole>(dev, own, range.begin + at)
                                        : dev.load(slot + at);
            }
          };
          load(0);
          using Sum = decltype(reducer.start(packs[0]));
          Sum sum[Count];
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u) sum[u] = reducer.start(packs[u]);
          for (int r = 1; r < terms.number; ++r) {
            load(r);
            reducer.add_each(sum, packs);
          }
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u) {
            if constexpr (Finished) {
              reducer.average(sum[u]);
            }
            store_pack<Whole>(dev, to, begin + first + u * dev.threads(),
                              reducer.template rounded<sizeof(P)>(sum[u]));
          }
        });
  }
}

}  // namespace plait
