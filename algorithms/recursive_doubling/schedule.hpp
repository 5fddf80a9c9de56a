// Who talks to whom in recursive doubling, for any number of ranks. Plain arithmetic, checked by unit tests.
#pragma once
#include "backends/target.hpp"

namespace plait::recursive_doubling {

/// With p the largest power of two up to n: ranks p .. n-1 are guests of rank - p, which folds their input in before the doubling among the
/// first p ranks and hands them the result after it.
struct Schedule {
  int rank, ranks;

  PLAIT_DEVICE constexpr int core() const {  // p
    int p = 1;
    while (p * 2 <= ranks) p *= 2;
    return p;
  }
  PLAIT_DEVICE constexpr bool is_guest() const { return rank >= core(); }
  PLAIT_DEVICE constexpr int host() const { return rank - core(); }
  PLAIT_DEVICE constexpr int guest() const { return rank + core(); }
  PLAIT_DEVICE constexpr bool has_guest() const { return !is_guest() && guest() < ranks; }
  PLAIT_DEVICE constexpr int rounds() const {  // of the doubling
    int s = 0;
    while ((2 << s) <= ranks) ++s;
    return s;
  }
  PLAIT_DEVICE constexpr int partner(int round) const { return rank ^ (1 << round); }

  /// A packet to or from a peer, in one of the receiver's steps; no peer: nothing moves.
  struct Message {
    int peer = -1;
    int step = 0;
    PLAIT_DEVICE constexpr bool exists() const { return peer >= 0; }
  };

  /// Steps a rank receives in: one a round of doubling, one for the guest's input (or, at a guest, for the result).
  PLAIT_DEVICE constexpr int steps() const { return rounds() + 1; }
  PLAIT_DEVICE constexpr int guest_step() const { return rounds(); }

  /// Stages of a rank. In each it receives at most one message, adds it to its partial result and sends that on to at most one peer.
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

}  // namespace plait::recursive_doubling
