// The descriptor of oneshot_ll and oneshot_ll128.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/oneshot_ll/kernel.hpp"
#include "algorithms/blocks/flags/ll_exchange.hpp"

namespace plait::oneshot_ll {

class OneshotAlgorithm : public LLExchangeAlgorithm {
 public:
  using LLExchangeAlgorithm::LLExchangeAlgorithm;

  double estimate(const Call& call, const Topology& topology) const override {
    const double pushed = std::max(topology.ranks - 1, 1) * static_cast<double>(call.bytes());
    return topology.launch_us + hop_us(static_cast<double>(call.bytes()), topology) +
           sending(pushed, topology);
  }

  /// All-reduces and scans of one unit leave the lanes and epochs as each of them expects them.
  Resources resources(const Topology&) const override { return {}; }
  SharedResources shared(const Topology& topology) const override {
    return {name(), memory(topology)};
  }
  bool batches(const Topology&) const override { return true; }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

 protected:
  const Grant& granted(const LaunchContext& context) const override { return context.shared(); }
  std::uint32_t lanes(const Topology& topology) const override {
    return static_cast<std::uint32_t>(topology.ranks);
  }
  std::size_t parallel_units(std::size_t units, const Topology&) const override { return units; }
  std::size_t grain(LaunchShape shape, const Topology& topology) const override {
    return shape.threads / threads_per_unit(topology);
  }
};

}  // namespace plait::oneshot_ll
