#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/own_kernels/kernel_setting.hpp"

namespace plait::own_kernels {
namespace {

using S = KernelSetting;

/// Launches kernels of the program's own.
class OwnKernels : public Algorithm {
 public:
  StaticName name() const override { return own_kernel_name; }
  Collective collective() const override { return Collective::barrier; }
  std::string_view summary() const override { return "a kernel of the program's own"; }
  Support supports(const Call&, const Topology&) const override {
    return Support::no("it serves plait::launch, which needs no name");
  }
  Resources resources(const Topology& topology) const override {
    return {.scratch_bytes = S::packet_count(topology.ranks) * sizeof(Packet),
            .signals = S::word_count(topology.ranks),
            .counters = partial_words + 2 * S::word_count(topology.ranks) + S::rounds + 1};
  }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override {
    return {LaunchShape{}};
  }
  double estimate(const Call&, const Topology&) const override {
    return std::numeric_limits<double>::infinity();
  }
  void enqueue(const Call&, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const OwnKernel& kernel = *buffers.own_kernel;
    const S setting = setting_of(context);
    alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) std::array<std::byte, max_kernel_args> args;
    std::memcpy(args.data(), kernel.args.data(), kernel.args.size());
    std::memcpy(args.data(), &setting, sizeof(setting));
    context.launch_own(kernel.kernel, shape, {args.data(), kernel.args.size()});
  }

 protected:
  virtual S setting_of(const LaunchContext& context) const {
    const Grant& grant = context.grant();
    const std::size_t words = S::word_count(context.ranks());
    std::uint32_t* const sent = grant.counters + partial_words;
    return {.words = grant.signals,
            .packets = grant.scratch,
            .row_memory = {},
            .partials = reinterpret_cast<std::uint64_t*>(grant.counters),
            .sent = sent,
            .seen = sent + words,
            .round_numbers = sent + 2 * words,
            .arrived = sent + 2 * words + S::rounds,
            .rank = context.rank(),
            .ranks = context.ranks()};
  }

 private:
  static constexpr std::size_t partial_words = std::size_t{S::max_blocks} * S::max_values * 2;
};

/// The same with memory for rows, which is not committed before the first such launch. Their
/// kernels send no packets but those of rows.
class OwnRows final : public OwnKernels {
 public:
  StaticName name() const override { return own_rows_name; }
  std::string_view summary() const override { return "a collective that ends in a function"; }
  Resources resources(const Topology& topology) const override {
    Resources all = OwnKernels::resources(topology);
    all.scratch_bytes = RowMemory::bytes(most_blocks(topology), topology.ranks);
    all.counters += RowMemory::counters;
    return all;
  }
  /// No block: there is no memory for one.
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const override {
    return {std::min(shape.blocks, most_blocks(topology)), shape.threads};
  }

 protected:
  S setting_of(const LaunchContext& context) const override {
    const Topology& topology = context.topology();
    S setting = OwnKernels::setting_of(context);
    const WindowView lanes = std::exchange(setting.packets, {});
    std::uint32_t* const numbers = setting.arrived + 1;
    setting.row_memory = {
        .lanes = lanes,
        .second_lanes = lanes.at(RowMemory::lanes_bytes(most_blocks(topology), topology.ranks)),
        .steps = numbers,
        .steps_of_packets = numbers + RowMemory::max_blocks,
        .gatherings = numbers + 2 * RowMemory::max_blocks};
    return setting;
  }

 private:
  /// Two of them fit on a multiprocessor.
  static unsigned most_blocks(const Topology& topology) {
    const unsigned running =
        topology.backend == BackendKind::host ? topology.units : most_in_pairs(topology.units);
    const std::size_t budget = topology.rows_limit, each = RowMemory::bytes(2, topology.ranks) / 2;
    return budget < each ? 0
                         : std::min(running, slots_within(budget, each, 1, RowMemory::max_blocks));
  }
};

const bool registered = [] {
  Registry::instance().own_kernels = std::make_unique<OwnKernels>();
  Registry::instance().own_rows = std::make_unique<OwnRows>();
  return true;
}();

}  // namespace
}  // namespace plait::own_kernels
