#include "bootstrap/nodes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "bootstrap/bootstrap_hooks.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

using Name = std::array<char, 64>;

Name own_name() {
  if (const auto given = environment("PLAIT_NODE")) return as_text<Name>(*given);
  Name name{};
  ::gethostname(name.data(), name.size() - 1);
  return name;
}

/// Adds their numbers to the names that several nodes have: "localhost#0", "localhost#1".
void tell_apart(std::vector<std::string>& names) {
  const std::vector<std::string> given = names;
  for (std::size_t node = 0; node < names.size(); ++node)
    if (std::count(given.begin(), given.end(), given[node]) > 1)
      names[node] += fmt::format("#{}", node);
}

}  // namespace

Nodes::Nodes(Bootstrap& group)
    : of_rank_(static_cast<std::size_t>(group.size()), 0),
      ranks_(static_cast<std::size_t>(group.nodes())),
      names_(ranks_.size()),
      here_(group.node()),
      group_here_(&group) {
  if (are_several()) {
    struct Place {
      int node;
      Name name;
    };
    const auto places = group.all_gather(Place{here_, own_name()});
    std::vector<std::string> of_ranks;
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      of_rank_[rank] = places[rank].node;
      names_[static_cast<std::size_t>(places[rank].node)] = places[rank].name.data();
    }
    tell_apart(names_);
    for (const int node : of_rank_) of_ranks.push_back(names_[static_cast<std::size_t>(node)]);
    BootstrapHooks::set_node_names(group, std::move(of_ranks));
    split_ = group.split_by_node();
    split_->set_timeout(group.timeout());
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
