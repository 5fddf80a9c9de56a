// The two trees of the tree all-reduce, and the steps of a block. Plain arithmetic; unit tests
// simulate it.
#pragma once
#include <cstdint>

#include "backends/device/target.hpp"

namespace plait::tree {

/// A rank's place in one of two binary trees over all ranks. A rank has children in at most one of
/// the trees (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
/// reduction and scan").
///
/// Positions 1 .. n form a search tree. The number of zero bits at the end of a position is its
/// height in the complete tree, so odd positions are leaves and the largest power of two is the
/// root. Where n cuts the complete tree off, a missing node's left child takes its place. In tree
/// 0, rank r has position r + 1. In tree 1 all ranks are shifted by one place, so even positions
/// become odd. (Rank 0 comes last there; its position in tree 0 is odd.)
struct Place {
  int rank, ranks, tree;

  static constexpr int none = -1;

  PLAIT_DEVICE constexpr int position() const {
    return tree == 0 ? rank + 1 : rank == 0 ? ranks : rank;
  }
  PLAIT_DEVICE constexpr int rank_at(int p) const { return tree == 0 ? p - 1 : p == ranks ? 0 : p; }

  /// A rank, or none.
  PLAIT_DEVICE constexpr int parent() const {
    const int above = parent_of(position());
    return above == 0 ? none : rank_at(above);
  }
  PLAIT_DEVICE constexpr int child(int which) const {
    const int half = lowest_bit(position()) / 2;
    if (half == 0) return none;
    if (which == 0) return rank_at(position() - half);
    int p = position() + half;
    while (p > ranks && lowest_bit(p) > 1) p -= lowest_bit(p) / 2;
    return p > ranks ? none : rank_at(p);  // there may be no rank to its right
  }
  /// Hops to the root.
  PLAIT_DEVICE constexpr int depth() const {
    int hops = 0;
    for (int p = parent_of(position()); p != 0; p = parent_of(p)) ++hops;
    return hops;
  }
  /// The depth of the deepest rank.
  PLAIT_DEVICE static constexpr int height(int ranks) {
    int hops = 0;
    while ((2 << hops) <= ranks) ++hops;
    return hops;
  }

 private:
  PLAIT_DEVICE static constexpr int lowest_bit(int p) { return p & -p; }
  /// The parent's position; 0 if there is none.
  PLAIT_DEVICE constexpr int parent_of(int p) const {
    const int bit = lowest_bit(p);
    const int above = (p - bit) | (2 * bit);
    return above <= ranks ? above : p - bit;
  }
};

/// A rank's neighbours in a tree, each a rank or `none`. The host looks them up before a launch.
struct Relatives {
  int parent, child[2], depth;

  static constexpr Relatives of(const Place& place) {
    return {place.parent(), {place.child(0), place.child(1)}, place.depth()};
  }
  PLAIT_DEVICE constexpr bool is_root() const { return parent == Place::none; }
};

/// The steps of a block: chunks go up in the order of steps, and come down `lag` steps later.
struct Steps {
  std::uint32_t chunks, lag;

  static constexpr std::uint32_t slots = 4;  // of a channel
  /// Steps from a chunk's way up to its way down, per hop from the root.
  static constexpr std::uint32_t lag_per_hop = 3;
  static_assert(1 <= lag_per_hop && lag_per_hop < slots);

  PLAIT_DEVICE static constexpr Steps of(std::uint32_t chunks, int depth) {
    return {chunks, static_cast<std::uint32_t>(depth) * lag_per_hop};
  }
  PLAIT_DEVICE constexpr std::uint32_t count() const { return chunks == 0 ? 0 : chunks + lag; }
  PLAIT_DEVICE constexpr bool goes_up(std::uint32_t step) const { return step < chunks; }
  /// Unsigned: false for steps below lag.
  PLAIT_DEVICE constexpr bool comes_down(std::uint32_t step) const { return step - lag < chunks; }
};

}  // namespace plait::tree
