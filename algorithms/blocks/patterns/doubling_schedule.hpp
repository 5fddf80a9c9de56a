// Ranks as corners of a hypercube, and the messages of recursive doubling among them, for any
// number of ranks. Plain arithmetic; unit tests check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/target.hpp"

namespace plait {

/// Let p be the largest power of two up to n. The first p ranks are the corners, and have a partner
/// in each round. Each rank r from p to n - 1 is a guest of rank r - p, its host. The host adds the
/// guest's input before the rounds, and sends it the result after them.
struct Hypercube {
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
  PLAIT_DEVICE constexpr int rounds() const {
    int s = 0;
    while ((2 << s) <= ranks) ++s;
    return s;
  }
  PLAIT_DEVICE constexpr int partner(int round) const { return rank ^ (1 << round); }
};

/// The schedule of one rank. The first p ranks are the corners of a hypercube; guests send first
/// and receive last. Made on the host, because kernels ask often.
struct DoublingSchedule {
  /// A message to or from `peer`, in one of the receiver's steps. Without a peer nothing moves.
  struct Message {
    int peer = -1;
    int step = 0;
    PLAIT_DEVICE constexpr bool exists() const { return peer >= 0; }
  };

  int rank;
  int rounds;  // of doubling
  /// In each stage, a rank receives at most one message, adds it to its partial result, and sends
  /// that to at most one peer.
  int stages;
  bool is_guest;
  bool has_guests;  // any rank
  int guest;        // of this rank; -1: none
  int distance;     // the bit in which the number of the first partner, or of the host, differs

  static constexpr DoublingSchedule of(int rank, int ranks) {
    const Hypercube cube{rank, ranks};
    const int rounds = cube.rounds();
    return {.rank = rank,
            .rounds = rounds,
            .stages = cube.is_guest() ? 2 : rounds + 1,
            .is_guest = cube.is_guest(),
            .has_guests = cube.core() != ranks,
            .guest = cube.has_guest() ? cube.guest() : -1,
            .distance = cube.is_guest() ? cube.core() : 1};
  }

  /// The steps in which a rank receives: one per round of doubling, and one for the guest's input
  /// (at a guest: for the result).
  PLAIT_DEVICE constexpr int steps() const { return rounds + 1; }

  PLAIT_DEVICE constexpr Message incoming(int stage) const {
    if (stage == 0) return {guest, rounds};
    return {partner(stage - 1), is_guest ? rounds : stage - 1};
  }
  PLAIT_DEVICE constexpr Message outgoing(int stage) const {
    if (stage + 1 == stages) return {guest, rounds};
    return {partner(stage), is_guest ? rounds : stage};
  }

 private:
  PLAIT_DEVICE constexpr int partner(int round) const { return rank ^ (distance << round); }
};

}  // namespace plait
