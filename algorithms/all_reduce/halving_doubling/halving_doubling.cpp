#include <algorithm>
#include <bit>
#include <cmath>

#include "algorithms/all_reduce/halving_doubling/kernel.hpp"
#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/channels/network_cost.hpp"

namespace plait::halving_doubling {
namespace {

class HalvingDoubling final : public ChannelAlgorithm {
 public:
  StaticName name() const override { return "halving_doubling"; }
  std::string_view summary() const override {
    return "exchange halves with rank XOR 2^s and reduce, then results the other way; extra ranks "
           "fold in before and out after";
  }

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    // One pack per thread in the first round, which sends half of the stripe.
    const std::size_t share = std::size_t{topology.block_threads} * 16 * 2;
    std::vector<LaunchShape> shapes;
    if (small_blocks(call, topology)) shapes.push_back({max_blocks, 256});
    // Registers allow one block per multiprocessor.
    for (const unsigned limit :
         {most_units(topology.units), topology.units / 2, topology.units / 4}) {
      const unsigned most = std::clamp(limit, 1u, max_blocks);
      shapes.push_back({blocks_for(call.bytes(), share, most), topology.block_threads});
    }
    return shapes;
  }

  /// Each exchange is a hop: the signal and the first loads of a slot. Each rank sends (p - 1) / p
  /// of the message in the halving and as much in the doubling; guests cost two whole messages.
  double estimate(const Call& call, const Topology& topology) const override {
    const Schedule schedule{{0, topology.ranks}};
    const int hops = 2 * schedule.rounds() + (schedule.has_guest() ? 2 : 0), p = schedule.core();
    const double messages = 2.0 * (p - 1) / p + (schedule.has_guest() ? 2 : 0);
    return time_between_nodes(
        topology.launch_us + hops * 1.5 * topology.signal_us,
        messages * static_cast<double>(call.bytes()) / topology.push_bandwidth,
        network_use(schedule, call, topology), topology);
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return two_terms_travel(call, topology);
  }
  /// Of +0 and -0 the own one wins, and an own term is not rounded before it is added.
  bool reduces_in_tree(const Call& call, const Topology& topology) const override {
    const bool selects = call.op == ReduceOp::min || call.op == ReduceOp::max,
               multiplies = call.op == ReduceOp::avg || call.op == ReduceOp::premul_sum;
    return doubles_in_tree(topology) && !selects &&
           (!multiplies || accumulates_unrounded(call.type));
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    Channels own = channels(context, Schedule::slots);
    const std::size_t grain = chunk_grain(shape, context.topology());
    const Partition stripes = Partition::of(call.bytes(), shape.blocks, grain);
    // Four chunks in the first round, which sends half of the stripe.
    const Chunks chunks = Chunks::of(stripes.each, 8, grain, own.slot_bytes);
    const Schedule schedule{{context.rank(), context.ranks()}};
    // Exchanges with a partner use way 0 and way 1 in turn, and have a chunk from there.
    const Range first = stripes.at(0);
    const Range longest{0, schedule.has_guest() ? first.size() : (first.size() + 1) / 2};
    if (chunks.count(longest) <= Schedule::slots) own.flags |= ChunkNote::credit_may_wait;
    const Args args{.channels = with_chunks(own, chunks.bytes, context),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = stripes,
                    .chunks = chunks,
                    .schedule = schedule,
                    .reduction = reduction_of(call, context.topology())};
    context.launch(name(), call.type, shape, args);
  }

 private:
  NetworkUse network_use(const Schedule& schedule, const Call& call,
                         const Topology& topology) const {
    if (topology.nodes == 1) return {};
    const unsigned blocks = fitted(shapes(call, topology).front(), call, topology).blocks;
    const auto size = static_cast<unsigned>(topology.node_ranks);
    const double bytes = static_cast<double>(call.bytes());
    NetworkUse use;
    const auto exchange = [&](double each, double ranks) {
      use.hops += 2;
      use.bytes += 2 * each * ranks;
      for (int way = 0; way < 2; ++way) add_flows(use, each, 1, Schedule::slots, blocks, topology);
    };
    for (int round = 0; round < schedule.rounds(); ++round) {
      const unsigned distance = 1u << round;
      // Nodes of 1, 2, 4, ... ranks keep short exchanges among themselves.
      if (distance < size && std::has_single_bit(size)) continue;
      exchange(std::ldexp(bytes, -round - 1), std::min(distance, size));
    }
    if (schedule.has_guest())
      exchange(bytes, std::min(topology.node_ranks, topology.ranks - schedule.core()));
    return use;
  }
};

const AlgorithmRegistration<HalvingDoubling> registration;

}  // namespace
}  // namespace plait::halving_doubling
