// The progress of plait-bench: what is left is estimated by size, and the output fits its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "bench/progress.hpp"

namespace plait::bench {
namespace {

constexpr std::size_t small = 1 << 10, medium = 1 << 20, large = std::size_t{1} << 30;

TEST(RemainingTime, KnowsNothingAtFirst) {
  RemainingTime time;
  time.expect(small);
  EXPECT_EQ(time.left(), std::nullopt);
  EXPECT_EQ(time.share(), 0);
  EXPECT_EQ(time.done(), 0);
  EXPECT_EQ(time.all(), 1);
}

TEST(RemainingTime, CountsAMeasurementAsLongAsThoseOfItsSizeTook) {
  RemainingTime time;
  for (int i = 0; i < 4; ++i) {
    time.expect(small);
    time.expect(large);
  }
  time.took(small, 1);
  time.took(small, 3);
  time.took(large, 100);
  EXPECT_DOUBLE_EQ(time.left().value(), 2 * 2 + 3 * 100);
  EXPECT_DOUBLE_EQ(time.share(), 104.0 / (104 + 304));
  EXPECT_EQ(time.done(), 3);
  EXPECT_EQ(time.all(), 8);
}

TEST(RemainingTime, ScalesTheNearestSizeUntilASizeIsKnown) {
  RemainingTime time;
  for (const std::size_t bytes : {small, medium, large}) time.expect(bytes);
  time.took(small, 1);
  const double by_small = time.left().value();
  EXPECT_GT(by_small, 10);  // the large one takes far longer
  EXPECT_LT(by_small, 1000);
  time.took(medium, 10);  // and ten times as long as it would be
  EXPECT_GT(time.left().value(), 5 * by_small);
  time.took(large, 7);
  EXPECT_EQ(time.left(), 0);
  EXPECT_EQ(time.share(), 1);
}

/// An earlier run has left only small sizes.
TEST(RemainingTime, TakesALargerSizeIfNoSmallerOneIsKnown) {
  RemainingTime time;
  for (const std::size_t bytes : {small, large, large}) time.expect(bytes);
  time.took(large, 70);
  EXPECT_GT(time.left().value(), 70);
  EXPECT_LT(time.left().value(), 80);
}

TEST(Duration, HasTheUnitOfAReader) {
  EXPECT_EQ(duration(0.2), "1 s");
  EXPECT_EQ(duration(89), "89 s");
  EXPECT_EQ(duration(90), "2 min");
  EXPECT_EQ(duration(3601), "61 min");
  EXPECT_EQ(duration(3 * 3600 + 20 * 60), "3 h 20 min");
}

std::string shown(Progress how, int steps = 3,
                  std::chrono::seconds quiet = std::chrono::seconds(5)) {
  std::FILE* const file = std::tmpfile();
  {
    ProgressReport progress(how, file, quiet);
    for (int i = 0; i < steps; ++i) progress.expect(small);
    for (int i = 0; i < steps; ++i) {
      progress.begin(small, "all_reduce f32 1K, an algorithm with a name that fits no terminal");
      progress.hide();
    }
  }
  std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(ProgressReport, DrawsOneLineAndWipesIt) {
  const std::string text = shown(Progress::bar);
  const std::string wipe = "\r\x1b[K";
  EXPECT_TRUE(
      text.starts_with(wipe + "[........................] 0 of 3, time unknown: all_reduce"))
      << text;
  EXPECT_THAT(text, testing::HasSubstr("1 of 3, 1 s left: all_reduce f32 1K"));
  EXPECT_TRUE(text.ends_with(wipe));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  for (std::size_t from = 0; from < text.size();) {  // no line is longer than a terminal of 80
    const std::size_t to = std::min(text.find(wipe, from), text.size());
    EXPECT_LT(to - from, 80u);
    from = to + wipe.size();
  }
}

TEST(ProgressReport, PrintsALinePerTenth) {
  const std::string text = shown(Progress::lines, 1000, std::chrono::seconds(0));
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_EQ(lines, 9);
  EXPECT_THAT(text, testing::ContainsRegex(
                        "plait-bench: .0 % done, [0-9]+ of 1000, about [0-9]+ s left\n"));
}

TEST(ProgressReport, TakesLinesForAFile) {
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(resolve(Progress::automatic, file), Progress::lines);
  EXPECT_EQ(resolve(Progress::bar, file), Progress::bar);
  std::fclose(file);
}

}  // namespace
}  // namespace plait::bench
