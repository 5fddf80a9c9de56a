// What descriptors of algorithms that exchange flagged units have in common (algorithms/building_blocks/flagged.hpp).
#pragma once
#include "algorithms/building_blocks/flagged.hpp"
#include "core/all_reduce_algorithm.hpp"
#include "core/budget.hpp"

namespace plait {

/// The two kinds of units.
struct UnitKind {
  bool line;
  std::size_t data_bytes, slot_bytes;
  static constexpr UnitKind packet() { return {false, packet_bytes, sizeof(Packet)}; }
  static constexpr UnitKind lines() { return {true, 15 * packet_bytes, sizeof(Line)}; }
};

class FlaggedAlgorithm : public AllReduceAlgorithm {
 public:
  explicit FlaggedAlgorithm(UnitKind unit) : unit_(unit) {}

  Resources resources(const Topology& topology) const final {
    if (!serves(topology)) return {};
    return {.scratch_bytes = layout(topology).units(max_blocks) * unit_.slot_bytes, .signals = 0, .counters = max_blocks};
  }

 protected:
  static constexpr unsigned max_blocks = 64;

  /// Lanes of a rank's scratch.
  virtual std::uint32_t lanes(const Topology& topology) const = 0;

  Support supports_all_reduce(const Call&, const Topology& topology) const final {
    return serves(topology) ? Support() : Support::no("128-byte lines need NVLink between all ranks");
  }

  std::size_t units_of(std::size_t bytes) const { return (bytes + unit_.data_bytes - 1) / unit_.data_bytes; }
  unsigned threads_a_unit(const Topology& topology) const { return unit_.line ? static_cast<unsigned>(topology.line_threads) : 1; }

  /// Of a whole warp's worth, so that the threads of a line are there.
  unsigned whole_units(unsigned threads, const Topology& topology) const {
    const unsigned each = threads_a_unit(topology);
    return (threads + each - 1) / each * each;
  }

  /// A sixteenth of the scratch memory for each algorithm of this kind.
  FlaggedLayout layout(const Topology& topology) const {
    FlaggedLayout one{.slots = 1, .lanes = lanes(topology)};
    const std::uint32_t most = unit_.line ? 64 : 512;
    one.slots = slots_within(topology.scratch_limit / 16, one.units(max_blocks) * unit_.slot_bytes, most / 32, most);
    return one;
  }

  /// Microseconds for `bytes` of data as units.
  double sending(double bytes, const Topology& topology) const {
    const double slots = bytes * static_cast<double>(unit_.slot_bytes) / static_cast<double>(unit_.data_bytes);
    return slots / (unit_.line ? topology.bandwidth : topology.packet_bandwidth);
  }

  /// Small blocks, a unit a thread (or its threads) while there are blocks left: measured, small blocks beat large ones.
  std::vector<LaunchShape> shapes_for(std::size_t units, const Topology& topology) const {
    if (topology.backend == BackendKind::host) return {{.blocks = topology.units, .threads = topology.block_threads}};
    std::vector<LaunchShape> shapes;
    for (const unsigned threads : {128u, 256u, 512u})
      shapes.push_back({blocks_for(units * threads_a_unit(topology), threads, max_blocks), threads});
    return shapes;
  }

 private:
  bool serves(const Topology& topology) const { return !unit_.line || topology.line_threads != 0; }

  UnitKind unit_;
};

}  // namespace plait
