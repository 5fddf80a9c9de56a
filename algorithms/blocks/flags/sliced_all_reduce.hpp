// The arguments of an all-reduce in symmetric memory in which each rank adds up one slice of the
// message, from the inputs of all ranks to the outputs of all ranks.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "algorithms/blocks/flags/block_peers.hpp"
#include "algorithms/blocks/patterns/sliced_message.hpp"
#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"

namespace plait {

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
