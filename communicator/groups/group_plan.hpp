// How the calls of one communicator in a group become launches.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/groups/grouped_call.hpp"

namespace plait {

/// One call of an algorithm. `calls` are indices of the grouped calls; several share launches.
struct GroupStep {
  const Algorithm* algorithm;
  LaunchShape shape;  // of a single call
  std::vector<std::size_t> calls;
};

/// The calls of one communicator in a group.
struct GroupPlan {
  std::vector<GroupedCall> calls;
  std::vector<GroupStep> steps;
  bool is_group = false;  // else the plan is for one call outside a group
  bool is_published = false;
  LaunchRecord* record = nullptr;  // gets what the plan launches; null: nobody asks
};

/// Decides which calls of one communicator share launches: those of one type, operation and scale
/// that gain by it, and all messages, which come first. Empty messages need no launch. No call
/// moves over a barrier. Except for messages, the plan depends only on facts that are equal on all
/// ranks. `choose_batch`: as Selector::choose_batch. Overwrites `steps` and reuses its memory, and
/// tells each call its step.
void plan_group(std::span<GroupedCall> calls,
                const std::function<const Algorithm*(const Call&)>& choose_batch,
                std::vector<GroupStep>& steps);

}  // namespace plait
