#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "algorithms/nodes/rails/rails_algorithm.hpp"

namespace plait::rails {

std::string RailsAlgorithm::stages(const Call& call, LaunchShape shape,
                                   const Topology& topology) const {
  const Plan plan = plan_of(call, topology, shape);
  const Plan::Work& work = plan.work;
  const bool is_one_node = topology.nodes == 1;
  const std::string_view text =
      is_one_node         ? (work.everywhere ? "exchange" : "reduce, gather")
      : !work.reduces     ? "gather along the rail, gather on the node"
      : work.by_all_ranks ? "reduce on the node, exchange along the rail"
      : !work.gathers     ? "reduce on the node, reduce along the rail"
      : work.everywhere
          ? "reduce on the node, exchange along the rail, gather on the node"
          : "reduce on the node, reduce and gather along the rail, gather on the node";
  const int rails = work.by_all_ranks ? topology.rails : plan.rails;
  const std::string among = is_one_node ? fmt::format("{} ranks", plan.nodes)
                                        : fmt::format("{} rails, {} nodes", rails, plan.nodes);
  if (plan.chunks.count(plan.stripes.at(0)) <= 1) return fmt::format("{}; {}", text, among);
  return fmt::format("{}; {}, chunks of {} bytes, {} under way along the rail", text, among,
                     plan.chunks.bytes, Plan::rail_lag);
}

namespace {

constexpr std::array collectives = {Collective::all_reduce, Collective::reduce_scatter,
                                    Collective::all_gather};

/// One rail, for small messages: one rank of each node exchanges with the other nodes.
class Leaders final : public RailsAlgorithm {
 public:
  Leaders() : RailsAlgorithm(Collective::all_reduce) {}
  StaticName name() const override { return "leaders"; }
  std::string_view summary() const override {
    return "one rank of each node reduces for the others and exchanges with the other nodes: "
           "small messages, several nodes";
  }
  double estimate(const Call& call, const Topology& topology) const override {
    // Each rank of a node sends one message less, but one rank does all the work.
    return time_between_nodes(topology.launch_us + 3.5 * topology.signal_us,
                              4 * static_cast<double>(call.bytes()) / topology.push_bandwidth,
                              network_use(call, topology), topology);
  }

 protected:
  int rails(const Topology&) const override { return 1; }
};

/// One hop less than `rails`, for the smallest messages: all ranks reduce the whole message.
class RailsOneshot final : public RailsAlgorithm {
 public:
  RailsOneshot() : RailsAlgorithm(Collective::all_reduce) {}
  StaticName name() const override { return "rails_oneshot"; }
  std::string_view summary() const override {
    return "each rank pushes its message to all of its node, and the node's sum to the ranks of "
           "equal local number: small messages, several nodes";
  }
  double estimate(const Call& call, const Topology& topology) const override {
    const double sent = topology.rails + topology.nodes - 2;
    return time_between_nodes(topology.launch_us + 3 * topology.signal_us,
                              sent * static_cast<double>(call.bytes()) / topology.push_bandwidth,
                              network_use(call, topology), topology);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (topology.rails * topology.nodes != topology.ranks)
      return Support::no("the nodes have different numbers of ranks");
    return RailsAlgorithm::supports_call(call, topology);
  }
  int rails(const Topology&) const override { return 1; }
  Plan::Work work(const Call&, const Topology&) const override {
    return {.reduces = true, .gathers = false, .everywhere = true, .by_all_ranks = true};
  }
};

const FamilyRegistration<RailsAlgorithm, collectives> registration;
const AlgorithmRegistration<Leaders> leaders;
const AlgorithmRegistration<RailsOneshot> oneshot;

}  // namespace
}  // namespace plait::rails
