// Two binary trees over all ranks. Plain arithmetic; unit tests check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <initializer_list>

#include "backends/device/target.hpp"

namespace plait {

/// A rank's place in one of two binary trees over all ranks. A rank has children in at most one of
/// the trees (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
/// reduction and scan").
///
/// Positions 1 .. n form a search tree. The number of zero bits at the end of a position is its
/// height in the complete tree, so odd positions are leaves and the largest power of two is the
/// root. Where n cuts the complete tree off, a missing node's left child takes its place. In tree
/// 0, rank r has position r + 1. In tree 1 all ranks are shifted by one place, so even positions
/// become odd. (Rank 0 comes last there; its position in tree 0 is odd.)
struct TreePlace {
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
struct TreeRelatives {
  int parent, child[2], depth;

  static constexpr TreeRelatives of(const TreePlace& place) {
    return {place.parent(), {place.child(0), place.child(1)}, place.depth()};
  }
  PLAIT_DEVICE constexpr bool is_root() const { return parent == TreePlace::none; }
};

/// The most edges of both trees that lead out of `together` ranks in a row.
inline int most_edges(int ranks, int together) {
  int most = 0;
  for (int begin = 0; begin < ranks; begin += together) {
    const int end = begin + together < ranks ? begin + together : ranks;
    int edges = 0;
    for (int rank = begin; rank < end; ++rank)
      for (const int tree : {0, 1}) {
        const TreeRelatives family = TreeRelatives::of({rank, ranks, tree});
        for (const int other : {family.parent, family.child[0], family.child[1]})
          if (other != TreePlace::none && (other < begin || other >= end)) ++edges;
      }
    if (edges > most) most = edges;
  }
  return most;
}

}  // namespace plait
