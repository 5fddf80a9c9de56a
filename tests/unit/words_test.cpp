// The parts of kernels: packs and loops over them, partitions, epochs, and the reduction.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/host/host_words.hpp"
#include "support/data.hpp"

namespace plait {
namespace {

using test::hash;

/// The words of a single thread on the host.
class OneThread {
 public:
  host::KernelWords& operator*() { return words_; }

 private:
  host::Team team_{1};
  Watch watch_{};
  host::KernelWords words_{0, 1, 0, team_, watch_};
};

TEST(Epoch, SkipsZeroAndAlternates) {
  Epoch epoch{0};
  EXPECT_EQ(epoch.next().value, 1u);
  epoch.value = 0xfffffff0u;
  for (int i = 0; i < 40; ++i) {
    const Epoch next = epoch.next();
    EXPECT_NE(next.value, 0u);
    EXPECT_NE(next.half(), epoch.half()) << epoch.value;
    EXPECT_GT(static_cast<std::int32_t>(next.value - epoch.value), 0);
    epoch = next;
  }
  EXPECT_LT(epoch.value, 100u);  // it has wrapped
}

TEST(Partition, CoverEverythingOnceInOrder) {
  for (const std::size_t size : {0u, 1u, 2u, 5u, 16u, 17u, 63u, 64u, 1000u, 4099u})
    for (const std::size_t parts : {1u, 2u, 3u, 7u, 8u, 64u})
      for (const std::size_t grain : {1u, 2u, 3u, 16u, 100u}) {
        const Partition partition = Partition::of(size, parts, grain);
        const std::size_t fair = (size + parts - 1) / parts;
        std::size_t reached = 0;
        for (std::size_t i = 0; i < parts; ++i) {
          const Range part = partition.at(i);
          ASSERT_EQ(part.begin, reached);
          ASSERT_LE(part.begin, part.end);
          ASSERT_TRUE(part.begin % grain == 0 || part.begin == size);
          ASSERT_LT(part.size(), fair + grain);
          reached = part.end;
        }
        ASSERT_EQ(reached, size);
      }
}

/// For any size: parts of a message, cut at pack boundaries, have no pack in common, and empty
/// parts have none.
TEST(Partition, InPacksAreDisjointAndCoverEverything) {
  constexpr std::size_t bytes = 64;
  for (std::size_t size = 0; size < 700; ++size)
    for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u}) {
      const Partition partition = Partition::of(size, parts, bytes);
      std::size_t reached = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        const Range part = partition.at(i), packs = in_packs<bytes>(part);
        if (part.size() == 0) {
          ASSERT_EQ(packs.begin, packs.end)
              << "an empty part [" << part.begin << ", " << part.end << ") has a pack";
        } else {
          ASSERT_EQ(packs.begin, reached);
          reached = packs.end;
        }
      }
      ASSERT_EQ(reached, (size + bytes - 1) / bytes);
    }
}

template <class T>
class ElementTypes : public testing::Test {};
using AllElements =
    testing::Types<std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t, f16, bf16, f8e4m3, f8e5m2, float, double>;
TYPED_TEST_SUITE(ElementTypes, AllElements);

/// Copies `count` elements from one offset to another through packs, and looks at what lies around.
template <class T, std::size_t Bytes>
void copy_through_packs(std::size_t from, std::size_t to, std::size_t count) {
  constexpr std::size_t size = 256, unit = sizeof(T);
  alignas(64) std::byte source[size * unit], target[size * unit];
  for (std::size_t i = 0; i < sizeof source; ++i) {
    source[i] = static_cast<std::byte>(hash(i));
    target[i] = static_cast<std::byte>(0xee);
  }
  OneThread dev;
  const Packs<const T, Bytes> in(reinterpret_cast<const T*>(source) + from, count);
  const Packs<T, Bytes> out(reinterpret_cast<T*>(target) + to, count);
  ASSERT_EQ(in.size(), (count * unit + Bytes - 1) / Bytes);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto pack = in.load(*dev, i);
    for (std::size_t lane = 0; lane < in.lanes; ++lane) {
      if (i * in.lanes + lane < count) continue;
      ASSERT_EQ(widen(pack.lane[lane]), widen(T{})) << "beyond the end";
    }
    out.store(*dev, i, pack);
  }
  for (std::size_t i = 0; i < sizeof target; ++i) {
    const bool inside = i >= to * unit && i < (to + count) * unit;
    ASSERT_EQ(target[i],
              inside ? source[i - to * unit + from * unit] : static_cast<std::byte>(0xee))
        << "byte " << i << ", offsets " << from << " and " << to << ", count " << count;
  }
}

