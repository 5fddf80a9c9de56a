// Who sends what to whom in a collective of one hop.
#pragma once
#include "backends/device.hpp"

namespace plait {

/// Every rank knows all of it.
struct DirectPattern {
  bool root_sends, root_receives;       // only the root does; else every rank
  bool block_a_target, block_a_source;  // block p of `send` is for rank p, else all get the same; what p sends becomes block p of `recv`
  bool reduces;                         // else what several ranks send is stored block by block
  int root;

  PLAIT_DEVICE constexpr bool rooted() const { return root_sends || root_receives; }
  PLAIT_DEVICE constexpr bool sends(int from, int to) const { return (!root_sends || from == root) && (!root_receives || to == root); }
  /// Where, in elements, the block of `count` for, or from, a rank begins.
  PLAIT_DEVICE constexpr std::size_t send_begin(int target, std::size_t count) const {
    return block_a_target ? static_cast<unsigned>(target) * count : 0;
  }
  PLAIT_DEVICE constexpr std::size_t recv_begin(int source, std::size_t count) const {
    return block_a_source ? static_cast<unsigned>(source) * count : 0;
  }
};

}  // namespace plait
