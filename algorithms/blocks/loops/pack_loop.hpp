// Loops of a block's threads over packs that lie side by side.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/untyped.hpp"

namespace plait {

/// Packs of T that a thread has in flight. Fewer for 8-bit elements, whose sums take four times
/// their room, and for 16-bit integers, which GPUs unpack one by one: `chain` would spill.
template <class T, class D>
inline constexpr int packs_in_flight = D::pack_bytes >= 64                                  ? 1
                                       : sizeof(T) == 1 || std::is_same_v<T, std::uint16_t> ? 2
                                                                                            : 4;

/// Calls body<Count, Whole>(i) until it has covered this thread's share of `size` packs; each call
/// is for the Count packs i, i + threads, ... The first `whole` packs are complete and aligned.
template <int InFlight, class D, class Body>
PLAIT_DEVICE void for_packs(D& dev, std::uint32_t size, std::uint32_t whole, Body body) {
  const std::uint32_t stride = dev.threads();
  std::uint32_t i = dev.thread();
  for (; i + (InFlight - 1) * stride < whole; i += InFlight * stride)
    body.template operator()<InFlight, true>(i);
  for (; i < whole; i += stride) body.template operator()<1, true>(i);
  for (; i < size; i += stride) body.template operator()<1, false>(i);
}

/// The packs that are complete and aligned on both sides.
PLAIT_DEVICE constexpr std::uint32_t both_whole(std::uint32_t one, std::uint32_t other) {
  return one < other ? one : other;
}

/// Pack i of a buffer, for bodies of `for_packs`.
template <bool Whole, class D, class T, std::size_t Bytes>
PLAIT_DEVICE auto load_pack(D& dev, const Packs<T, Bytes>& source, std::size_t i) {
  if constexpr (Whole) {
    return dev.load(source.packs() + i);
  } else {
    return source.load(dev, i);
  }
}
template <bool Whole, class D, class T, std::size_t Bytes>
PLAIT_DEVICE void store_pack(D& dev, const Packs<T, Bytes>& target, std::size_t i,
                             const typename Packs<T, Bytes>::P& pack) {
  if constexpr (Whole) {
    dev.store(target.packs() + i, pack);
  } else {
    target.store(dev, i, pack);
  }
}

/// Stores packs i, i + threads, ... of a buffer.
template <bool Whole, class D, class T, std::size_t Bytes, int Count>
PLAIT_DEVICE void store_packs(D& dev, const Packs<T, Bytes>& target, std::size_t i,
                              const Pack<T, Bytes> (&packs)[Count]) {
  PLAIT_UNROLL
  for (int u = 0; u < Count; ++u)
    store_pack<Whole>(dev, target, i + std::size_t(u) * dev.threads(), packs[u]);
}

/// Copies the packs `range` of a buffer into a slot, where they begin at pack 0.
template <int InFlight, class D, class T, std::size_t Bytes>
PLAIT_DEVICE void fill_slot(D& dev, const Packs<const T, Bytes>& from, const Range& range,
                            Pack<T, Bytes>* slot) {
  if constexpr (is_untyped<T>) {
    if (range.size() != 0)
      copy_run(dev, from.packs() + range.begin, slot, range.size(),
               from.count() - range.begin * D::pack_bytes);
  } else {
    for_packs<InFlight>(dev, static_cast<std::uint32_t>(range.size()), from.whole_in(range),
                        [&]<int Count, bool Whole>(std::uint32_t first) {
                          Pack<T, Bytes> packs[Count];
                          PLAIT_UNROLL
                          for (int u = 0; u < Count; ++u)
                            packs[u] = load_pack<Whole>(dev, from,
                                                        range.begin + first + u * dev.threads());
                          PLAIT_UNROLL
                          for (int u = 0; u < Count; ++u)
                            dev.store(slot + first + u * dev.threads(), packs[u]);
                        });
  }
}
/// Copies them from a slot into a buffer.
template <int InFlight, class D, class T, std::size_t Bytes>
PLAIT_DEVICE void empty_slot(D& dev, const Pack<T, Bytes>* slot, const Packs<T, Bytes>& to,
                             const Range& range) {
  if constexpr (is_untyped<T>) {
    if (range.size() != 0)
      copy_run(dev, slot, to.packs() + range.begin, range.size(),
               to.count() - range.begin * D::pack_bytes);
  } else {
    for_packs<InFlight>(dev, static_cast<std::uint32_t>(range.size()), to.whole_in(range),
                        [&]<int Count, bool Whole>(std::uint32_t first) {
                          Pack<T, Bytes> packs[Count];
                          PLAIT_UNROLL
                          for (int u = 0; u < Count; ++u)
                            packs[u] = dev.load(slot + first + u * dev.threads());
                          PLAIT_UNROLL
                          for (int u = 0; u < Count; ++u)
                            store_pack<Whole>(dev, to, range.begin + first + u * dev.threads(),
                                              packs[u]);
                        });
  }
}

/// Copies the packs `range` of one buffer to the same place in another.
template <int InFlight, class D, class T, std::size_t Bytes>
PLAIT_DEVICE void copy_packs(D& dev, const Packs<const T, Bytes>& from, const Packs<T, Bytes>& to,
                             const Range& range) {
  if constexpr (is_untyped<T>) {
    if (range.size() != 0)
      copy_run(dev, from.packs() + range.begin, to.packs() + range.begin, range.size(),
               from.count() - range.begin * D::pack_bytes);
  } else {
    for_packs<InFlight>(
        dev, static_cast<std::uint32_t>(range.size()),
        both_whole(from.whole_in(range), to.whole_in(range)),
        [&]<int Count, bool Whole>(std::uint32_t first) {
          Pack<T, Bytes> packs[Count];
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u)
            packs[u] = load_pack<Whole>(dev, from, range.begin + first + u * dev.threads());
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u)
            store_pack<Whole>(dev, to, range.begin + first + u * dev.threads(), packs[u]);
        });
  }
}

}  // namespace plait
