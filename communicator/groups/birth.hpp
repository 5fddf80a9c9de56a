// One order of all communicators, which decides the order of a group's parts.
#pragma once
#include <compare>
#include <cstdint>

#include "plait/bootstrap.hpp"

namespace plait {

/// When a communicator was made, by a clock that its ranks agree on. The same on all of its ranks,
/// and of no other communicator. A communicator that a rank, or any thread of its process, made
/// before another has the lesser one; so a parent comes before its parts and duplicates.
///
/// Births are compared as pairs of numbers, so all ranks order all communicators alike, and there
/// is no cycle over several ranks: a before b on one, b before c on the next, c before a on a
/// third.
struct Birth {
  std::uint64_t time = 0;   // by Lamport's clock (1978), which ticks with each creation
  std::uint64_t token = 0;  // random: tells apart what several threads make at the same time

  friend auto operator<=>(const Birth&, const Birth&) = default;
};

/// Collective.
Birth agree_on_birth(Bootstrap& bootstrap);

}  // namespace plait
