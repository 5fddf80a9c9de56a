#include "algorithms/nodes/rails/rails_algorithm.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace plait::rails {

std::string RailsAlgorithm::stages(const Call& call, LaunchShape shape,
                                   const Topology& topology) const {
  const Plan plan = plan_of(call, topology, shape);
  const Plan::Work& work = plan.work;
  const std::string_view text =
      !work.reduces       ? "gather along the rail, gather on the node"
      : work.by_all_ranks ? "reduce on the node, exchange along the rail"
      : !work.gathers     ? "reduce on the node, reduce along the rail"
      : work.everywhere
          ? "reduce on the node, exchange along the rail, gather on the node"
          : "reduce on the node, reduce and gather along the rail, gather on the node";
  const int rails = work.by_all_ranks ? topology.rails : plan.rails;
  const std::uint32_t chunks = plan.chunks.count(plan.stripes.at(0));
  if (chunks <= 1) return fmt::format("{}; {} rails, {} nodes", text, rails, plan.nodes);
  return fmt::format("{}; {} rails, {} nodes, chunks of {} bytes, {} under way along the rail",
                     text, rails, plan.nodes, plan.chunks.bytes, Plan::rail_lag);
}

}  // namespace plait::rails
