// Reductions of user-defined elements by a user-defined operation, in kernels that were written for
// numbers.
//
//     struct Better {
//       PLAIT_ELEMENT Candidate operator()(const Candidate& a, const Candidate& b) const { ... }
//     };
//     template <>
//     class plait::Reducer<Candidate> : public plait::OwnReducer<Candidate, Better> {
//       using OwnReducer::OwnReducer;
//     };
//     template <>
//     struct plait::DataTypeOf<Candidate> {  // of equal size: calls carry it
//       static constexpr DataType value = DataType::u64;
//     };
//
// With these, `ring::Kernel<Candidate>` and the like are kernels for Candidate.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <type_traits>

#include "backends/device/pack.hpp"

namespace plait {

/// Whether elements of the type may be aligned to less than their size. Those of an application
/// may not.
template <class T>
inline constexpr bool has_own_alignment = false;

/// A `Reducer` for an operation `Operation()(a, b)` that is associative and commutative. Kernels
/// combine the ranks in different orders, but all ranks get the same bits. The ReduceOp that a call
/// names does not matter, unless the operation is made of a `Reduction`.
///
/// Elements are trivially copyable, have 1, 2, 4 or 8 bytes like the data types, and are aligned to
/// their size. Zeroed elements pad incomplete packs; their results are never used.
template <class T, class Operation>
class OwnReducer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                "elements are copied as bytes");
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 ||
                    has_own_alignment<T>,
                "elements are as large as one of the data types");
  static_assert(alignof(T) == sizeof(T) || has_own_alignment<T>,
                "alignas(sizeof(T)), so that elements are moved whole");

 public:
  using A = T;
  template <std::size_t Lanes>
  struct Accumulator {
    T lane[Lanes];
  };

  PLAIT_ELEMENT explicit OwnReducer([[maybe_unused]] const Reduction& reduction)
      : operation_(operation(reduction)) {}
  static constexpr bool has_trees = false;
  PLAIT_ELEMENT bool in_tree() const { return false; }
  PLAIT_ELEMENT bool multiplies() const { return true; }  // perhaps: see `term`

  template <std::size_t Bytes>
  PLAIT_ELEMENT auto start(const Pack<T, Bytes>& pack) const {
    Accumulator<Pack<T, Bytes>::lanes> acc;
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Pack<T, Bytes>::lanes; ++i) acc.lane[i] = term(pack.lane[i]);
    return acc;
  }
  template <std::size_t Bytes, std::size_t Lanes = Pack<T, Bytes>::lanes>
  PLAIT_ELEMENT void add(Accumulator<Lanes>& acc, const Pack<T, Bytes>& pack) const {
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Lanes; ++i)
      acc.lane[i] = operation_(acc.lane[i], term(pack.lane[i]));
  }
  template <std::size_t Bytes, std::size_t Lanes, int Count>
  PLAIT_ELEMENT void add_each(Accumulator<Lanes> (&acc)[Count],
                              const Pack<T, Bytes> (&packs)[Count]) const {
    PLAIT_UNROLL
    for (int k = 0; k < Count; ++k) add(acc[k], packs[k]);
  }
  template <std::size_t Bytes, std::size_t Lanes>
  PLAIT_ELEMENT Pack<T, Bytes> finish(const Accumulator<Lanes>& acc) const {
    Pack<T, Bytes> pack;
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Lanes; ++i) pack.lane[i] = acc.lane[i];
    return pack;
  }

  template <std::size_t Lanes>
  PLAIT_ELEMENT void average(Accumulator<Lanes>&) const {}

  // Partial results travel unconverted.
  template <std::size_t Bytes>
  PLAIT_ELEMENT auto widened(const Pack<T, Bytes>& partial) const {
    return start(partial);
  }
  template <std::size_t Bytes, std::size_t Lanes = Pack<T, Bytes>::lanes>
  PLAIT_ELEMENT void add_partial(Accumulator<Lanes>& acc, const Pack<T, Bytes>& partial) const {
    add(acc, partial);
  }
  template <std::size_t Bytes, std::size_t Lanes>
  PLAIT_ELEMENT Pack<T, Bytes> rounded(const Accumulator<Lanes>& acc) const {
    return finish<Bytes>(acc);
  }

 private:
  /// A rank's element, changed by the operation's own `term` if it has one.
  PLAIT_ELEMENT T term(const T& x) const {
    if constexpr (requires { operation_.term(x); }) {
      return operation_.term(x);
    } else {
      return x;
    }
  }
  PLAIT_ELEMENT static Operation operation([[maybe_unused]] const Reduction& reduction) {
    if constexpr (std::is_constructible_v<Operation, const Reduction&>) {
      return Operation(reduction);
    } else {
      return Operation();
    }
  }
  Operation operation_;
};

}  // namespace plait
