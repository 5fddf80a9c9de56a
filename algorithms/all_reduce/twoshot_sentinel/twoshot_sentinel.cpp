#include "algorithms/all_reduce/twoshot_sentinel/kernel.hpp"
#include "algorithms/all_reduce/twoshot_sentinel/twoshot_sentinel_put_kernel.hpp"
#include "algorithms/blocks/flags/marked_algorithm.hpp"
#include "algorithms/blocks/flags/peer_algorithm.hpp"

namespace plait::twoshot_sentinel {
namespace {

/// A unit of each slice at once.
class Sliced : public MarkedAlgorithm {
 protected:
  std::size_t parallel_units(std::size_t units, const Topology& topology) const override {
    const auto n = static_cast<std::size_t>(topology.ranks);
    return (units + n - 1) / n;
  }
  std::size_t grain(LaunchShape, const Topology& topology) const override {
    return static_cast<std::size_t>(topology.ranks);
  }
  static double moved(const Call& call, const Topology& topology) {
    return 2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
  }
};

class TwoshotSentinel final : public Sliced {
 public:
  StaticName name() const override { return "twoshot_sentinel"; }
  std::string_view summary() const override {
    return "push slices of floats that mark their own arrival, reduce, push the results: two hops";
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return estimate_of(2, moved(call, topology), topology);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return 2 * peers(topology); }
};

class TwoshotSentinelPut final : public Sliced {
 public:
  StaticName name() const override { return "twoshot_sentinel_put"; }
  std::string_view summary() const override {
    return "push slices of floats that mark their own arrival, reduce into the outputs: symmetric "
           "memory, one barrier";
  }
  Resources resources(const Topology& topology) const override {
    return peer_signals_for(max_blocks, topology.ranks);
  }
  /// It reaches plain stores, because half of the bytes are such (2 H100, 64 MB, 2026-11-25).
  double estimate(const Call& call, const Topology& topology) const override {
    return estimate_of(1, 0.95 * moved(call, topology), topology) + topology.signal_us;
  }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const twoshot_sentinel_put::Args args{arguments(call, buffers, shape, context),
                                          buffers.recv_window,
                                          peer_signals(context, context.grant())};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    const Support symmetric = in_symmetric_memory(call);
    return symmetric ? MarkedAlgorithm::supports_call(call, topology) : symmetric;
  }
};

const AlgorithmRegistration<TwoshotSentinel> results_by_slots;
const AlgorithmRegistration<TwoshotSentinelPut> results_by_stores;

}  // namespace
}  // namespace plait::twoshot_sentinel
