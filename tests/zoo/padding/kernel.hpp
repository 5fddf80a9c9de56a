// Kernels that exchange lines, for elements that tell what was sent from what lies in memory by
// chance. For the host alone.
#pragma once
#include <atomic>

#include "algorithms/all_reduce/oneshot_ll/oneshot_ll128_kernel.hpp"
#include "algorithms/all_reduce/twoshot_ll/twoshot_ll128_kernel.hpp"
#include "algorithms/one_hop/direct_ll/direct_ll128_kernel.hpp"
#include "algorithms/rooted/relay_ll128/kernel.hpp"
#include "backends/device/own_reducer.hpp"

namespace plait::test {

struct alignas(8) Marked {
  static constexpr std::uint32_t right = 0x600dda7a;
  std::uint32_t value, mark;

  /// Sent, or beyond the end of a message, where elements are zeroed.
  bool is_known() const { return mark == right || (value == 0 && mark == 0); }
};

/// Additions of anything else.
inline std::atomic<int> sums_of_padding{0};

struct MarkedSum {
  Marked operator()(const Marked& a, const Marked& b) const {
    if (!a.is_known() || !b.is_known()) ++sums_of_padding;
    return {a.value + b.value, Marked::right};
  }
};

}  // namespace plait::test

template <>
struct plait::DataTypeOf<plait::test::Marked> {
  static constexpr DataType value = DataType::f64;
};
template <>
class plait::Reducer<plait::test::Marked>
    : public plait::OwnReducer<plait::test::Marked, plait::test::MarkedSum> {
  using OwnReducer::OwnReducer;
};

#define PLAIT_TEST_FAMILY(name, original)      \
  namespace plait::name {                      \
  using Types = TypeList<plait::test::Marked>; \
  using original::Args;                        \
  using original::Kernel;                      \
  }
PLAIT_TEST_FAMILY(marked_oneshot, oneshot_ll128)
PLAIT_TEST_FAMILY(marked_twoshot, twoshot_ll128)
PLAIT_TEST_FAMILY(marked_direct, direct_ll128)
PLAIT_TEST_FAMILY(marked_relay, relay_ll128)
#undef PLAIT_TEST_FAMILY
