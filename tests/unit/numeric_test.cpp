// Conversions of the small floats, against a reference that knows nothing of their bits: the table
// of all values a format has.
#include "backends/device/numeric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "support/data.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plait {
namespace {

using test::hash;

/// A format's parameters, from its standard and not from the code under test.
struct Format {
  int exponent, mantissa, bias;
  bool finite;  // no infinities: the largest code is NaN
};
template <class T>
constexpr Format format_of{};
template <>
constexpr Format format_of<f16>{5, 10, 15, false};
template <>
constexpr Format format_of<bf16>{8, 7, 127, false};
template <>
constexpr Format format_of<f8e4m3>{4, 3, 7, true};
template <>
constexpr Format format_of<f8e5m2>{5, 2, 15, false};

template <class T>
class SmallFloats : public testing::Test {
 protected:
  using Bits = decltype(T::bits);
  static constexpr Format format = format_of<T>;
  static constexpr unsigned sign_bit = 1u << (format.exponent + format.mantissa);
  static constexpr unsigned special = format.finite ? sign_bit - 1
                                                    : ((1u << format.exponent) - 1)
                                                          << format.mantissa;  // infinity or NaN
  static constexpr unsigned codes = 2 * sign_bit;

  static T of(unsigned bits) { return {static_cast<Bits>(bits)}; }

  /// The value of a non-negative finite code.
  static double value(unsigned code) {
    const int e = static_cast<int>(code >> format.mantissa);
    const double fraction =
        std::ldexp(static_cast<double>(code & ((1u << format.mantissa) - 1)), -format.mantissa);
    return e == 0 ? std::ldexp(fraction, 1 - format.bias)
                  : std::ldexp(1 + fraction, e - format.bias);
  }

  /// The nearest code of |x|, ties to even; beyond the midpoint between the largest number and what
  /// would follow it: `special`.
  static unsigned nearest(double x) {
    static const std::vector<double> values = [] {
      std::vector<double> all;
      for (unsigned code = 0; code < special; ++code) all.push_back(value(code));
      return all;
    }();
    const double last = values.back(), step = last - values[values.size() - 2];
    // The number that would follow the largest one: in E4M3 the NaN code has its place, in the
    // others infinity.
    if (x >= last)
      return x < last + step / 2 || (x == last + step / 2 && (special - 1) % 2 == 0) ? special - 1
                                                                                     : special;
    const auto above = std::upper_bound(values.begin(), values.end(), x);
    const auto low = static_cast<unsigned>(above - values.begin()) - 1;
    const double down = x - values[low], up = values[low + 1] - x;
    if (down != up) return down < up ? low : low + 1;
    return low % 2 == 0 ? low : low + 1;
  }

  /// The NaN that stands where other formats have infinity has no sign.
  static unsigned negative(unsigned magnitude) {
    return magnitude == special && std::is_same_v<T, f8e4m3> ? magnitude : magnitude | sign_bit;
  }

