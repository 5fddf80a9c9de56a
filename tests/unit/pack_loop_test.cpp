// Loops over packs: which thread moves which pack, and which packs move element by element.
#include "algorithms/blocks/loops/pack_loop.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backends/host/host_words.hpp"

namespace plait {
namespace {

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
  using Host = Packs<std::int32_t, host::Words::pack_bytes>;
  EXPECT_EQ(Host(memory + 1, 41).whole_in({0, 3}), 2u);
}

/// Counts the packs that move as a whole.
class CountingWords : public host::Words {
 public:
  using host::Words::Words;
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
  constexpr std::size_t count = 1001, lanes = host::Words::pack_bytes / sizeof(std::int32_t);
  for (const std::size_t offset : {0u, 1u, 4u}) {  // elements
    std::vector<std::int32_t> from(count + offset), to(count + offset);
    std::iota(from.begin(), from.end(), 0);
    host::Team team{1};
    const Watch watch{};
    CountingWords words{0, 1, 0, team, watch};
    const Packs<const std::int32_t, host::Words::pack_bytes> source(from.data() + offset, count);
    const Packs<std::int32_t, host::Words::pack_bytes> target(to.data() + offset, count);
    copy_packs<1>(words, source, target, {0, source.size()});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(to[i + offset], from[i + offset]) << i;
    EXPECT_EQ(words.loads, count / lanes);
    EXPECT_EQ(words.stores, count / lanes);
  }
}

}  // namespace
}  // namespace plait
