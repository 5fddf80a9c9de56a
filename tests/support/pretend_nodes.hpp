// Ranks that are threads of the test and believe to be on several nodes.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/bootstrap.hpp"
#include "plait/plait.hpp"
#include "support/ranks.hpp"

namespace plait::test {

/// The number of ranks on each node.
using Sizes = std::vector<int>;

/// The node of each rank.
inline std::vector<int> nodes_of(const Sizes& sizes) {
  std::vector<int> nodes;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    nodes.insert(nodes.end(), static_cast<std::size_t>(sizes[node]), static_cast<int>(node));
  return nodes;
}
inline constexpr auto name_of_sizes = [](const auto& instance) {
  std::string name = "nodes";
  for (const int size : instance.param) name += "x" + std::to_string(size);
  return name;
};

class PretendNodes final : public Bootstrap {
 public:
  /// `nodes`: the node of each rank of `inner`.
  PretendNodes(std::unique_ptr<Bootstrap> inner, std::vector<int> nodes)
      : inner_(std::move(inner)), nodes_of_(std::move(nodes)) {
    set_timeout(inner_->timeout());
    set_nodes(nodes_of_);
    set_parent_ranks(inner_->parent_ranks());
  }
  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    ++exchanges_;
    inner_->all_gather(in, out, bytes);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    ++exchanges_;
    inner_->broadcast(data, bytes, root);
  }
  void barrier() override {
    ++exchanges_;
    inner_->barrier();
  }
  void abandon(const std::string& why, bool rank_lost) noexcept override {
    BootstrapHooks::abandon(*inner_, why, rank_lost);
  }
  std::unique_ptr<Bootstrap> split(int color, int key) override {
    ++exchanges_;
    return part_of(color, key);
  }
  std::unique_ptr<Bootstrap> part_of_node(const std::vector<int>& node_of_rank) override {
    return part_of(node_of_rank[static_cast<std::size_t>(rank())], rank());
  }
  /// Calls in which all ranks have met, which takes the time of a message between nodes each.
  int exchanges() const noexcept { return exchanges_; }

 private:
  std::unique_ptr<Bootstrap> part_of(int color, int key) {
    auto part = inner_->split(color, key);
    std::vector<int> nodes;
    for (const int rank : part->parent_ranks())
      nodes.push_back(nodes_of_[static_cast<std::size_t>(rank)]);
    return std::make_unique<PretendNodes>(std::move(part), std::move(nodes));
  }

  std::unique_ptr<Bootstrap> inner_;
  std::vector<int> nodes_of_;
  int exchanges_ = 0;
};

/// `body(comm, arena)` on fresh communicators. `nodes`: of each rank; `capacity`: of the arenas.
/// Ranks have different devices, as if each node had those alone that its ranks have.
template <class Body>
void run_on_nodes(const std::vector<int>& nodes, const CommunicatorOptions& options,
                  std::size_t capacity, Body body) {
  const int ranks = static_cast<int>(nodes.size());
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
    bootstrap->set_timeout(patience);
    CommunicatorOptions own = test_options(options);
    if (target() != BackendKind::host) own.device = rank;
    Communicator comm =
        Communicator::create(std::make_unique<PretendNodes>(std::move(bootstrap), nodes), own);
    Arena arena(comm, capacity);
    body(comm, arena);
  });
}

}  // namespace plait::test