  static void expect_rounded(float x) {
    const unsigned magnitude = nearest(std::abs(static_cast<double>(x)));
    ASSERT_EQ(static_cast<unsigned>(narrow<T>(x).bits),
              std::signbit(x) ? negative(magnitude) : magnitude)
        << "of " << x;
  }
};
using Formats = testing::Types<f16, bf16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(SmallFloats, Formats);

TYPED_TEST(SmallFloats, WidenAllCodes) {
  for (unsigned code = 0; code < TestFixture::codes; ++code) {
    const float x = widen(TestFixture::of(code));
    const unsigned magnitude = code % TestFixture::sign_bit;
    if (magnitude < TestFixture::special) {
      ASSERT_EQ(static_cast<double>(std::abs(x)), TestFixture::value(magnitude)) << code;
      ASSERT_EQ(std::signbit(x), code >= TestFixture::sign_bit) << code;
    } else if (magnitude == TestFixture::special && !TestFixture::format.finite) {
      ASSERT_TRUE(std::isinf(x)) << code;
      ASSERT_EQ(std::signbit(x), code >= TestFixture::sign_bit) << code;
    } else {
      ASSERT_TRUE(std::isnan(x)) << code;
    }
  }
}

#if defined(__x86_64__)
/// The bits of all codes in f32. Not inlined, so that no operation moves to another environment.
template <class T>
[[gnu::noinline]] void widen_all(std::vector<std::uint32_t>& bits) {
  for (std::size_t code = 0; code < bits.size(); ++code)
    bits[code] = bits_as<std::uint32_t>(widen(T{static_cast<decltype(T::bits)>(code)}));
}

TYPED_TEST(SmallFloats, WideningDependsOnNoEnvironment) {
  std::vector<std::uint32_t> wanted(TestFixture::codes);
  widen_all<TypeParam>(wanted);
  for (const unsigned environment :
       {0x9fc0u /* flushes subnormal numbers */, 0x3f80u /* rounds down */, 0x5f80u /* up */,
        0x7f80u /* to zero */}) {
    std::vector<std::uint32_t> bits(TestFixture::codes);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(environment);
    widen_all<TypeParam>(bits);
    _mm_setcsr(before);
    EXPECT_EQ(bits, wanted) << std::hex << environment;
  }
}
#endif

TYPED_TEST(SmallFloats, RoundsToNearestEvenAtEveryCodeAndMidpoint) {
  for (unsigned code = 0; code + 1 < TestFixture::special; ++code) {
    const auto low = static_cast<float>(TestFixture::value(code)),
               high = static_cast<float>(TestFixture::value(code + 1));
    const auto middle =
        static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
    for (const float x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high),
                          std::nextafter(low, high), std::nextafter(high, low)}) {
      TestFixture::expect_rounded(x);
      TestFixture::expect_rounded(-x);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(SmallFloats, RoundsRandomNumbers) {
  for (std::uint64_t i = 0; i < 200000 && !testing::Test::HasFatalFailure(); ++i) {
    const auto bits = static_cast<std::uint32_t>(hash(i));
    const auto x = bits_as<float>(bits);
    if (std::isnan(x))
      ASSERT_EQ(static_cast<unsigned>(narrow<TypeParam>(x).bits), TestFixture::sign_bit - 1)
          << bits;
    else if (!std::isinf(x)) TestFixture::expect_rounded(x);
  }
}

TYPED_TEST(SmallFloats, TooLargeBecomesInfinityOrNaN) {
  const unsigned limit = TestFixture::special;
  const auto largest = static_cast<float>(TestFixture::value(limit - 1));
  const auto step =
      static_cast<float>(TestFixture::value(limit - 1) - TestFixture::value(limit - 2));
  TestFixture::expect_rounded(largest);
  TestFixture::expect_rounded(-largest);
  if (!std::isinf(largest + step / 2)) {
    TestFixture::expect_rounded(largest + step / 2);
    TestFixture::expect_rounded(std::nextafter(largest + step / 2, largest));
    TestFixture::expect_rounded(-(largest + step));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<unsigned>(narrow<TypeParam>(infinity).bits), limit);
  EXPECT_EQ(static_cast<unsigned>(narrow<TypeParam>(-infinity).bits), TestFixture::negative(limit));
  EXPECT_EQ(static_cast<unsigned>(narrow<TypeParam>(std::numeric_limits<float>::max()).bits),
            limit);
}

TEST(SmallFloats8, KnowTheFirstNumberThatIsTooLarge) {
  const auto expect = [](auto format, float first) {
    using Small = decltype(format);
    EXPECT_EQ(bits_as<float>(Small::first_too_large), first);
    EXPECT_EQ(Small::narrow(first), Small::overflow);
    EXPECT_EQ(Small::narrow(std::nextafter(first, 0.0f)), Small::largest);
  };
  expect(E4M3{}, std::nextafter(464.0f, 500.0f));  // 448 is even: the midpoint belongs to it
  expect(E5M2{}, 61440.0f);                        // 57344 is odd
}

template <class A, class Bits>
void check_nans_side_by_side(const std::vector<Bits>& nans, Bits wanted) {
  for (const Bits nan : nans) {
    const A from[8] = {1,
                       bits_as<A>(nan),
                       -2,
                       3,
                       bits_as<A>(nan),
                       0,
                       std::numeric_limits<A>::infinity(),
                       std::numeric_limits<A>::denorm_min()};
    A to[8] = {};
    with_one_nan(from, to);
    for (std::size_t i = 0; i < std::size(from); ++i)
      EXPECT_EQ(bits_as<Bits>(to[i]), std::isnan(from[i]) ? wanted : bits_as<Bits>(from[i])) << i;
  }
}

TEST(Numeric, WideNaNsSideBySideHaveOneBitPattern) {
  check_nans_side_by_side<float, std::uint32_t>(
      {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}, 0x7fffffffu);
  check_nans_side_by_side<double, std::uint64_t>(
      {0x7ff8000000000000u, 0xfff0000000000001u, 0xffffffffffffffffu}, 0x7fffffffffffffffu);
}

TEST(Numeric, WideNaNsHaveOneBitPattern) {
  for (const std::uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu})
    EXPECT_EQ(bits_as<std::uint32_t>(narrow<float>(bits_as<float>(nan))), 0x7fffffffu);
  for (const std::uint64_t nan :
       {0x7ff8000000000000u, 0xfff8000000000000u, 0x7ff0000000000001u, 0xffffffffffffffffu})
    EXPECT_EQ(bits_as<std::uint64_t>(narrow<double>(bits_as<double>(nan))), 0x7fffffffffffffffu);
  EXPECT_EQ(bits_as<std::uint32_t>(narrow<float>(-0.0f)), 0x80000000u);
}

TEST(Numeric, ANumberWinsOverANaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair{nan, 3.0f}, std::pair{3.0f, nan}}) {
    EXPECT_EQ(reduce_min(a, b), 3.0f);
    EXPECT_EQ(reduce_max(a, b), 3.0f);
  }
  EXPECT_TRUE(std::isnan(reduce_min(nan, nan)));
  EXPECT_TRUE(std::isnan(reduce_max(nan, nan)));
}

