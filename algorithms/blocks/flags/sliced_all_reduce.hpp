// The arguments of an all-reduce in symmetric memory in which each rank adds up one slice of the
// message, from the inputs of all ranks to the outputs of all ranks.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "algorithms/blocks/flags/block_peers.hpp"
#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"

namespace plait {

/// A message cut into one slice per rank, and each slice into one stripe per block. Sizes are in
/// bytes. Stripes end at multiples of a pack or at the end of the message, so two stripes have no
/// pack in common.
struct SlicedMessage {
  Partition slices, stripes;

  /// `grain`: stripes are multiples of it, except the last ones of a slice.
  static constexpr SlicedMessage of(std::size_t bytes, int ranks, unsigned blocks,
                                    std::size_t grain) {
    const Partition slices = Partition::of(bytes, static_cast<unsigned>(ranks), slice_grain);
    return {slices, Partition::of(slices.each, blocks, grain)};
  }
  /// The stripe of `block` in the slice of `rank`, in bytes of the message.
  PLAIT_DEVICE constexpr Range stripe(int rank, unsigned block) const {
    const Range slice = slices.at(static_cast<unsigned>(rank)), stripe = stripes.at(block);
    const std::size_t begin = slice.begin + stripe.begin, end = slice.begin + stripe.end;
    return {begin < slice.end ? begin : slice.end, end < slice.end ? end : slice.end};
  }

 private:
  static constexpr std::size_t slice_grain = 64;  // whole packs on every target
};

struct SlicedAllReduce {
  PeerSignals peers;
  WindowView send, recv;  // peer_ptr(r) is rank r's input and output; they may be equal
  std::size_t count;
  SlicedMessage message;
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs

  /// The input and output of a rank, in packs.
  template <class T, class D>
  PLAIT_DEVICE Packs<const T, D::pack_bytes> input(int rank) const {
    return {reinterpret_cast<const T*>(send.peer_ptr(rank)), count};
  }
  template <class T, class D>
  PLAIT_DEVICE Packs<T, D::pack_bytes> output(int rank) const {
    return {reinterpret_cast<T*>(recv.peer_ptr(rank)), count};
  }
  /// This block's stripe of this rank's slice, in packs.
  template <class D>
  PLAIT_DEVICE Range packs(D& dev) const {
    return in_packs<D::pack_bytes>(message.stripe(peers.rank, dev.block()));
  }
};

}  // namespace plait
