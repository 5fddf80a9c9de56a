// Base class for reductions in marked data (algorithms/blocks/flags/marked_slots.hpp). What it says
// by itself is for one hop: a lane per peer, and every unit is on its own.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "algorithms/blocks/flags/marked_slots.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait {

class MarkedAlgorithm : public CollectiveAlgorithm {
 public:
  explicit MarkedAlgorithm(Collective collective = Collective::all_reduce)
      : CollectiveAlgorithm(collective) {}

  SharedResources shared(const Topology& topology) const override {
    return {.name = "marked slots",
            .resources = {.scratch_bytes = layout(topology).all(max_blocks) * sizeof(Marked),
                          .signals = 0,
                          .counters = max_blocks}};
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const final {
    return {std::min(shape.blocks, most_blocks(topology)), shape.threads};
  }

  /// One unit per thread while there are blocks left.
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const final {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    const std::size_t units = parallel_units(units_of(call.block_bytes()), topology);
    const unsigned most = most_blocks(topology);
    unsigned best = 128;
    while (best < 512 && units > std::size_t{best} * most) best *= 2;
    std::vector<LaunchShape> shapes;
    for (const unsigned threads : {best, 128u, 256u, 512u})
      shapes.push_back({blocks_for(units, threads, most), threads});
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const override {
    return estimate_of(1, peers(topology) * static_cast<double>(call.block_bytes()), topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const MarkedArgs args{.scratch = context.shared().scratch,
                          .layout = layout(topology),
                          .lane = layout(topology).slots / lanes(topology),
                          .rounds = context.shared().counters,
                          .send = buffers.send,
                          .recv = buffers.recv,
                          .count = call.count,
                          .block = call.parts == 1 ? 0 : call.count,
                          .stripes = Partition::of(units_of(call.block_bytes()), shape.blocks,
                                                   grain(shape, topology)),
                          .reduction = reduction_of(call, topology),
                          .rank = context.rank(),
                          .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  /// The number of lanes that a set is divided into.
  virtual std::uint32_t lanes(const Topology& topology) const { return peers(topology); }
  /// The number of a message's units that threads work on at once.
  virtual std::size_t parallel_units(std::size_t units, const Topology&) const { return units; }
  /// Stripes are multiples of this many units.
  virtual std::size_t grain(LaunchShape shape, const Topology&) const { return shape.threads; }

  Support supports_call(const Call& call, const Topology& topology) const final {
    if (!is_float(call.type))
      return Support::no("integers have no NaN, whose bits would say that nothing has come yet");
    if (!topology.peer_access)
      return Support::no("a device empties slots in its own memory, not in the host's");
    return {};
  }

  static std::uint32_t peers(const Topology& topology) {
    return static_cast<std::uint32_t>(std::max(topology.ranks - 1, 1));
  }
  static std::size_t units_of(std::size_t bytes) {
    return (bytes + sizeof(Marked) - 1) / sizeof(Marked);
  }
  /// Microseconds for `hops` and `bytes` that a rank's stores move. A hop is that of a line, and
  /// stores reach 0.95 of plain ones (fitted to 2 H100, 2026-11-25). The CPUs' caches move lines
  /// with flags faster, so there the algorithms run only when named.
  static double estimate_of(int hops, double bytes, const Topology& topology) {
    if (topology.backend == BackendKind::host) return std::numeric_limits<double>::infinity();
    return topology.launch_us + 1.33 * hops * topology.hop_us +
           bytes / (0.95 * topology.push_bandwidth);
  }

 private:
  static constexpr unsigned max_blocks = 128;
  /// The slots take 1 / `share` of the scratch memory, at most 32 MB (`most_slots`). Rounds must be
  /// long, because a round ends with a fence (2 H100, two-shot of 16 MB: 69 us with 5 MB of slots,
  /// 55 with 8, 52 with 16; 2026-11-24). And a lane should have a slot for each thread (4 ranks on
  /// one H100, 16 MB: 508 us in one shot with 2048 slots, 387 with 3072; 292 and 245 in two;
  /// 2026-11-25).
  static constexpr std::size_t share = 15;
  static constexpr std::size_t most_slots = 4096;

  static unsigned most_blocks(const Topology& topology) {
    return topology.backend == BackendKind::host ? max_blocks
                                                 : std::min(max_blocks, most_units(topology.units));
  }
  static MarkedLayout layout(const Topology& topology) {
    const std::size_t one = MarkedLayout{.slots = 1}.all(max_blocks) * sizeof(Marked);
    const std::size_t least = 2 * peers(topology);
    std::size_t slots =
        std::clamp(topology.scratch_limit / share / one, least, std::max(least, most_slots));
    // A round is whole passes of a block's threads (2 H100, one-shot of 4 MB: 17.1 us with 1092
    // slots, 15.4 with 1024; 2026-11-24).
    if (slots > 512) slots = slots / 512 * 512;
    return {.slots = static_cast<std::uint32_t>(slots)};
  }
};

}  // namespace plait
