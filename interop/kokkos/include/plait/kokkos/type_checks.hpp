// Compile-time checks of a call's views: one sentence per mistake.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <type_traits>

#include "plait/kokkos/buffers.hpp"
#include "plait/kokkos/spaces.hpp"
#include "plait/kokkos/value_types.hpp"

namespace plait::kokkos::detail {

// Each function returns true if it finds no mistake. Callers go on only then, so a mistake brings
// its own sentence and no others.

template <class View>
constexpr bool is_view() {
  constexpr bool answer = Kokkos::is_view<View>::value;
  static_assert(answer, "plait::kokkos: an argument that should be a Kokkos::View is none");
  return answer;
}

template <class Exec>
constexpr bool execution_space_fits() {
  constexpr bool space = Kokkos::is_execution_space<Exec>::value;
  static_assert(
      space,
      "plait::kokkos: the first argument is neither a communicator nor a Kokkos execution space");
  constexpr bool target = !space || has_target<Exec>;
  static_assert(
      target,
      "plait::kokkos: the execution space runs neither on CUDA, nor on HIP, nor on the host");
  return space && target;
}

enum class Access { read, write };

template <class Exec, class View, Access access>
constexpr bool view_fits() {
  if constexpr (!is_view<View>() || !execution_space_fits<Exec>()) return false;
  else {
    constexpr bool type = has_data_type<typename View::non_const_value_type>;
    static_assert(type,
                  "plait::kokkos: Plait has no data type for the view's value type; it has bool, "
                  "integers, floats of 8 and 16 bits, float, double, complex numbers of the last "
                  "two, and pairs of a value and an int");
    constexpr bool writable =
        access == Access::read ||
        std::is_same_v<typename View::value_type, typename View::non_const_value_type>;
    static_assert(writable,
                  "plait::kokkos: the view that receives the result has a const value type");
    using Layout = typename View::array_layout;
    constexpr bool layout = std::is_same_v<Layout, Kokkos::LayoutLeft> ||
                            std::is_same_v<Layout, Kokkos::LayoutRight> ||
                            std::is_same_v<Layout, Kokkos::LayoutStride>;
    static_assert(
        layout,
        "plait::kokkos: the view's layout is none of LayoutLeft, LayoutRight and LayoutStride");
    constexpr bool accessible =
        Kokkos::SpaceAccessibility<Exec, typename View::memory_space>::accessible;
    static_assert(accessible,
                  "plait::kokkos: the execution space can't access the view's memory space");
    return type && writable && layout && accessible;
  }
}

/// For two messages, the first view read and the second written. Their shapes are independent.
template <class Exec, class Src, class Dst>
constexpr bool messages_fit() {
  constexpr bool src = view_fits<Exec, Src, Access::read>(),
                 dst = view_fits<Exec, Dst, Access::write>();
  if constexpr (!src || !dst) return false;
  else {
    constexpr bool type =
        std::is_same_v<typename Src::non_const_value_type, typename Dst::non_const_value_type>;
    static_assert(type, "plait::kokkos: src and dst have different value types");
    return type;
  }
}

/// For two views of which `All`, one of them or both, have the blocks of all ranks.
template <class Exec, class Src, class Dst, class... All>
constexpr bool displaced_blocks_fit() {
  if constexpr (!messages_fit<Exec, Src, Dst>()) return false;
  else {
    constexpr bool flat = ((rank_of<All> == 1) && ...);
    static_assert(flat,
                  "plait::kokkos: the view with the blocks of all ranks has rank 1, because counts "
                  "are in elements");
    return flat;
  }
}

/// For the two views of a collective, the first read and the second written.
template <class Exec, class Src, class Dst, Collective collective>
constexpr bool views_fit() {
  if constexpr (!messages_fit<Exec, Src, Dst>()) return false;
  else {
    constexpr Blocks blocks = blocks_of(collective);
    constexpr bool equal = blocks.many_sent == blocks.many_received;
    constexpr std::size_t many = blocks.many_sent ? rank_of<Src> : rank_of<Dst>,
                          one = blocks.many_sent ? rank_of<Dst> : rank_of<Src>;
    constexpr bool ranks = equal ? many == one : many == one + 1 || (many == one && one != 0);
    static_assert(ranks || !equal, "plait::kokkos: src and dst have different ranks");
    static_assert(ranks || equal,
                  "plait::kokkos: a view with a block for each rank must have the rank of the view "
                  "of one block, or one rank more");
    constexpr bool dividable = !(equal && blocks.many_sent) || many != 0;
    static_assert(dividable, "plait::kokkos: a view of rank 0 has no blocks, one for each rank");
    // Layouts must be equal, unless one view has a single dimension, or strides are known only at
    // run time.
    using L = typename Src::array_layout;
    using M = typename Dst::array_layout;
    constexpr bool strided =
        std::is_same_v<L, Kokkos::LayoutStride> || std::is_same_v<M, Kokkos::LayoutStride>;
    constexpr bool layouts =
        std::is_same_v<L, M> || strided || rank_of<Src> <= 1 || rank_of<Dst> <= 1;
    static_assert(layouts,
                  "plait::kokkos: one of src and dst is LayoutLeft, the other LayoutRight, so "
                  "their elements are in different orders");
    return ranks && dividable && layouts;
  }
}

/// For one view, in place.
template <class Exec, class View, Collective collective>
constexpr bool view_fits_in_place() {
  if constexpr (!view_fits<Exec, View, Access::write>()) return false;
  else {
    constexpr bool dividable = rank_of<View> != 0 || !(blocks_of(collective).many_sent ||
                                                       blocks_of(collective).many_received);
    static_assert(dividable, "plait::kokkos: a view of rank 0 has no blocks, one for each rank");
    return dividable;
  }
}

/// The execution space of a call without one: the default of the view's memory space.
template <class View>
auto default_space() {
  if constexpr (Kokkos::is_view<View>::value) return typename View::execution_space();
  else return Kokkos::DefaultHostExecutionSpace();  // view_fits reports that it is no view
}

}  // namespace plait::kokkos::detail
