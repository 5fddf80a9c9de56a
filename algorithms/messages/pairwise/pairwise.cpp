#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/messages/pairwise/descriptor.hpp"

namespace plait::pairwise {
namespace {

struct Packets final : PairwiseAlgorithm {
  Packets() : PairwiseAlgorithm(Way::packets) {}
  StaticName name() const override { return "pairwise_ll"; }
  std::string_view summary() const override {
    return "a message in packets of data and flag: the smallest ones";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of((call.bytes() + packet_bytes - 1) / packet_bytes, 128, most_channels(topology),
                     128, topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + topology.hop_us +
           2 * static_cast<double>(call.bytes()) / topology.packet_bandwidth;
  }
};

struct Lines final : PairwiseAlgorithm {
  Lines() : PairwiseAlgorithm(Way::lines) {}
  StaticName name() const override { return "pairwise_ll128"; }
  std::string_view summary() const override {
    return "a message in lines of 128 bytes with 120 of data, where the target has them";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    const std::size_t threads =
        (call.bytes() + line_bytes - 1) / line_bytes * static_cast<unsigned>(topology.line_threads);
    return shapes_of(threads, 128, most_channels(topology),
                     threads > std::size_t{128} * most_channels(topology) ? 256 : 128, topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    const double bandwidth =
        topology.line_threads > 1 ? 0.6 * topology.push_bandwidth : topology.packet_bandwidth;
    return topology.launch_us + 1.3 * topology.hop_us +
           16.0 / 15 * static_cast<double>(call.bytes()) / bandwidth;
  }
};

struct Slots final : PairwiseAlgorithm {
  Slots() : PairwiseAlgorithm(Way::slots) {}
  StaticName name() const override { return "pairwise_push"; }
  std::string_view summary() const override {
    return "a message in chunks through slots with credits: any size, bounded scratch";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of(call.bytes(), 2 * slot_grain, most_channels(topology),
                     std::min(256u, topology.block_threads), topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    // Signals for two hops, and as much again until the first chunk is under way (2 H200, 1 KB to
    // 1 GB, 2026-11-22).
    const double bytes = static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + 4 * topology.signal_us,
                              bytes / topology.push_bandwidth,
                              {.hops = 1, .messages = 1, .bytes = bytes}, topology);
  }
};

/// Straight into the receiver's buffer, by stores. The two ends signal each other in the same way
/// for `Put` and `Copy`, so the sender alone decides how the bytes move.
struct Put : PairwiseAlgorithm {
  Put() : PairwiseAlgorithm(Way::put) {}
  StaticName name() const override { return "pairwise_put"; }
  std::string_view summary() const override {
    return "store a message straight into the receiver's buffer: symmetric memory, no scratch";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of(call.bytes(), 8 * slot_grain, std::min(64u, most_channels(topology)),
                     std::min(256u, topology.block_threads), topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + 2 * topology.signal_us +
           static_cast<double>(call.bytes()) / topology.push_bandwidth;
  }
};

struct Copy final : Put {
  StaticName name() const override { return "pairwise_copy"; }
  std::string_view summary() const override {
    return "a copy engine copies a message straight into the receiver's buffer, stores do in "
           "groups: symmetric memory, the largest messages";
  }
  bool copies() const override { return true; }
  double estimate(const Call& call, const Topology& topology) const override {
    return 2 * (topology.launch_us + topology.signal_us) + topology.copy_us +
           static_cast<double>(call.bytes()) / topology.copy_bandwidth;
  }
};

/// The receiver reads the sender's buffer.
struct Pull final : PairwiseAlgorithm {
  Pull() : PairwiseAlgorithm(Way::pull) {}
  StaticName name() const override { return "pairwise_pull"; }
  std::string_view summary() const override {
    return "the receiver reads a message where it lies, one copy: any memory; CPU ranks only";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return {{.blocks = reading_blocks(call.bytes(), topology.units, most_channels(topology)),
             .threads = 1}};
  }
  /// A system call and the kernel's work per page cost too much for small messages.
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + 2 * topology.signal_us + 1.0 +
           static_cast<double>(call.bytes()) / (0.6 * topology.link_bandwidth);
  }
};

const AlgorithmRegistration<Packets> packets;
const AlgorithmRegistration<Lines> lines;
const AlgorithmRegistration<Slots> slots;
const AlgorithmRegistration<Put> puts;
const AlgorithmRegistration<Copy> copies;
const AlgorithmRegistration<Pull> pulls;

}  // namespace
}  // namespace plait::pairwise
