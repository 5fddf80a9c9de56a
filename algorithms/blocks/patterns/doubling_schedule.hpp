// The messages of recursive doubling, for any number of ranks. Plain arithmetic; unit tests check
// it.
#pragma once
#include "algorithms/blocks/patterns/hypercube.hpp"

namespace plait {

/// The schedule of one rank. The first p ranks are the corners of a hypercube; guests send first
/// and receive last.
struct DoublingSchedule : Hypercube {
  /// A packet to or from `peer`, in one of the receiver's steps. Without a peer nothing moves.
  struct Message {
    int peer = -1;
    int step = 0;
    PLAIT_DEVICE constexpr bool exists() const { return peer >= 0; }
  };

  /// The steps in which a rank receives: one per round of doubling, and one for the guest's input
  /// (at a guest: for the result).
  PLAIT_DEVICE constexpr int steps() const { return rounds() + 1; }
  PLAIT_DEVICE constexpr int guest_step() const { return rounds(); }

  /// In each stage, a rank receives at most one message, adds it to its partial result, and sends
  /// that to at most one peer.
  PLAIT_DEVICE constexpr int stages() const { return is_guest() ? 2 : rounds() + 1; }
  PLAIT_DEVICE constexpr Message incoming(int stage) const {
    if (is_guest()) return stage == 1 ? Message{host(), guest_step()} : Message{};
    if (stage == 0) return has_guest() ? Message{guest(), guest_step()} : Message{};
    return {partner(stage - 1), stage - 1};
  }
  PLAIT_DEVICE constexpr Message outgoing(int stage) const {
    if (is_guest()) return stage == 0 ? Message{host(), guest_step()} : Message{};
    if (stage < rounds()) return {partner(stage), stage};
    return has_guest() ? Message{guest(), guest_step()} : Message{};
  }
};

}  // namespace plait
