#include <array>
#include <cstring>
#include <limits>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/own_kernels/kernel_setting.hpp"

namespace plait::own_kernels {
namespace {

using S = KernelSetting;

/// Launches kernels of the program's own.
class OwnKernels final : public Algorithm {
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
    const Grant& grant = context.grant();
    const std::size_t words = S::word_count(context.ranks());
    std::uint32_t* const sent = grant.counters + partial_words;
    const S setting{.words = grant.signals,
                    .packets = grant.scratch,
                    .partials = reinterpret_cast<std::uint64_t*>(grant.counters),
                    .sent = sent,
                    .seen = sent + words,
                    .round_numbers = sent + 2 * words,
                    .arrived = sent + 2 * words + S::rounds,
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) std::array<std::byte, max_kernel_args> args;
    std::memcpy(args.data(), kernel.args.data(), kernel.args.size());
    std::memcpy(args.data(), &setting, sizeof(setting));
    context.launch_own(kernel.kernel, shape, {args.data(), kernel.args.size()});
  }

 private:
  static constexpr std::size_t partial_words = std::size_t{S::max_blocks} * S::max_values * 2;
};

const bool registered = [] {
  Registry::instance().own_kernels = std::make_unique<OwnKernels>();
  return true;
}();

}  // namespace
}  // namespace plait::own_kernels
