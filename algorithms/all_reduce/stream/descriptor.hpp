// The descriptor of stream, by itself because tests give its kernel other types.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/stream/kernel.hpp"
#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"

namespace plait::stream {

class StreamAlgorithm : public ChannelAlgorithm {
 public:
  StaticName name() const override { return "stream"; }
  std::string_view summary() const override {
    return "push chunks through slots with credits, reduce, push results through slots: any "
           "memory, bounded scratch";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    const std::size_t slice =
        everywhere(topology) ? call.bytes() : call.bytes() / static_cast<unsigned>(topology.ranks);
    // Two small blocks per multiprocessor hide each other's waits, if there is enough work for all:
    // 4 H200, 256 MB, stream: 344 GB/s with 128 blocks of 256 threads, 351 with 256, 316 and 322
    // with 512 threads; 1 MB: 14.9 and 17.4 us (2026-11-21, tools/gpu-sweep.sh).
    const unsigned threads = std::min(256u, topology.block_threads),
                   enough = topology.ranks_per_device > 1 ? shared_blocks(topology.units, 6)
                            : call.bytes() < (std::size_t{16} << 20) ? 128
                                                                     : max_blocks;
    std::vector<LaunchShape> shapes;
    for (const unsigned most : {enough, 128u, 192u, 256u})
      shapes.push_back({blocks_for(slice, std::size_t{threads} * 16, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    // Each hop is a signal.
    const int hops = everywhere(topology) ? 2 : 3;
    // Results that pass through slots cost 3 % more, measured together with the shapes.
    return time_between_nodes(topology.launch_us + hops * topology.signal_us,
                              1.03 * moved / topology.push_bandwidth, network_use(call, topology),
                              topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }
  bool reduces_in_tree(const Call&, const Topology& topology) const override {
    return meets_in_tree(topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Channels own = channels(context, Plan::slots);
    const Plan plan = Plan::of(call.bytes(), context.ranks(), shape.blocks,
                               chunk_grain(shape, context.topology()), own.slot_bytes,
                               everywhere(context.topology()));
    const Args args{.channels = with_chunks(own, plan.chunks.bytes, context),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .plan = plan,
                    .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  bool reduces_rare(DataType) const override { return true; }

 private:
  /// Whether every rank reduces the whole message. Two ranks do, because each link direction
  /// carries the message once either way.
  static bool everywhere(const Topology& topology) { return topology.ranks <= 2; }

  /// Every rank sends a slice to each rank, and its sum back.
  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const int remote = remote_ranks(topology), passes = everywhere(topology) ? 1 : 2;
    const unsigned blocks = fitted(shapes(call, topology).front(), call, topology).blocks;
    const double bytes = static_cast<double>(call.bytes()),
                 slice = everywhere(topology) ? bytes : bytes / topology.ranks;
    NetworkUse use{.hops = static_cast<double>(passes),
                   .bytes = passes * slice * remote * topology.node_ranks};
    for (int pass = 0; pass < passes; ++pass)
      add_flows(use, slice, remote, Plan::slots, blocks, topology);
    return use;
  }
};

}  // namespace plait::stream
