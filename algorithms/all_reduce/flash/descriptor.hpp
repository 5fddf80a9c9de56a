// The common descriptor of flash and flash_bulk.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/flash/kernel.hpp"
#include "algorithms/blocks/flags/peer_algorithm.hpp"

namespace plait::flash {

class FlashAlgorithm : public PeerAlgorithm {
 public:
  /// `bulk`: the kernel uses BulkCopies. A block is then a whole number of teams.
  explicit FlashAlgorithm(bool bulk) : PeerAlgorithm(256), bulk_(bulk) {}

  SharedResources shared(const Topology& topology) const override {
    return serves(topology) ? PeerAlgorithm::shared(topology) : SharedResources();
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host)
      return {{.blocks = topology.units, .threads = topology.block_threads}};
    const auto n = static_cast<unsigned>(topology.ranks);
    const std::size_t bytes = n == 2 ? call.bytes() : call.bytes() / n;
    // One block per multiprocessor, but half as many for large messages: 4 H200, 256 MB: 319 GB/s
    // with 64 blocks and 307 with 132; 64 MB: 310 to 325 and 187 to 260, for reasons unknown;
    // 16 MB: no difference (2026-11-21, tools/gpu-sweep.sh).
    const std::size_t large = std::size_t{n == 2 ? 128u : 16u} << 20;
    const unsigned most = call.bytes() < large ? most_units(topology.units) : topology.units / 2;
    std::vector<LaunchShape> shapes;
    for (const unsigned threads : {topology.block_threads, topology.block_threads / 2})
      for (const unsigned limit :
           {most, topology.units, topology.units / 2, topology.units / 4, 16u})
        shapes.push_back(
            {blocks_for_stages(bytes, topology.ranks - 1, Stage::of(size_of(call.type), threads),
                               std::clamp(limit, 1u, max_blocks())),
             threads});
    return shapes;
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const override {
    // Also where the target does not serve it: a communicator asks every algorithm.
    const unsigned team =
        bulk_ && serves(topology) ? static_cast<unsigned>(topology.bulk_threads) : 1;
    return {std::min(shape.blocks, max_blocks()), (shape.threads + team - 1) / team * team};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    // The way through shared memory: a guess. It puts flash behind twoshot, which moves as much.
    const double staging_us = 0.5;
    return overhead_us(topology) + staging_us + moved / topology.link_bandwidth;
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    const bool whole = topology.ranks == 2 && !call.in_place;
    return whole || two_terms_commute(call, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const bool whole = context.ranks() == 2 && buffers.send != buffers.recv;
    const Args args{
        .peers = signals(context),
        .send = buffers.send_window,
        .recv = buffers.recv_window,
        .count = call.count,
        .stripes = stripes(call.bytes(), whole, context.rank(), context.ranks(), shape.blocks),
        .reduction = reduction_of(call, context.topology()),
        .whole = whole};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (!serves(topology)) return Support::no("the target has no bulk copies");
    return PeerAlgorithm::supports_call(call, topology);
  }

 private:
  bool serves(const Topology& topology) const { return !bulk_ || topology.bulk_threads != 0; }

  bool bulk_;
};

}  // namespace plait::flash
