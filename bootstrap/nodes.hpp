// Which ranks of a group share a node.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"

namespace plait {

class Nodes {
 public:
  /// What each rank says of its node.
  struct Place {
    int node = 0;  // Bootstrap::node
    std::array<char, 64> name{};

    static Place of(const Bootstrap& group);
  };
  /// Collective. `places`: those of all ranks. `group` outlives this object.
  Nodes(Bootstrap& group, std::span<const Place> places);

  int count() const noexcept { return static_cast<int>(ranks_.size()); }
  bool are_several() const noexcept { return count() > 1; }
  /// Nodes are numbered in the order in which they appear among the ranks.
  int of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  int here() const noexcept { return here_; }
  /// This rank's number among the ranks of its node.
  int local_rank() const noexcept { return group_here_->local_rank(); }
  bool is_here(int rank) const { return of(rank) == here_; }
  /// The ranks on a node, in rising order.
  const std::vector<int>& ranks(int node) const { return ranks_[static_cast<std::size_t>(node)]; }
  const std::vector<int>& ranks_here() const { return ranks(here_); }
  /// "n1": what PLAIT_NODE says there, else the host's name, with the node's number if several
  /// nodes have that name: "localhost#1".
  const std::string& name(int node) const { return names_[static_cast<std::size_t>(node)]; }
  /// "rank 5" or, if there are several nodes, "rank 5 on node n1".
  std::string name_of_rank(int rank) const;
  /// The group of the ranks on this node, in the same order: `group` itself if there is only one
  /// node.
  Bootstrap& group_here() const noexcept { return *group_here_; }

 private:
  std::vector<int> of_rank_;
  std::vector<std::vector<int>> ranks_;
  std::vector<std::string> names_;
  int here_;
  std::unique_ptr<Bootstrap> split_;
  Bootstrap* group_here_;
};

}  // namespace plait
