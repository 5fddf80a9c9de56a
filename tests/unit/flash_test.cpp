// Flash without ranks: which block handles what, and the pipeline at every depth, with copies that
// come as late as they may. Sums of floats have the bits of rank order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <vector>

#include "algorithms/all_reduce/flash/kernel.hpp"
#include "algorithms/all_reduce/flash/plan.hpp"
#include "backends/host/host_words.hpp"
#include "support/data.hpp"
#include "support/terms.hpp"

namespace plait::flash {
namespace {

const std::vector<std::size_t> sizes = {0,   1,    15,   16,     17,      511,           512,
                                        513, 4096, 5000, 100001, 1 << 20, (1 << 20) + 1, 30000001};

/// The ranges of all blocks of all ranks that reduce a part, in order.
void expect_cover(std::size_t bytes, bool whole, int ranks, unsigned blocks) {
  SCOPED_TRACE(testing::Message() << bytes << " bytes, " << ranks << " ranks, " << blocks
                                  << " blocks, whole " << whole);
  std::size_t reached = 0, least = bytes, most = 0;
  for (int rank = 0; rank < (whole ? 1 : ranks); ++rank) {
    const EvenPartition partition = stripes(bytes, whole, rank, ranks, blocks);
    for (unsigned block = 0; block < blocks; ++block) {
      const Range range = partition.at(block);
      ASSERT_EQ(range.begin, reached);
      ASSERT_LE(range.begin, range.end);
      ASSERT_TRUE(range.begin % 16 == 0 || range.size() == 0);
      reached = range.end;
      least = std::min(least, range.size());
      most = std::max(most, range.size());
    }
  }
  ASSERT_EQ(reached, bytes);
  ASSERT_LE(most - least, 3 * grain);  // one for the slices, one for the stripes, one for the end
}

TEST(FlashPlan, BlocksCoverTheMessageOnceAndEvenly) {
  for (const std::size_t bytes : sizes)
    for (const unsigned blocks : {1u, 2u, 3u, 32u, 33u, 132u, 256u}) {
      expect_cover(bytes, true, 2, blocks);
      for (int ranks = 1; ranks <= 8; ++ranks) expect_cover(bytes, false, ranks, blocks);
    }
}

TEST(FlashPlan, BothRanksReduceTheSameWhole) {
  for (const std::size_t bytes : sizes) {
    const EvenPartition first = stripes(bytes, true, 0, 2, 33),
                        second = stripes(bytes, true, 1, 2, 33);
    for (unsigned block = 0; block < 33; ++block) {
      EXPECT_EQ(first.at(block).begin, second.at(block).begin);
      EXPECT_EQ(first.at(block).end, second.at(block).end);
    }
  }
}

/// If a message is large enough to fill the link with blocks that have 2 * depth stages, all blocks
/// have so many.
TEST(FlashPlan, LargeMessagesReachTheSteadyState) {
  for (const unsigned threads : {128u, 256u, 512u})
    for (const std::size_t element : {1u, 2u, 8u})
      for (const unsigned most : {16u, 33u, 132u, 256u})
        for (const int peers : {1, 2, 3, 7})
          for (std::size_t bytes = 4096; bytes <= std::size_t{1} << 31; bytes += bytes / 3 + 16) {
            const Stage stage = Stage::of(element, threads);
            const unsigned blocks = blocks_for_stages(bytes, peers, stage, most);
            ASSERT_GE(blocks, 1u);
            ASSERT_LE(blocks, most);
            ASSERT_LE(blocks, (bytes + stage.row() - 1) / stage.row())
                << "blocks without a pack for every thread";
            const std::size_t filling = std::min(blocks_that_fill_a_link(stage), most);
            if (bytes * static_cast<unsigned>(peers) < filling * 2 * depth * stage.bytes())
              continue;
            ASSERT_GE(blocks, filling);
            const EvenPartition partition = EvenPartition::of({0, bytes}, blocks);
            for (unsigned block = 0; block < blocks; ++block)
              ASSERT_GE(stage.count(partition.at(block).size(), peers), 2u * depth)
                  << bytes << " bytes, " << blocks << " blocks, " << peers;
          }
}

TEST(FlashPlan, TwoMegabytesAreOnTheirWay) {
  const Stage stage = Stage::of(4, 512);
  EXPECT_EQ(stage.bytes(), 32768u);
  EXPECT_EQ(blocks_that_fill_a_link(stage), 22u);
  EXPECT_EQ(blocks_for_stages(1, 1, stage, 132), 1u);
  EXPECT_EQ(blocks_for_stages(64 << 10, 1, stage, 132), 8u);   // a pack a thread
  EXPECT_EQ(blocks_for_stages(4 << 20, 1, stage, 132), 22u);   // the link is full
  EXPECT_EQ(blocks_for_stages(16 << 20, 1, stage, 132), 64u);  // eight stages each
  EXPECT_EQ(blocks_for_stages(256 << 20, 1, stage, 132), 132u);
}

/// The words of the host, but copies are made when a thread waits for them and not earlier, and
/// what they will overwrite is spoilt at once.
class LateWords : public host::KernelWords {
 public:
  using host::KernelWords::KernelWords;

