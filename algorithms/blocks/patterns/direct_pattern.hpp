// Who sends what to whom in a collective of one hop.
#pragma once
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait {

/// Every rank knows all of it.
struct DirectPattern {
  bool root_sends, root_receives;       // only the root does; else every rank
  bool block_a_target, block_a_source;  // block p of `send` is for rank p, else all get the same;
                                        // what p sends becomes block p of `recv`
  bool reduces;                         // else what several ranks send is stored block by block
  int root;

  /// Whether it is that of the same collective, with whichever root.
  constexpr bool is_like(const DirectPattern& other) const {
    return root_sends == other.root_sends && root_receives == other.root_receives &&
           block_a_target == other.block_a_target && block_a_source == other.block_a_source &&
           reduces == other.reduces;
  }
  PLAIT_DEVICE constexpr bool rooted() const { return root_sends || root_receives; }
  PLAIT_DEVICE constexpr bool sends(int from, int to) const {
    return (!root_sends || from == root) && (!root_receives || to == root);
  }
  /// Where, in elements, the block of `count` for, or from, a rank begins.
  PLAIT_DEVICE constexpr std::size_t send_begin(int target, std::size_t count) const {
    return block_a_target ? static_cast<unsigned>(target) * count : 0;
  }
  PLAIT_DEVICE constexpr std::size_t recv_begin(int source, std::size_t count) const {
    return block_a_source ? static_cast<unsigned>(source) * count : 0;
  }
};

/// What is compiled for one collective alone knows its pattern, but for the root.
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

/// The pattern of a launch, for code that serves any.
struct AnyPattern {
  PLAIT_DEVICE static constexpr DirectPattern of(const DirectPattern& pattern) { return pattern; }
};
/// For code that serves one collective.
template <DirectPattern Fixed>
struct FixedPattern {
  PLAIT_DEVICE static constexpr DirectPattern of(const DirectPattern& pattern) {
    DirectPattern known = Fixed;
    known.root = pattern.root;
    return known;
  }
};

/// Collectives that have a code each.
template <DirectPattern... Fixed>
struct FixedPatterns {
  static constexpr unsigned count = sizeof...(Fixed);
  template <template <class Pattern> class Code>
  using Codes = TypeList<Code<FixedPattern<Fixed>>...>;
  /// Which of them it is; `count` if none.
  static constexpr unsigned number_of(const DirectPattern& pattern) {
    unsigned number = 0;
    static_cast<void>((... || (Fixed.is_like(pattern) || (++number, false))));
    return number;
  }
};

}  // namespace plait
