// One order of all communicators, which decides the order of a group's parts.
#pragma once
#include <compare>
#include <cstdint>
#include <span>

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

  /// For memory that the communicator's ranks allocate together: another number for each `use`.
  std::uint64_t token_of(unsigned use) const { return token + (std::uint64_t{use} << 32); }

  friend auto operator<=>(const Birth&, const Birth&) = default;
};

/// This rank's proposal, which it sends to all ranks of the communicator.
Birth propose_birth();
/// The one that all ranks agree on, of the proposals of all.
Birth settle_birth(std::span<const Birth> proposals);

}  // namespace plait
