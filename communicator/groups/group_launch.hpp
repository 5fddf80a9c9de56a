// How the planned calls of a group are enqueued: in which turns, and after which memory has grown.
#pragma once
#include <cstddef>
#include <vector>

#include "communicator/groups/group_member.hpp"
#include "communicator/groups/group_plan.hpp"

namespace plait {

/// Calls of one member up to which enqueueing them all waits for none of them: they fit into the
/// smallest work FIFO and into a device's queue of launches.
inline constexpr std::size_t calls_in_turn = 32;

/// The calls of one member.
struct PlannedPart {
  GroupMember* member;
  GroupPlan plan;
};

/// Submits all parts, in their order where they share a queue. If one can't be enqueued, all
/// members are aborted, and its error is thrown.
void enqueue_parts(std::vector<PlannedPart>& parts);

}  // namespace plait
