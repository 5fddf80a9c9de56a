// The packs that a block of flash handles, and the number of blocks. Plain arithmetic; unit tests
// check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "backends/device/device.hpp"

namespace plait::flash {

inline constexpr int depth = 4;  // stages of the pipeline: depth - 1 on their way while one is used
/// Stripes are multiples of this many bytes: 16 for each thread of a warp.
inline constexpr std::size_t grain = 512;

/// Packs per thread in a stage, all of one peer. Half as many for 8-bit elements, whose sums take
/// four times their space in registers.
constexpr int stage_packs(std::size_t element_bytes) { return element_bytes == 1 ? 2 : 4; }

/// A size in nearly equal pieces, which differ by at most one grain. `Partition` makes all pieces
/// equal except the last ones, which leaves blocks without work where there are few grains per
/// block.
struct EvenPartition {
  std::size_t begin, end;   // of the whole, in bytes; begins at a multiple of the grain
  std::size_t each, extra;  // grains per piece; the first `extra` pieces have one more

  static constexpr EvenPartition of(Range whole, std::size_t pieces) {
    const std::size_t grains = (whole.size() + grain - 1) / grain;
    return {whole.begin, whole.end, grains / pieces, grains % pieces};
  }
  PLAIT_DEVICE constexpr Range at(std::size_t index) const {
    return {start(index), start(index + 1)};
  }

 private:
  PLAIT_DEVICE constexpr std::size_t start(std::size_t index) const {
    const std::size_t byte = begin + (index * each + (index < extra ? index : extra)) * grain;
    return byte < end ? byte : end;
  }
};

/// The stripes of one rank's blocks: of the whole message where every rank makes the whole result
/// for itself, else of a slice.
constexpr EvenPartition stripes(std::size_t bytes, bool whole, int rank, int ranks,
                                unsigned blocks) {
  const auto slices = EvenPartition::of({0, bytes}, whole ? 1u : static_cast<unsigned>(ranks));
  return EvenPartition::of(slices.at(whole ? 0u : static_cast<unsigned>(rank)), blocks);
}

/// The packs that a block copies at once on a GPU.
struct Stage {
  unsigned threads;
  int packs;  // per thread

  static constexpr Stage of(std::size_t element_bytes, unsigned threads) {
    return {threads, stage_packs(element_bytes)};
  }
  constexpr std::size_t bytes() const { return row() * static_cast<unsigned>(packs); }
  constexpr std::size_t row() const { return std::size_t{threads} * 16; }  // one pack per thread
  /// Stages for `stripe` bytes of each of `peers`.
  constexpr std::size_t count(std::size_t stripe, int peers) const {
    return (stripe + bytes() - 1) / bytes() * static_cast<unsigned>(peers);
  }
};

/// Blocks that keep a link busy with pulls: 2 MB on their way at once. Measured with plain loads
/// between 2 H200: 32 blocks of 512 threads with 8 loads each reach 336 GB/s each way, 8 blocks
/// 207, 132 blocks 338.
constexpr unsigned blocks_that_fill_a_link(Stage stage) {
  constexpr std::size_t on_their_way = std::size_t{2} << 20;
  const std::size_t bytes_per_block = (depth > 1 ? depth - 1 : 1) * stage.bytes();
  return static_cast<unsigned>((on_their_way + bytes_per_block - 1) / bytes_per_block);
}

/// Blocks for `bytes` of each of `peers`: one pack per thread until there are enough blocks to fill
/// a link. More blocks only if each has 2 * depth stages, so that the pipeline is mostly full.
constexpr unsigned blocks_for_stages(std::size_t bytes, int peers, Stage stage, unsigned most) {
  const std::size_t one_pack = std::max<std::size_t>(1, (bytes + stage.row() - 1) / stage.row());
  const std::size_t filling = std::min<std::size_t>(one_pack, blocks_that_fill_a_link(stage));
  const std::size_t steady = bytes * static_cast<unsigned>(peers) / (2 * depth * stage.bytes());
  return static_cast<unsigned>(std::min<std::size_t>(std::max(filling, steady), most));
}

}  // namespace plait::flash
