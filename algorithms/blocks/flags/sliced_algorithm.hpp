// Base class for descriptors whose kernel takes a `SlicedAllReduce`.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/peer_algorithm.hpp"
#include "algorithms/blocks/flags/sliced_all_reduce.hpp"

namespace plait {

class SlicedAlgorithm : public PeerAlgorithm {
 public:
  explicit SlicedAlgorithm(unsigned max_blocks) : PeerAlgorithm(max_blocks) {}

  /// A pack of the slice per thread, on every multiprocessor but one.
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_for(call.bytes() / static_cast<unsigned>(topology.ranks), topology.block_threads,
                      {most_units(topology.units)}, topology);
  }

  /// Each rank loads its slice from all peers, and stores it at all peers.
  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    return overhead_us(topology) + moved / topology.link_bandwidth;
  }

  /// Launches the kernel of the algorithm's name.
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const SlicedAllReduce args{
        .peers = signals(context),
        .send = buffers.send_window,
        .recv = buffers.recv_window,
        .count = call.count,
        .message = SlicedMessage::of(call.bytes(), context.ranks(), shape.blocks,
                                     stripe_grain(shape.threads)),
        .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }
};

}  // namespace plait