TYPED_TEST(ElementTypes, PacksOfAnyAlignmentAndCount) {
  for (std::size_t from = 0; from < 5; ++from)
    for (std::size_t to = 0; to < 5; ++to)
      for (std::size_t count = 0; count < 70; count += 1 + count / 9) {
        copy_through_packs<TypeParam, 8>(from, to, count);
        copy_through_packs<TypeParam, 16>(from, to, count);
        copy_through_packs<TypeParam, 64>(from, to, count);
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(ElementTypes, PacketsCarryElements) {
  PacketElements<TypeParam> elements;
  for (std::size_t i = 0; i < elements.lanes; ++i)
    elements.lane[i] = test::element<TypeParam>(3, 1, i, ReduceOp::sum);
  const auto back = from_packet<TypeParam>(to_packet<TypeParam>(elements));
  EXPECT_EQ(std::memcmp(&elements, &back, sizeof elements), 0);
}

/// Both ways in which kernels reduce: all terms in one accumulator, and partial results that
/// travel.
template <class T>
struct Reduced {
  static constexpr std::size_t bytes = 16;
  using Elements = Pack<T, bytes>;

  static Elements in_one_place(const Reduction& reduction, const std::vector<Elements>& terms) {
    const Reducer<T> reducer(reduction);
    auto acc = reducer.start(terms[0]);
    for (std::size_t i = 1; i < terms.size(); ++i) reducer.add(acc, terms[i]);
    return reducer.template finish<bytes>(acc);
  }
  static Elements along_a_chain(const Reduction& reduction, const std::vector<Elements>& terms) {
    const Reducer<T> reducer(reduction);
    auto acc = reducer.start(terms[0]);
    for (std::size_t i = 1; i < terms.size(); ++i) {
      const Elements partial = reducer.template rounded<bytes>(acc);
      acc = reducer.start(terms[i]);
      reducer.add_partial(acc, partial);
    }
    return reducer.template finish<bytes>(acc);
  }
};

template <class T>
void check_reducer(ReduceOp op, int ranks, double scale, std::uint64_t seed) {
  using R = Reduced<T>;
  std::vector<typename R::Elements> terms(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < terms.size(); ++rank)
    for (std::size_t i = 0; i < R::Elements::lanes; ++i)
      terms[rank].lane[i] = test::element<T>(seed, static_cast<int>(rank), i, op);
  const Reduction reduction{.op = op, .ranks = ranks, .scale = scale};
  for (const auto& result : {R::in_one_place(reduction, terms), R::along_a_chain(reduction, terms)})
    for (std::size_t i = 0; i < R::Elements::lanes; ++i) {
      const auto wanted = test::expected<T>(seed, ranks, i, op, scale);
      ASSERT_TRUE(test::is_right(result.lane[i], wanted)) << name_of(op) << " of " << ranks;
    }
}

TYPED_TEST(ElementTypes, ReducerAgreesWithWideArithmetic) {
  for (int op = 0; op < reduce_op_count; ++op)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (std::uint64_t seed = 0; seed < 20 && !this->HasFatalFailure(); ++seed) {
        const auto o = static_cast<ReduceOp>(op);
        if (!is_reduced(data_type_of<TypeParam>, o)) continue;
        check_reducer<TypeParam>(
            o, ranks, o == ReduceOp::premul_sum ? (seed % 2 == 0 ? 0.5 : 2.0) : 1.0, seed);
      }
}

/// `is_right` sees in one element of a hundred, at least, that a rank's term is missing, and that
/// the result is zero.
template <class T>
void expect_mistakes_to_be_seen(ReduceOp op, int ranks) {
  constexpr std::size_t count = 3000;
  constexpr std::uint64_t seed = 5;
  const bool sums = op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premul_sum;
  const auto rounded = [](const auto& x) {
    if constexpr (test::is_composite<T> || std::is_integral_v<T>) return static_cast<T>(x);
    else return test::to<T>(x);
  };
  std::size_t zeros = 0;
  std::vector<std::size_t> seen(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < count; ++i) {
    const auto wanted = test::expected<T>(seed, ranks, i, op, 0.5);
    ASSERT_TRUE(test::is_right(rounded(wanted), wanted)) << "element " << i;
    if (test::is_right(T{}, wanted)) ++zeros;
    for (int lost = 0; lost < ranks; ++lost) {
      const auto without = test::reduce_reference<T>(op, sums ? ranks : ranks - 1, 0.5, [&](int r) {
        if (sums && r == lost) return T{};
        return test::element<T>(seed, !sums && r >= lost ? r + 1 : r, i, op);
      });
      if (!test::is_right(rounded(without), wanted)) ++seen[static_cast<std::size_t>(lost)];
    }
  }
  EXPECT_LT(zeros, count - count / 100) << "a result of zeros passes";
  for (const std::size_t number : seen) EXPECT_GT(number, count / 100) << "without a rank's term";
}

TEST(TestData, ShowsAMissingTermAndAResultOfZeros) {
  for (int t = 0; t < data_type_count; ++t)
    for (int o = 0; o < reduce_op_count; ++o)
      for (int ranks = 2; ranks <= 8; ++ranks) {
        const auto type = static_cast<DataType>(t);
        const auto op = static_cast<ReduceOp>(o);
        if (!is_reduced(type, op)) continue;
        SCOPED_TRACE(testing::Message()
                     << name_of(op) << " of " << name_of(type) << " by " << ranks << " ranks");
        test::dispatch_all(type, [&]<class T>() { expect_mistakes_to_be_seen<T>(op, ranks); });
      }
}

/// One code for the integers of both signs (ReducedTypes) gives what a code for the signed ones
/// gives.
template <class Signed>
void check_signed_as_unsigned(ReduceOp op, int ranks) {
  using Unsigned = std::make_unsigned_t<Signed>;
  using Limits = std::numeric_limits<Signed>;
  const Signed special[] = {
      0, 1, -1, 2, -7, 100, Limits::max(), Limits::min(), static_cast<Signed>(Limits::min() + 1)};
  std::vector<typename Reduced<Signed>::Elements> terms(static_cast<std::size_t>(ranks));
  std::vector<typename Reduced<Unsigned>::Elements> same(terms.size());
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (std::size_t rank = 0; rank < terms.size(); ++rank) {
      for (std::size_t i = 0; i < std::size(terms[rank].lane); ++i)
        terms[rank].lane[i] = special[hash(seed * 1009 + rank * 101 + i) % std::size(special)];
      same[rank] = bits_as<typename Reduced<Unsigned>::Elements>(terms[rank]);
    }
    const Reduction reduction{.op = op, .ranks = ranks},
        told{.op = op, .elements = Elements::signed_integers, .ranks = ranks};
    const auto compare = [&](const auto& wanted, const auto& result) {
      ASSERT_EQ(std::memcmp(&wanted, &result, sizeof wanted), 0)
          << name_of(op) << " of " << ranks << " ranks, seed " << seed;
    };
    compare(Reduced<Signed>::in_one_place(reduction, terms),
            Reduced<Unsigned>::in_one_place(told, same));
    compare(Reduced<Signed>::along_a_chain(reduction, terms),
            Reduced<Unsigned>::along_a_chain(told, same));
  }
}

TEST(Reducer, OneCodeServesIntegersOfEitherSign) {
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
    for (int ranks = 1; ranks <= 8 && !HasFatalFailure(); ++ranks) {
      check_signed_as_unsigned<std::int8_t>(op, ranks);
      check_signed_as_unsigned<std::int32_t>(op, ranks);
      check_signed_as_unsigned<std::int64_t>(op, ranks);
    }
}

template <class T>
void check_average_of_largest(int ranks, T largest) {
  using R = Reduced<T>;
  typename R::Elements all;
  std::fill(std::begin(all.lane), std::end(all.lane), largest);
  const Reduction reduction{.op = ReduceOp::avg, .ranks = ranks, .scale = 1};
  const std::vector<typename R::Elements> terms(static_cast<std::size_t>(ranks), all);
  const bool exact = (ranks & (ranks - 1)) == 0;
  const T least =
      largest * (1 - (exact ? 0 : static_cast<T>(ranks)) * std::numeric_limits<T>::epsilon());
  for (const T average :
       {R::in_one_place(reduction, terms).lane[0], R::along_a_chain(reduction, terms).lane[0]}) {
    EXPECT_GE(average, least) << ranks;
    EXPECT_LE(average, largest) << ranks;
  }
}

TEST(Reducer, AveragesOfTheLargestDoNotOverflow) {
  for (int ranks = 1; ranks <= 72; ++ranks) {
    check_average_of_largest(ranks, std::numeric_limits<float>::max());
    check_average_of_largest(ranks, std::numeric_limits<double>::max());
  }
}

TEST(Reducer, PartialAveragesDoNotOverflow) {
  const Reduction reduction{.op = ReduceOp::avg, .ranks = 4, .scale = 1};
  using R = Reduced<f16>;
  R::Elements large;
  std::fill(std::begin(large.lane), std::end(large.lane), narrow<f16>(60000.0f));
  const std::vector<R::Elements> terms(4, large);
  EXPECT_EQ(widen(R::in_one_place(reduction, terms).lane[0]), 60000.0f);
  EXPECT_EQ(widen(R::along_a_chain(reduction, terms).lane[0]), 60000.0f);
}

struct Place {
  unsigned number, count;
  unsigned thread() const { return number; }
  unsigned threads() const { return count; }
};

TEST(PackLoop, EveryPackIsMovedOnceByItsThreadAndElementwiseOnlyWhereItMust) {
  for (const unsigned threads : {1u, 2u, 3u, 8u})
    for (std::uint32_t size = 0; size < 40; ++size)
      for (std::uint32_t whole = 0; whole <= size; ++whole) {
        std::vector<int> moved(size);
        for (unsigned thread = 0; thread < threads; ++thread) {
          const Place place{thread, threads};
          for_packs<4>(place, size, whole, [&]<int Count, bool Whole>(std::uint32_t first) {
            for (std::uint32_t i = first; i < first + Count * threads; i += threads) {
              ASSERT_LT(i, size);
              ASSERT_EQ(i % threads, thread);
              ASSERT_EQ(Whole, i < whole);
              ++moved[i];
            }
          });
        }
        ASSERT_EQ(moved, std::vector<int>(size, 1)) << whole << " of " << size;
      }
}

TEST(Packs, KnowHowManyOfARangeAreComplete) {
  alignas(64) std::int32_t memory[64] = {};
  using FourWords = Packs<std::int32_t, 16>;
  const FourWords ragged(memory, 41), unaligned(memory + 1, 41);
  EXPECT_EQ(ragged.whole_in({0, 10}), 10u);
  EXPECT_EQ(ragged.whole_in({0, 11}), 10u);
  EXPECT_EQ(ragged.whole_in({7, 11}), 3u);
  EXPECT_EQ(ragged.whole_in({10, 11}), 0u);
  EXPECT_EQ(ragged.whole_in({5, 5}), 0u);
  EXPECT_EQ(unaligned.whole_in({0, 11}), 0u);
  // The host's packs may lie anywhere.
  using Host = Packs<std::int32_t, host::KernelWords::pack_bytes>;
  EXPECT_EQ(Host(memory + 1, 41).whole_in({0, 3}), 2u);
}

/// Counts the packs that move as a whole.
class CountingWords : public host::KernelWords {
 public:
  using host::KernelWords::KernelWords;
  template <class T, std::size_t Bytes>
  Pack<T, Bytes> load(const Pack<T, Bytes>* p) {
    ++loads;
    return *p;
  }
  template <class T, std::size_t Bytes>
  void store(Pack<T, Bytes>* p, const Pack<T, Bytes>& value) {
    ++stores;
    *p = value;
  }
  int loads = 0, stores = 0;
};

TEST(PackLoop, AnIncompletePackAtTheEndSlowsNoOtherDown) {
  constexpr std::size_t count = 1001, lanes = host::KernelWords::pack_bytes / sizeof(std::int32_t);
  for (const std::size_t offset : {0u, 1u, 4u}) {  // elements
    std::vector<std::int32_t> from(count + offset), to(count + offset);
    std::iota(from.begin(), from.end(), 0);
    host::Team team{1};
    const Watch watch{};
    CountingWords words{0, 1, 0, team, watch};
    const Packs<const std::int32_t, host::KernelWords::pack_bytes> source(from.data() + offset,
                                                                          count);
    const Packs<std::int32_t, host::KernelWords::pack_bytes> target(to.data() + offset, count);
    copy_packs<1>(words, source, target, {0, source.size()});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(to[i + offset], from[i + offset]) << i;
    EXPECT_EQ(words.loads, count / lanes);
    EXPECT_EQ(words.stores, count / lanes);
  }
}

}  // namespace
}  // namespace plait
