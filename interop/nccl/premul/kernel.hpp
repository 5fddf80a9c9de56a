// Multiplies a rank's elements by its own factor, ahead of the reduction: ncclRedOpCreatePreMulSum.
// The product has the type of the data: integers wrap, and floats round once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/numeric.hpp"

namespace plait::premul {

using Types = ReducedTypes;

struct Args {
  const void* from = nullptr;  // `count` elements, aligned to their size
  void* to = nullptr;          // the same, or disjoint
  std::size_t count = 0;
  const void* factor = nullptr;  // in device memory, read when the kernel runs; null: `bits`
  std::uint64_t bits = 0;        // the factor's, in the lowest bytes
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const T factor = a.factor != nullptr ? *static_cast<const T*>(a.factor)
                                         : bits_as<T>(static_cast<Bits>(a.bits));
    const Packs<const T, D::pack_bytes> from(static_cast<const T*>(a.from), a.count);
    const Packs<T, D::pack_bytes> to(static_cast<T*>(a.to), a.count);
    const Range range = Partition::of(from.size(), dev.blocks()).at(dev.block());
    for_packs<packs_in_flight<T, D>>(
        dev, static_cast<std::uint32_t>(range.size()),
        both_whole(from.whole_in(range), to.whole_in(range)),
        [&]<int Count, bool Whole>(std::uint32_t first) {
          Pack<T, D::pack_bytes> packs[Count];
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u)
            packs[u] = load_pack<Whole>(dev, from, range.begin + first + u * dev.threads());
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u)
            for (T& element : packs[u].lane)
              element = narrow<T>(static_cast<Accumulated<T>>(widen(element) * widen(factor)));
          PLAIT_UNROLL
          for (int u = 0; u < Count; ++u)
            store_pack<Whole>(dev, to, range.begin + first + u * dev.threads(), packs[u]);
        });
  }

 private:
  using Bits = std::conditional_t<
      sizeof(T) == 1, std::uint8_t,
      std::conditional_t<sizeof(T) == 2, std::uint16_t,
                         std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
};

}  // namespace plait::premul
