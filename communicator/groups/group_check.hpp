// Checks between the calls of a group, before any of them is enqueued.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "communicator/groups/birth.hpp"
#include "communicator/groups/grouped_call.hpp"

namespace plait {

/// The name of a group in errors, unless it is one call.
inline constexpr std::string_view any_group = "group";

/// A member's calls in a group.
struct MemberCalls {
  std::span<const GroupedCall> calls;
  int rank;
  Birth communicator;
};

/// Throws Error(invalid_argument) if a call writes memory that another call reads or writes, unless
/// a barrier of their communicator lies between them. `what`: the group, or the call that they are
/// parts of.
void check_disjoint(std::span<const MemberCalls> members, std::string_view what = any_group);
/// Throws Error(invalid_argument) unless the messages that the rank sends to itself match those
/// that it receives from itself: in count, type, algorithm and shape.
void check_own_messages(std::span<const GroupedCall> calls, int rank,
                        std::string_view what = any_group);
/// Throws Error(mismatch) if ranks of one communicator pass different places of symmetric memory to
/// a collective, because each looks for its peers' data at its own offset. `members` in the order
/// of communicators. Ranks that others drive find that out when the call has been published.
void check_places(std::span<const MemberCalls> members, std::string_view what = any_group);
/// The symmetric memory of a collective, in words that are the same on all ranks.
std::string describe_places(const PreparedCall& prepared);

}  // namespace plait
