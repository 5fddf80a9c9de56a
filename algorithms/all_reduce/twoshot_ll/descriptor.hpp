// The descriptor of twoshot_ll and twoshot_ll128.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/twoshot_ll/kernel.hpp"
#include "algorithms/blocks/flags/ll_exchange.hpp"

namespace plait::twoshot_ll {

class TwoshotAlgorithm : public LLExchangeAlgorithm {
 public:
  using LLExchangeAlgorithm::LLExchangeAlgorithm;

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved =
        2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    const double slice = static_cast<double>(call.bytes()) / topology.ranks;
    return topology.launch_us + 2 * hop_us(slice, topology) + sending(moved, topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

 protected:
  std::uint32_t lanes(const Topology& topology) const override {
    return 2 * static_cast<std::uint32_t>(topology.ranks);
  }
  std::size_t parallel_units(std::size_t units, const Topology& topology) const override {
    const auto n = static_cast<std::size_t>(topology.ranks);
    return (units + n - 1) / n;
  }
  std::size_t grain(LaunchShape, const Topology& topology) const override {
    return static_cast<std::size_t>(topology.ranks);
  }
};

}  // namespace plait::twoshot_ll