  template <class P, int Count>
  class Staging {
   public:
    Staging() = default;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging() {
      EXPECT_TRUE(copies_.empty()) << "copies are on their way after the pipeline's end";
    }

    void copy_async(int place, const P* from) {
      std::memset(&packs_[place], 0xa5, sizeof(P));
      copies_.push_back({committed_, place, from});
    }
    void commit() { ++committed_; }
    template <int Pending>
    void wait_pending() {
      const auto due = [&](const Copy& copy) { return copy.group + Pending < committed_; };
      for (const Copy& copy : copies_)
        if (due(copy)) packs_[copy.place] = *copy.from;
      std::erase_if(copies_, due);
    }
    P load(int place) const {
      EXPECT_TRUE(std::none_of(copies_.begin(), copies_.end(), [&](const Copy& c) {
        return c.place == place;
      })) << "not there yet";
      return packs_[place];
    }

   private:
    struct Copy {
      int group, place;
      const P* from;
    };
    P packs_[Count] = {};
    std::vector<Copy> copies_;
    int committed_ = 0;
  };
};
static_assert(Device<LateWords>);

/// All ranks' buffers in one chunk of memory, and what the blocks do between the barriers, one
/// thread after another.
template <class T>
class Pretence {
 public:
  Pretence(int ranks, std::size_t count, bool in_place, std::size_t offset)
      : ranks_(ranks),
        count_(count),
        in_place_(in_place),
        offset_(offset),
        stride_((offset + count) * sizeof(T) / 64 * 64 + 128),
        send_(stride_ * static_cast<unsigned>(ranks) / 64),
        recv_(send_.size()) {
    for (int rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < count; ++i) at(send_, rank)[i] = term(rank, i);
  }

  template <class Case>
  void run(unsigned blocks, unsigned threads) {
    const bool whole = ranks_ == 2 && !in_place_;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Args args{.peers = {.signals = {}, .epochs = nullptr, .rank = rank, .ranks = ranks_},
                      .send = view(send_, rank),
                      .recv = view(in_place_ ? send_ : recv_, rank),
                      .count = count_,
                      .stripes = stripes(count_ * sizeof(T), whole, rank, ranks_, blocks),
                      .reduction = {.op = ReduceOp::sum, .ranks = ranks_, .scale = 1},
                      .whole = whole};
      host::Team team(threads);
      const Watch watch{};
      for (unsigned block = 0; block < blocks; ++block)
        for (unsigned thread = 0; thread < threads; ++thread) {
          typename Case::Words words(block, blocks, thread, team, watch);
          Case::template Kernel<T>::reduce(words, args);
        }
    }
  }

