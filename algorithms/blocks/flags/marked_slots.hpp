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
// be prepared. Rounds use `sets` sets of slots in turn; marked.hpp proves that a slot is empty when
// its writer comes again.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

using MarkedTypes = TypeList<f16, bf16, f8e4m3, f8e5m2, float, double>;

/// The elements of a slot.
template <class T>
using MarkedPack = Pack<T, sizeof(Marked)>;

/// The bits of elements as they travel. `marked_result` is for results of `Reducer`, whose NaNs
/// have a clear sign.
PLAIT_ELEMENT Marked marked_result(Marked bits) { return {{~bits.word[0], ~bits.word[1]}}; }
PLAIT_ELEMENT Marked marked(Marked bits) {
  constexpr std::uint64_t last_sign = std::uint64_t{1} << 63;  // of a word's last element
  Marked data = marked_result(bits);
  PLAIT_UNROLL
  for (auto& word : data.word) word = word == 0 ? last_sign : word;
  return data;
}
/// The bits of the elements that have come.
PLAIT_ELEMENT Marked unmarked(Marked data) { return marked_result(data); }

/// The slots of a rank: [block][set][slot]. An algorithm divides a set into lanes of equal length,
/// each with one writing rank.
struct MarkedLayout {
  static constexpr unsigned sets = 4;

  std::uint32_t slots;  // per block and set

  PLAIT_ELEMENT std::uint32_t set(unsigned block, std::uint32_t round) const {
    return (block * sets + round % sets) * slots;
  }
  constexpr std::size_t all(unsigned blocks) const { return std::size_t{blocks} * sets * slots; }
};

/// One launch of an all-reduce, or of a reduce-scatter.
struct MarkedArgs {
  WindowView scratch;
  MarkedLayout layout;
  std::uint32_t lane;     // slots of a lane
  std::uint32_t* rounds;  // one counter per block
  const void* send;
  void* recv;         // may equal send
  std::size_t count;  // elements of the message, or of one of its blocks
  std::size_t block;  // elements from one block of `send` to the next; 0: there is one
  Partition stripes;  // of the units of `count` elements, one per thread block
  Reduction reduction;
  int rank, ranks;
};

}  // namespace plait
