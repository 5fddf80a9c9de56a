// Senders, receivers and blocks of data in a collective of one hop.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

/// The same on every rank.
struct DirectPattern {
  bool root_sends, root_receives;  // only the root sends (receives); otherwise every rank does
  bool block_per_target;           // block p of `send` is for rank p; otherwise all get the same
  bool block_per_source;           // the data from rank p becomes block p of `recv`
  bool reduces;                    // data of several ranks is added up; otherwise it is stored
                                   // block by block
  int root;

  /// Whether both are the pattern of one collective; the roots may differ.
  constexpr bool is_like(const DirectPattern& other) const {
    return root_sends == other.root_sends && root_receives == other.root_receives &&
           block_per_target == other.block_per_target &&
           block_per_source == other.block_per_source && reduces == other.reduces;
  }
  PLAIT_DEVICE constexpr bool rooted() const { return root_sends || root_receives; }
  PLAIT_DEVICE constexpr bool sends(int from, int to) const {
    return (!root_sends || from == root) && (!root_receives || to == root);
  }
  /// The first element of the block of `count` elements for, or from, a rank.
  PLAIT_DEVICE constexpr std::size_t send_begin(int target, std::size_t count) const {
    return block_per_target ? static_cast<unsigned>(target) * count : 0;
  }
  PLAIT_DEVICE constexpr std::size_t recv_begin(int source, std::size_t count) const {
    return block_per_source ? static_cast<unsigned>(source) * count : 0;
  }
};

/// The patterns of collectives, without their root.
namespace direct_patterns {
inline constexpr int any_root = 0;
inline constexpr DirectPattern all_gather{false, false, false, true, false, any_root};
inline constexpr DirectPattern broadcast{true, false, false, false, false, any_root};
inline constexpr DirectPattern all_to_all{false, false, true, true, false, any_root};
inline constexpr DirectPattern gather{false, true, false, true, false, any_root};
inline constexpr DirectPattern scatter{true, false, true, false, false, any_root};
inline constexpr DirectPattern reduce_scatter{false, false, true, false, true, any_root};
inline constexpr DirectPattern reduce{false, true, false, false, true, any_root};
}  // namespace direct_patterns

/// For code that serves every collective: the pattern is that of the launch.
struct AnyPattern {
  PLAIT_DEVICE static constexpr DirectPattern of(const DirectPattern& pattern) { return pattern; }
};
/// For code that serves one collective: only the root is that of the launch.
template <DirectPattern Fixed>
struct FixedPattern {
  PLAIT_DEVICE static constexpr DirectPattern of(const DirectPattern& pattern) {
    DirectPattern known = Fixed;
    known.root = pattern.root;
    return known;
  }
};

/// Collectives, each with a case of the kernel for itself.
template <DirectPattern... Fixed>
struct FixedPatterns {
  static constexpr unsigned count = sizeof...(Fixed);
  template <template <class Pattern> class Case>
  using Cases = TypeList<Case<FixedPattern<Fixed>>...>;
  /// The position of a pattern in `Cases`; `count` if it has none.
  static constexpr unsigned number_of(const DirectPattern& pattern) {
    unsigned number = 0;
    static_cast<void>((... || (Fixed.is_like(pattern) || (++number, false))));
    return number;
  }
};

}  // namespace plait