  /// The first element that is wrong; `count` if none is.
  std::size_t first_wrong() {
    for (int rank = 0; rank < ranks_; ++rank)
      for (std::size_t i = 0; i < count_; ++i)
        if (const T sum = in_rank_order(i);
            std::memcmp(at(in_place_ ? send_ : recv_, rank) + i, &sum, sizeof sum) != 0)
          return i;
    return count_;
  }

 private:
  struct alignas(64) Line {
    std::byte byte[64];
  };
  T term(int rank, std::size_t i) const {
    if constexpr (is_float(data_type_of<T>)) {
      return terms_.term(rank, i);
    } else {
      return test::element<T>(7, rank, i, ReduceOp::sum);
    }
  }
  T in_rank_order(std::size_t i) const {
    if constexpr (is_float(data_type_of<T>)) {
      return terms_.in_rank_order(ReduceOp::sum, i);
    } else {
      return test::expected<T>(7, ranks_, i, ReduceOp::sum, 1);
    }
  }
  T* at(std::vector<Line>& lines, int rank) { return reinterpret_cast<T*>(view(lines, rank).own); }
  WindowView view(std::vector<Line>& lines, int rank) {
    return {reinterpret_cast<std::byte*>(lines.data()) + static_cast<unsigned>(rank) * stride_ +
                offset_ * sizeof(T),
            static_cast<std::ptrdiff_t>(stride_), nullptr, rank};
  }

  struct None {
    explicit None(int) {}
  };
  int ranks_;
  std::conditional_t<is_float(data_type_of<T>), test::Terms<T>, None> terms_{ranks_};
  std::size_t count_;
  bool in_place_;
  std::size_t offset_, stride_;
  std::vector<Line> send_, recv_;
};

template <class Case, class T>
void check(int ranks, std::size_t count, bool in_place, std::size_t offset, unsigned blocks,
           unsigned threads) {
  Pretence<T> pretence(ranks, count, in_place, offset);
  pretence.template run<Case>(blocks, threads);
  ASSERT_EQ(pretence.first_wrong(), count)
      << ranks << " ranks, depth " << Case::depth << ", " << blocks << " blocks of " << threads
      << ", offset " << offset << (in_place ? ", in place" : "");
}

/// Less than a stage; exactly k stages of every thread of every block of every rank; an element
/// more; 15 bytes more.
template <class Case, class T>
void check_counts() {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const auto& [blocks, threads] : {std::pair(1u, 1u), std::pair(3u, 2u)}) {
      const std::size_t stage =
          threads * host::KernelWords::pack_bytes * stage_packs(sizeof(T)) / sizeof(T);
      std::vector<std::size_t> counts = {1, stage / 2, stage - 1};
      for (const std::size_t k : {1u, 2u, 3u, 4u, 7u, 8u}) {
        const std::size_t exact = k * stage * blocks * static_cast<unsigned>(ranks);
        counts.insert(counts.end(), {exact, exact + 1, exact + 15 / sizeof(T)});
      }
      for (const std::size_t count : counts)
        for (const bool in_place : {false, true}) {
          check<Case, T>(ranks, count, in_place, 0, blocks, threads);
          if (testing::Test::HasFatalFailure()) return;
        }
      check<Case, T>(ranks, counts.back(), false, 1, blocks, threads);  // not aligned
    }
}

template <int Depth, class D>
struct With {
  static constexpr int depth = Depth;
  using Words = D;
  template <class T>
  using Kernel = AllReduce<T, Depth>;
};
template <class Case>
class FlashPipeline : public testing::Test {};
using Pipelines = testing::Types<With<2, host::KernelWords>, With<1, LateWords>, With<2, LateWords>,
                                 With<3, LateWords>, With<4, LateWords>>;
TYPED_TEST_SUITE(FlashPipeline, Pipelines);

TYPED_TEST(FlashPipeline, SumsInRankOrderAtEveryCount) {
  check_counts<TypeParam, std::uint8_t>();
  check_counts<TypeParam, bf16>();
}

}  // namespace
}  // namespace plait::flash
