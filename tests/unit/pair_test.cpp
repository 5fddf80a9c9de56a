// Elements of two words: products of complex numbers, and the least or greatest value with its
// index.
#include "backends/device/pair.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/device/device.hpp"

namespace plait {
namespace {

template <class T>
using WordsOf = Pair<std::conditional_t<sizeof(T) == 8, std::uint32_t, std::uint64_t>>;

template <class T>
WordsOf<T> pair_of(const T& element) {
  WordsOf<T> words;
  std::memcpy(&words, static_cast<const void*>(&element), sizeof(words));
  return words;
}
/// With padding of zeros.
template <class Value>
ValueIndex<Value> at(Value value, std::int32_t index) {
  ValueIndex<Value> element;
  std::memset(&element, 0, sizeof(element));
  element.value = value;
  element.index = index;
  return element;
}

template <class T>
T reduced(ReduceOp op, const std::vector<T>& terms) {
  const Reducer<WordsOf<T>> reducer({.op = op, .elements = elements_of(data_type_of<T>)});
  using P = Pack<WordsOf<T>, sizeof(T)>;
  auto acc = reducer.start(P{pair_of(terms[0])});
  for (std::size_t i = 1; i < terms.size(); ++i) reducer.add(acc, P{pair_of(terms[i])});
  const auto words = reducer.template finish<sizeof(T)>(acc).lane[0];
  T result;
  std::memcpy(static_cast<void*>(&result), &words, sizeof(result));
  return result;
}

/// In every order of the terms, the result has the same bits.
template <class Value>
void expect_in_any_order(ReduceOp op, std::vector<ValueIndex<Value>> terms,
                         const ValueIndex<Value>& wanted) {
  std::vector<int> order(terms.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  do {
    std::vector<ValueIndex<Value>> ordered;
    for (const int i : order) ordered.push_back(terms[static_cast<std::size_t>(i)]);
    const ValueIndex<Value> result = reduced(op, ordered);
    ASSERT_EQ(std::memcmp(&result, &wanted, sizeof(result)), 0)
        << name_of(op) << ": " << +result.value << " at " << result.index << " instead of "
        << +wanted.value << " at " << wanted.index;
  } while (std::next_permutation(order.begin(), order.end()));
}

template <class Value>
class ValuesWithIndex : public testing::Test {};
using Values = testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ValuesWithIndex, Values);

TYPED_TEST(ValuesWithIndex, TheLeastAndTheGreatest) {
  using V = TypeParam;
  const std::vector<ValueIndex<V>> terms = {at(V{3}, 0), at(V{-7}, 1), at(V{12}, 2), at(V{5}, 3)};
  expect_in_any_order(ReduceOp::minloc, terms, at(V{-7}, 1));
  expect_in_any_order(ReduceOp::maxloc, terms, at(V{12}, 2));
}
TYPED_TEST(ValuesWithIndex, OfEqualValuesTheLeastIndex) {
  using V = TypeParam;
  const std::vector<ValueIndex<V>> terms = {at(V{1}, 9), at(V{1}, -4), at(V{1}, 2), at(V{1}, -3)};
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc})
    expect_in_any_order(op, terms, at(V{1}, -4));
}
TYPED_TEST(ValuesWithIndex, ExtremeValues) {
  using V = TypeParam;
  using Limits = std::numeric_limits<V>;
  const std::vector<ValueIndex<V>> terms = {at(Limits::max(), 1), at(V{0}, 2),
                                            at(Limits::lowest(), 3)};
  expect_in_any_order(ReduceOp::minloc, terms, at(Limits::lowest(), 3));
  expect_in_any_order(ReduceOp::maxloc, terms, at(Limits::max(), 1));
}

template <class Value>
class FloatsWithIndex : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatsWithIndex, Floats);

