// Base class for descriptors of algorithms that exchange units (algorithms/blocks/flags/units.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "algorithms/blocks/flags/units.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait {

/// The most threads of a block whose threads stay together in groups (backends/cuda/ptx.hpp).
inline constexpr unsigned max_group_threads = 480;

struct UnitKind {
  enum Name { packet, line } name;
  std::size_t data_bytes, slot_bytes;
  std::uint32_t most_slots;  // per lane
  static constexpr UnitKind packets() { return {packet, packet_bytes, sizeof(Packet), 512}; }
  static constexpr UnitKind lines(std::uint32_t most_slots = 128) {
    return {line, 15 * packet_bytes, sizeof(Line), most_slots};
  }
};

/// Threads of a block that moves lines: whole groups (`D::line_group`), and not more than the
/// target can keep together.
inline unsigned whole_groups(unsigned threads, const Topology& topology) {
  constexpr unsigned warp = 32;
  return topology.line_threads > 1 ? std::min((threads + warp - 1) / warp * warp, max_group_threads)
                                   : threads;
}

class LLAlgorithm : public CollectiveAlgorithm {
 public:
  /// The algorithm gets 1 / `share` of the scratch memory.
  explicit LLAlgorithm(UnitKind unit, std::size_t share = 16,
                       Collective collective = Collective::all_reduce)
      : CollectiveAlgorithm(collective), unit_(unit), share_(share) {}

  Resources resources(const Topology& topology) const override { return memory(topology); }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const final {
    return {std::min(shape.blocks, most_blocks(topology)), whole_groups(shape.threads, topology)};
  }

 protected:
  static constexpr unsigned max_blocks = 128;

  /// The most blocks of a launch. Perhaps only one block fits on a multiprocessor.
  static unsigned most_blocks(const Topology& topology) {
    return topology.backend == BackendKind::host ? max_blocks
                                                 : std::min(max_blocks, most_units(topology.units));
  }

  /// The lanes of all blocks, and one counter per block.
  Resources memory(const Topology& topology) const {
    if (!serves(topology)) return {};
    return {.scratch_bytes = layout(topology).units(max_blocks) * unit_.slot_bytes,
            .signals = 0,
            .counters = max_blocks};
  }
  /// The number of lanes in a rank's scratch memory, per block and half.
  virtual std::uint32_t lanes(const Topology& topology) const = 0;

  Support supports_call(const Call&, const Topology& topology) const override {
    return serves(topology) ? Support() : Support::no("the target has no packets of that size");
  }

  std::size_t units_of(std::size_t bytes) const {
    return (bytes + unit_.data_bytes - 1) / unit_.data_bytes;
  }
  unsigned threads_per_unit(const Topology& topology) const {
    return unit_.name == UnitKind::line ? static_cast<unsigned>(topology.line_threads) : 1;
  }

  unsigned whole_groups(unsigned threads, const Topology& topology) const {
    return unit_.name == UnitKind::line ? plait::whole_groups(threads, topology) : threads;
  }

  LLLayout layout(const Topology& topology) const {
    LLLayout one{.slots = 1, .lanes = lanes(topology)};
    const std::size_t most = unit_.most_slots,
                      least = unit_.name == UnitKind::line ? 1 : most / 128;
    const std::size_t fitting =
        topology.scratch_limit / share_ / (one.units(max_blocks) * unit_.slot_bytes);
    one.slots = static_cast<std::uint32_t>(std::clamp(fitting, least, most));
    return one;
  }

  /// Microseconds until a unit has arrived. A line takes longer where several threads move it,
  /// because they must agree on what they saw.
  double hop_us(const Topology& topology) const {
    return topology.hop_us * (unit_.name == UnitKind::line ? 1.3 : 1.0);
  }

  /// Microseconds until `bytes` have arrived through one lane, besides those on the link. Each
  /// round but the first costs a tenth of a hop, because other blocks keep the link busy meanwhile
  /// (fitted to 2 H100, 2026-11-25).
  double hop_us(double bytes, const Topology& topology) const {
    const double rounds =
        std::ceil(std::max(bytes, 1.0) /
                  static_cast<double>(max_blocks * layout(topology).slots * unit_.data_bytes));
    return (1 + 0.1 * (rounds - 1)) * hop_us(topology);
  }

  /// Microseconds that `bytes` of data in units need on the link. Lines come close to plain stores
  /// (fitted to 2 H100, 2026-11-25).
  double sending(double bytes, const Topology& topology) const {
    const double bandwidth = unit_.name == UnitKind::line && topology.line_threads > 1
                                 ? 0.92 * topology.push_bandwidth
                                 : topology.packet_bandwidth;
    return bytes * static_cast<double>(unit_.slot_bytes) / static_cast<double>(unit_.data_bytes) /
           bandwidth;
  }

  /// Small blocks with one unit per thread (or group of threads that move it) while there are
  /// blocks left, because small blocks beat large ones for small messages (4 H200, 1 KB: 2.5 us
  /// with 128 threads or less, 2.6 with 256; twoshot_ll, 1 MB, 128 blocks: 15.2 and 13.7;
  /// 2026-11-21, tools/gpu-sweep.sh). `line_passes`: threads of a block that moves lines in several
  /// passes; 0: as many as make the passes few and full.
  std::vector<LaunchShape> shapes_for(std::size_t units, const Topology& topology,
                                      unsigned line_passes = 0) const {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    const std::size_t threads = units * threads_per_unit(topology);
    unsigned best = threads > std::size_t{128} * max_blocks ? 256 : 128;
    if (unit_.name == UnitKind::line) {
      const std::size_t a_block = (threads + max_blocks - 1) / max_blocks;
      const std::size_t passes = (a_block + max_group_threads - 1) / max_group_threads;
      best =
          passes > 1 && line_passes != 0
              ? line_passes
              : std::max(128u, whole_groups(static_cast<unsigned>((a_block + passes - 1) / passes),
                                            topology));
    }
    std::vector<LaunchShape> shapes;
    for (const unsigned each : {best, 128u, 256u, 512u})
      shapes.push_back({blocks_for(threads, each, max_blocks), each});
    return shapes;
  }

 private:
  bool serves(const Topology& topology) const {
    return unit_.name == UnitKind::packet || topology.line_threads != 0;
  }

  UnitKind unit_;
  std::size_t share_;
};

}  // namespace plait
