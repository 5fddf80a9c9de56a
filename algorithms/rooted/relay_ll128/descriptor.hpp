// The descriptor of relay_ll128.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/lane_algorithm.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/rooted/relay_ll128/kernel.hpp"

namespace plait::relay_ll128 {

class RelayAlgorithm : public LaneAlgorithm {
 public:
  explicit RelayAlgorithm(Collective collective) : LaneAlgorithm(collective, UnitKind::lines()) {}

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_for(slices(call, topology).each, topology);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double waits = 0.4, slice = static_cast<double>(slices(call, topology).each) * line_bytes;
    return topology.launch_us + waits + hop_us(slice, topology) + hop_us(topology) +
           sending(static_cast<double>(call.bytes()), topology);
  }
  bool reduces_in_rank_order(const Call& call, const Topology& topology) const override {
    return two_terms_travel(call, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    const Partition slices = this->slices(call, topology);
    const Args args{.lanes = lanes_of(context),
                    .reduction = reduction_of(call, topology),
                    .pattern = {call.collective == Collective::reduce, context.rank(),
                                context.ranks(), call.root},
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .slices = slices,
                    .stripes = Partition::of(slices.each, shape.blocks,
                                             shape.threads / threads_per_unit(topology))};
    const bool reduces = facts_of(call.collective).reduces;
    context.launch(name(), reduces ? call.type : move_type(call.type), shape, args);
  }

 private:
  static constexpr std::size_t line_bytes = UnitKind::lines().data_bytes;
  /// The slices of the message, in units.
  static Partition slices(const Call& call, const Topology& topology) {
    return Partition::of((call.bytes() + line_bytes - 1) / line_bytes,
                         static_cast<unsigned>(RelayPattern::slices_of(topology.ranks)));
  }
};

}  // namespace plait::relay_ll128
