// Elements of two words, which few algorithms have kernels for, and the lists of types with them.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <type_traits>

#include "backends/device/kernel_table.hpp"
#include "backends/device/numeric.hpp"
#include "backends/device/own_reducer.hpp"

namespace plait {

/// A complex number, or a value and its index. Aligned as its words are: so are std::complex and
/// MPI's pairs.
template <class Word>
struct Pair {
  Word first, second;
};
template <class Word>
inline constexpr bool has_own_alignment<Pair<Word>> = true;

/// The operations that only pairs have. Sums and averages of complex numbers are those of twice as
/// many floats (`in_words`), so of these only the product is here.
template <class Word>
class PairOperation {
 public:
  using P = Pair<Word>;
  using Float = std::conditional_t<sizeof(Word) == 4, float, double>;

  PLAIT_ELEMENT explicit PairOperation(const Reduction& reduction)
      : elements_(reduction.elements), least_(reduction.op == ReduceOp::minloc) {}

  PLAIT_ELEMENT P operator()(P a, P b) const {
    if (elements_ == Elements::complex) return product(a, b);
    return elements_ == Elements::float_and_index ? winner<Float>(a, b)
                                                  : winner<std::make_signed_t<Word>>(a, b);
  }

  /// Replaces each NaN by the only one: a single rank's term becomes the result, and `winner` may
  /// decide by the bits.
  PLAIT_ELEMENT P term(P x) const {
    if (elements_ == Elements::complex)
      return {with_one_nan_in(x.first), with_one_nan_in(x.second)};
    return {elements_ == Elements::float_and_index ? with_one_nan_in(x.first) : x.first, x.second};
  }

 private:
  PLAIT_ELEMENT static Word with_one_nan_in(Word word) {
    return bits_as<Word>(with_one_nan(bits_as<Float>(word)));
  }
  PLAIT_ELEMENT static P product(P a, P b) {
    const auto ar = bits_as<Float>(a.first), ai = bits_as<Float>(a.second),
               br = bits_as<Float>(b.first), bi = bits_as<Float>(b.second);
    return {bits_as<Word>(with_one_nan(ar * br - ai * bi)),
            bits_as<Word>(with_one_nan(ar * bi + ai * br))};
  }

  /// Chooses the words one by one: a choice between two addresses would put the pairs in memory.
  template <class Value>
  PLAIT_ELEMENT P winner(P a, P b) const {
    const auto x = bits_as<Value>(a.first), y = bits_as<Value>(b.first);
    const bool equal = !wins(x, y) && !wins(y, x), same_index = index(a) == index(b);
    // Of zeros of either sign, or different padding, the bits decide, so that no order of the
    // terms gives another result.
    const bool less_bits = b.first < a.first || (b.first == a.first && b.second < a.second);
    const bool second = wins(y, x) || (equal && (same_index ? less_bits : index(b) < index(a)));
    return {second ? b.first : a.first, second ? b.second : a.second};
  }
  /// Whether x wins over y whatever their indices are. A number wins over a NaN.
  template <class Value>
  PLAIT_ELEMENT bool wins(Value x, Value y) const {
    return (least_ ? x < y : y < x) || (y != y && x == x);
  }
  /// In the low half of the second word, if that has 64 bits: all targets are little-endian.
  PLAIT_ELEMENT static std::int32_t index(P pair) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(pair.second));
  }

  Elements elements_;
  bool least_;
};

template <class Word>
class Reducer<Pair<Word>> : public OwnReducer<Pair<Word>, PairOperation<Word>> {
  using OwnReducer<Pair<Word>, PairOperation<Word>>::OwnReducer;

 public:
  static constexpr bool has_trees = true;  // products of complex numbers
};

template <class Word>
struct DataTypeOf<Pair<Word>> {  // one of those that it stands for
  static constexpr DataType value =
      sizeof(Word) == 4 ? DataType::complex_f32 : DataType::complex_f64;
};
template <>
struct Listed<Pair<std::uint32_t>> {
  using Element = Pair<std::uint32_t>;
  static constexpr std::array data_types{DataType::complex_f32, DataType::f32_i32,
                                         DataType::i32_i32};
};
template <>
struct Listed<Pair<std::uint64_t>> {
  using Element = Pair<std::uint64_t>;
  static constexpr std::array data_types{DataType::complex_f64, DataType::f64_i32,
                                         DataType::i64_i32};
};

/// `ReducedTypes` with the elements that `is_rare` is true for, up to 8 bytes, or all.
using ReducedTypesTo8 =
    Concatenated<ReducedTypes, TypeList<EitherSign<std::uint16_t>, Pair<std::uint32_t>>>;
using AllReducedTypes = Concatenated<ReducedTypesTo8, TypeList<Pair<std::uint64_t>>>;

}  // namespace plait