TYPED_TEST(FloatsWithIndex, ANumberWinsOverANaN) {
  using V = TypeParam;
  const V nan = std::numeric_limits<V>::quiet_NaN(), infinity = std::numeric_limits<V>::infinity();
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc}) {
    expect_in_any_order(op, {at(nan, 0), at(V{4}, 7), at(nan, 1)}, at(V{4}, 7));
  }
  expect_in_any_order(ReduceOp::minloc, {at(nan, 0), at(infinity, 1), at(-infinity, 2)},
                      at(-infinity, 2));
  expect_in_any_order(ReduceOp::maxloc, {at(nan, 0), at(infinity, 1), at(-infinity, 2)},
                      at(infinity, 1));
}
/// Whatever its sign and payload are, and also where one rank has the only term.
TYPED_TEST(FloatsWithIndex, AResultHasOneNaN) {
  using V = TypeParam;
  const V nan = std::numeric_limits<V>::quiet_NaN(),
          signalling = -std::numeric_limits<V>::signaling_NaN();
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc}) {
    expect_in_any_order(op, {at(nan, 5), at(signalling, 2), at(-nan, 3)}, at(with_one_nan(nan), 2));
    expect_in_any_order(op, {at(-nan, 2), at(nan, 2)}, at(with_one_nan(nan), 2));
    for (const V term : {nan, -nan, signalling})
      expect_in_any_order(op, {at(term, 7)}, at(with_one_nan(nan), 7));
  }
}
/// They are equal, so the index decides; where that is equal, too, the bits do.
TYPED_TEST(FloatsWithIndex, ZerosOfEitherSign) {
  using V = TypeParam;
  for (const ReduceOp op : {ReduceOp::minloc, ReduceOp::maxloc}) {
    expect_in_any_order(op, {at(V{0}, 2), at(-V{0}, 1)}, at(-V{0}, 1));
    expect_in_any_order(op, {at(V{0}, 1), at(-V{0}, 2)}, at(V{0}, 1));
    expect_in_any_order(op, {at(V{0}, 1), at(-V{0}, 1)}, at(V{0}, 1));
  }
}

template <class Number>
class ComplexNumbers : public testing::Test {};
using Complexes = testing::Types<std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(ComplexNumbers, Complexes);

TYPED_TEST(ComplexNumbers, Products) {
  using C = TypeParam;
  EXPECT_EQ(reduced<C>(ReduceOp::prod, {C(1, 2), C(3, -4)}), C(11, 2));
  EXPECT_EQ(reduced<C>(ReduceOp::prod, {C(0, 1), C(0, 1), C(0, 1)}), C(0, -1));
  EXPECT_EQ(reduced<C>(ReduceOp::prod, {C(5, 6)}), C(5, 6));
}
/// Whichever bits the terms had.
TYPED_TEST(ComplexNumbers, AProductHasOneNaN) {
  using C = TypeParam;
  using V = typename C::value_type;
  const V nan = std::numeric_limits<V>::quiet_NaN(), infinity = std::numeric_limits<V>::infinity();
  const V the_nan = with_one_nan(nan);
  for (const C& term : {C(nan, 0), C(-nan, 1), C(infinity, infinity)}) {
    const C product = reduced<C>(ReduceOp::prod, {C(1, 1), term});
    bool any = false;
    for (const V part : {product.real(), product.imag()})
      if (std::isnan(part)) {
        any = true;
        EXPECT_EQ(std::memcmp(&part, &the_nan, sizeof(part)), 0) << term;
      }
    EXPECT_TRUE(any) << term;
  }
}

/// std::complex<double> and MPI's pairs are aligned to 8 bytes.
TEST(Pairs, LieWhereTheirWordsMay) {
  using P = Pair<std::uint64_t>;
  static_assert(sizeof(P) == 16 && alignof(P) == 8);
  static_assert(sizeof(Pair<std::uint32_t>) == 8 && alignof(Pair<std::uint32_t>) == 4);
  alignas(16) std::uint64_t words[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ((Packs<P, 16>(reinterpret_cast<P*>(words), 4).whole()), 4u);
  const Packs<P, 16> shifted(reinterpret_cast<P*>(words + 1), 4);
  EXPECT_EQ(shifted.whole(), 0u);
  const auto pack = shifted.load_elements(2);
  EXPECT_EQ(pack.lane[0].first, 6u);
  EXPECT_EQ(pack.lane[0].second, 7u);
}

}  // namespace
}  // namespace plait
