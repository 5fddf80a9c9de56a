// The spans that a trace is made from: taken from the log of blocks, sorted into launches, and put
// on the host's clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "communicator/observe/trace.hpp"
#include "support/host_log.hpp"

namespace plait::test {
namespace {

using Span = BlockLog::Span;

std::vector<std::uint64_t> calls_of(const std::vector<Span>& spans, unsigned block) {
  std::vector<std::uint64_t> calls;
  for (const Span& span : spans)
    if (span.block == block) calls.push_back(span.call);
  return calls;
}
std::vector<std::uint64_t> from_to(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = first; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Spans, AreTakenOnce) {
  WrittenLog written;
  std::uint64_t lost = 0;
  written.run(1, 10, 3);
  written.start(0);
  const auto first = written.take(lost);
  for (unsigned block = 0; block < 3; ++block) EXPECT_EQ(calls_of(first, block), from_to(1, 10));
  for (const Span& span : first) EXPECT_LE(span.started_ns, span.completed_ns);
  EXPECT_EQ(first[0].blocks, 3u);
  EXPECT_TRUE(written.take(lost).empty());
  written.end(11, 0, 1);
  const auto second = written.take(lost);
  EXPECT_EQ(calls_of(second, 0), from_to(11, 11));
  EXPECT_EQ(second.size(), 1u);
  EXPECT_EQ(lost, 0u);
}

TEST(Spans, ThoseThatAreOverwrittenAreCounted) {
  WrittenLog written;
  std::uint64_t lost = 0;
  written.run(1, 100, 2);
  written.take(lost);
  written.run(101, 100 + span_ring, 1);  // just as many as there is room for
  EXPECT_EQ(calls_of(written.take(lost), 0), from_to(101, 100 + span_ring));
  EXPECT_EQ(lost, 0u);
  written.run(5001, 5000 + span_ring + 7, 1);
  EXPECT_EQ(calls_of(written.take(lost), 0), from_to(5008, 5007 + span_ring));
  EXPECT_EQ(lost, 7u);
  written.run(9001, 9003, 2);
  const auto after = written.take(lost);
  EXPECT_EQ(calls_of(after, 0), from_to(9001, 9003));
  EXPECT_EQ(calls_of(after, 1), from_to(9001, 9003));
  EXPECT_EQ(lost, 0u);
}

/// An event that is counted, but not complete yet.
TEST(Spans, HalfASpanIsLeftForLater) {
  WrittenLog written;
  std::uint64_t lost = 0;
  written.run(1, 3, 1);
  std::uint64_t& word = written.watch().spans[1].completed_ns;
  word -= 5;
  EXPECT_EQ(calls_of(written.take(lost), 0), from_to(1, 1));
  word += 5;
  EXPECT_EQ(calls_of(written.take(lost), 0), from_to(2, 3));
  EXPECT_EQ(lost, 0u);
}

TEST(Spans, AreWholeWhileTheyAreWritten) {
  constexpr std::uint64_t launches = 50'000;
  WrittenLog written;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    written.run(1, launches, 1);
    done = true;
  });
  std::uint64_t all_lost = 0, before = 0, taken = 0;
  for (bool last = false; !last;) {
    last = done;
    std::uint64_t lost = 0;
    for (const Span& span : written.take(lost)) {
      ASSERT_GT(span.call, before);
      ASSERT_EQ(span.blocks, 1u);
      ASSERT_LE(span.started_ns, span.completed_ns);
      before = span.call;
      ++taken;
    }
    all_lost += lost;
  }
  writer.join();
  EXPECT_EQ(before, launches);
  EXPECT_EQ(taken + all_lost, launches);
}

Span span_of(std::uint64_t call, unsigned block, unsigned blocks, std::uint64_t begin,
             std::uint64_t end) {
  return {.call = call, .block = block, .blocks = blocks, .started_ns = begin, .completed_ns = end};
}

TEST(Launches, AreToldApart) {
  std::vector<Span> spans = {
      span_of(1, 0, 2, 10, 20), span_of(1, 1, 2, 21, 30),  // one block after the other
      span_of(2, 0, 1, 31, 32), span_of(2, 1, 2, 33, 40),
      span_of(2, 0, 2, 34, 40), span_of(2, 0, 1, 41, 42),  // three kernels of a call
      span_of(3, 1, 2, 50, 60), span_of(3, 0, 2, 51, 60),
      span_of(3, 1, 2, 61, 70), span_of(3, 0, 2, 62, 70),  // two replays
      span_of(4, 1, 2, 71, 72), span_of(4, 1, 2, 73, 74),
      span_of(5, 0, 2, 75, 76)};  // with spans lost
  const std::vector<std::size_t> expected = {0, 2, 3, 5, 6, 8, 10, 11, 12};
  EXPECT_EQ(sort_into_launches(spans), expected);
  std::reverse(spans.begin(), spans.end());
  EXPECT_EQ(sort_into_launches(spans), expected) << "also out of order";
}

TEST(ClockOffsets, AreWhatIsPossible) {
  ClockOffset offset;
  EXPECT_EQ(offset.nanoseconds(), 0);
  offset.note_before(1100, 200);  // it was already that late
  EXPECT_EQ(offset.nanoseconds(), 900);
  EXPECT_FALSE(offset.uncertainty());
  offset.note_before(1150, 400);
  offset.note_after(1400, 300);
  offset.note_after(1500, 550);
  EXPECT_EQ(offset.nanoseconds(), 950);
  EXPECT_EQ(offset.uncertainty(), 50);
}

}  // namespace
}  // namespace plait::test
