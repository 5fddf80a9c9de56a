// How a chunk travels along a rail.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/untyped.hpp"

namespace plait::rails {

/// In the type of the data. Each thread has the same packs of a chunk in all loops, also in those
/// on the node.
template <class T, class D>
class PlainWire {
 public:
  using P = Pack<T, D::pack_bytes>;
  using Output = Packs<T, D::pack_bytes>;
  static constexpr bool is_coded = false;
  /// The bytes that so many packs of data have in a slot.
  PLAIT_DEVICE static constexpr std::size_t bytes(std::size_t packs) { return packs * sizeof(P); }

  /// Copies the packs `range` of a buffer into the slots slot_to(begin), ..., slot_to(end - 1) but
  /// slot_to(skipped).
  template <class SlotTo>
  PLAIT_DEVICE static void push(D& dev, const Output& data, const Range& range, int begin, int end,
                                int skipped, SlotTo slot_to) {
    const Packs<const T, D::pack_bytes> from(reinterpret_cast<const T*>(data.packs()),
                                             data.count());
    for (int i = begin; i < end; ++i)
      if (i != skipped) fill_slot<in_flight>(dev, from, range, as_packs(slot_to(i)));
  }

  /// Adds the nodes' partial sums, of which node `own` has its own in the buffer, in the order of
  /// the nodes, and stores the result there.
  template <class SlotFrom>
  PLAIT_DEVICE static void add(D& dev, const Reducer<T>& reducer, const Output& data,
                               const Range& range, int nodes, int own, SlotFrom slot_from) {
    if constexpr (is_untyped<T>) {
      P* const at = data.packs() + range.begin;
      if (range.size() != 0)
        reducer.sum(
            dev, {0, range.size()}, data.count() - range.begin * sizeof(P), 0, nodes,
            [&](int node) -> const void* { return node == own ? at : as_packs(slot_from(node)); },
            1, [&](int) { return at; }, true);
    } else {
      for_packs<1>(dev, static_cast<std::uint32_t>(range.size()), data.whole_in(range),
                   [&]<int, bool Whole>(std::uint32_t i) {
                     const auto partial = [&](int node) {
                       return node == own ? load_pack<Whole>(dev, data, range.begin + i)
                                          : dev.load(as_packs(slot_from(node)) + i);
                     };
                     auto sum = reducer.widened(partial(0));
                     for (int node = 1; node < nodes; ++node)
                       reducer.add_partial(sum, partial(node));
                     reducer.average(sum);
                     store_pack<Whole>(dev, data, range.begin + i,
                                       reducer.template rounded<sizeof(P)>(sum));
                   });
    }
  }

  /// Copies a chunk from a slot into the packs `range` of a buffer.
  PLAIT_DEVICE static void pull(D& dev, const std::byte* slot, const Output& data,
                                const Range& range) {
    empty_slot<in_flight>(dev, as_packs(slot), data, range);
  }

 private:
  static constexpr int in_flight = packs_in_flight<T, D>;
  PLAIT_DEVICE static P* as_packs(std::byte* slot) { return reinterpret_cast<P*>(slot); }
  PLAIT_DEVICE static const P* as_packs(const std::byte* slot) {
    return reinterpret_cast<const P*>(slot);
  }
};

}  // namespace plait::rails
