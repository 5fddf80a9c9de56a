#include "bootstrap/nodes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "bootstrap/bootstrap_hooks.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

/// Adds their numbers to the names that several nodes have: "localhost#0", "localhost#1".
void tell_apart(std::vector<std::string>& names) {
  std::map<std::string, int> nodes_of;
  for (const std::string& name : names) ++nodes_of[name];
  for (std::size_t node = 0; node < names.size(); ++node)
    if (nodes_of[names[node]] > 1) names[node] += fmt::format("#{}", node);
}

}  // namespace

Nodes::Place Nodes::Place::of(const Bootstrap& group) {
  Place place{.node = group.node()};
  if (const auto given = environment("PLAIT_NODE")) place.name = as_text<decltype(name)>(*given);
  else ::gethostname(place.name.data(), place.name.size() - 1);
  return place;
}

Nodes::Nodes(Bootstrap& group, std::span<const Place> places)
    : of_rank_(places.size()),
      ranks_(static_cast<std::size_t>(group.nodes())),
      names_(ranks_.size()),
      here_(group.node()),
      group_here_(&group) {
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    of_rank_[rank] = places[rank].node;
    names_[static_cast<std::size_t>(places[rank].node)] = places[rank].name.data();
  }
  if (are_several()) {
    std::vector<std::string> of_ranks;
    tell_apart(names_);
    for (const int node : of_rank_) of_ranks.push_back(names_[static_cast<std::size_t>(node)]);
    BootstrapHooks::set_node_names(group, std::move(of_ranks));
    split_ = BootstrapHooks::part_of_node(group, of_rank_);
    split_->set_timeout(group.timeout());
    BootstrapHooks::set_interrupt(*split_,
                                  [&group] { BootstrapHooks::throw_if_interrupted(group); });
    group_here_ = split_.get();
  }
  for (int rank = 0; rank < group.size(); ++rank)
    ranks_[static_cast<std::size_t>(of(rank))].push_back(rank);
}

std::string Nodes::name_of_rank(int rank) const {
  return are_several() ? fmt::format("rank {} on node {}", rank, name(of(rank)))
                       : fmt::format("rank {}", rank);
}

}  // namespace plait