/// Whatever the lane beside it holds.
template <class A>
void compare_with_lanes(const std::vector<A>& values) {
  std::uint32_t noise = 0x9e3779b9u;
  for (const A x : values)
    for (const A y : values) {
      A a[4 / sizeof(A)], b[4 / sizeof(A)];
      const std::size_t lane = noise % std::size(a);
      for (std::size_t i = 0; i < std::size(a); ++i) {
        noise = noise * 1664525u + 1013904223u;
        a[i] = i == lane ? x : static_cast<A>(noise >> 8);
        b[i] = i == lane ? y : static_cast<A>(noise >> 16);
      }
      const auto word = [](const A(&lanes)[4 / sizeof(A)]) {
        std::uint32_t all;
        std::memcpy(&all, lanes, sizeof(all));
        return all;
      };
      A sum[4 / sizeof(A)], set[4 / sizeof(A)], not_less[4 / sizeof(A)];
      for (std::size_t i = 0; i < std::size(a); ++i) {
        sum[i] = static_cast<A>(a[i] + b[i]);
        set[i] = a[i] != 0 ? 1 : 0;
        not_less[i] = a[i] >= b[i] ? static_cast<A>(-1) : 0;
      }
      ASSERT_EQ(LanesInWord<A>::sum(word(a), word(b)), word(sum)) << +x << " " << +y;
      ASSERT_EQ(LanesInWord<A>::are_set(word(a)), word(set)) << +x << " " << +y;
      ASSERT_EQ(LanesInWord<A>::are_not_less(word(a), word(b)), word(not_less)) << +x << " " << +y;
    }
}
TEST(Numeric, WordsDoWhatTheirLanesDo) {
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  compare_with_lanes(bytes);
  std::vector<std::uint16_t> shorts;
  for (const unsigned base : {0u, 0x7f00u, 0x7fffu, 0x8000u, 0xff00u, 0xffffu})
    for (unsigned i = 0; i < 20; ++i) shorts.push_back(static_cast<std::uint16_t>(base + i * 13));
  compare_with_lanes(shorts);
}

}  // namespace
}  // namespace plait
