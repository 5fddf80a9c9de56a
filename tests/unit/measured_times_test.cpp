// Measured times: their text, and what they say of sizes between the measured ones.
#include "communicator/selection/measured_times.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plait/error.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

Call call(std::size_t bytes, DataType type = DataType::u8) {
  return {.type = type, .count = bytes / size_of(type)};
}

Call symmetric(Call call, bool in_place) {
  call.symmetric = true;
  call.in_place = in_place;
  return call;
}

MeasuredTimes times(const std::vector<MeasuredCall>& calls) { return {"a machine", calls}; }

/// As written: ring's times are 2 us at 1 KB, 8 us at 4 KB and 16 us at 16 KB.
const std::vector<MeasuredCall> of_ring = {
    {call(4096), "ring", 8}, {call(1024), "ring", 2}, {call(16384), "ring", 16, 3}};

TEST(MeasuredTimes, AreStraightLinesBetweenSizesOnLogarithmicScales) {
  const MeasuredTimes ring = times(of_ring);
  const auto at = [&](std::size_t bytes) { return ring.find("ring", call(bytes))->microseconds; };
  EXPECT_DOUBLE_EQ(at(1024), 2);
  EXPECT_NEAR(at(2048), 4, 1e-9) << "half way from 2 to 8";
  EXPECT_DOUBLE_EQ(at(4096), 8);
  EXPECT_NEAR(at(8192), 11.3137085, 1e-6) << "half way from 8 to 16: 8 * sqrt(2)";
  EXPECT_NEAR(at(5793), 9.51366, 1e-3) << "a quarter: 8 * 2^(1/4)";
}

TEST(MeasuredTimes, KeepTheOrderOfTheEndsBeyondThem) {
  const MeasuredTimes ring = times(of_ring);
  EXPECT_DOUBLE_EQ(ring.find("ring", call(0))->microseconds, 2);
  EXPECT_DOUBLE_EQ(ring.find("ring", call(512))->microseconds, 2);
  EXPECT_TRUE(ring.find("ring", call(512))->extended);
  EXPECT_FALSE(ring.find("ring", call(1024))->extended);
  EXPECT_DOUBLE_EQ(ring.find("ring", call(32768))->microseconds, 32);
  EXPECT_TRUE(ring.find("ring", call(32768))->extended);
}

/// tree was too slow for larger sizes, flash for smaller ones.
TEST(MeasuredTimes, AreNoneWhereAnAlgorithmWasNotMeasured) {
  auto calls = of_ring;
  calls.push_back({call(1024), "tree", 1});
  calls.push_back({call(4096), "tree", 99});
  calls.push_back({call(16384), "flash", 1});
  const MeasuredTimes some = times(calls);
  EXPECT_TRUE(some.find("tree", call(4096)));
  EXPECT_FALSE(some.find("tree", call(4097)));
  EXPECT_TRUE(some.find("tree", call(5)));
  EXPECT_FALSE(some.find("flash", call(16383)));
  EXPECT_DOUBLE_EQ(some.find("flash", call(32768))->microseconds, 2);
  EXPECT_FALSE(some.find("stream", call(1024)));
  EXPECT_FALSE(some.find("ring", symmetric(call(1024), false)));
  Call other = call(1024);
  other.collective = Collective::broadcast;
  EXPECT_FALSE(some.find("ring", other));
}

TEST(MeasuredTimes, TellKindsOfMemoryAndPlacesApart) {
  const MeasuredTimes all = times({{call(1024), "ring", 1},
                                   {symmetric(call(1024), false), "ring", 2},
                                   {symmetric(call(1024), true), "ring", 3}});
  EXPECT_DOUBLE_EQ(all.find("ring", call(1024))->microseconds, 1);
  EXPECT_DOUBLE_EQ(all.find("ring", symmetric(call(1024), false))->microseconds, 2);
  EXPECT_DOUBLE_EQ(all.find("ring", symmetric(call(1024), true))->microseconds, 3);
}

TEST(MeasuredTimes, AreThoseOfTheTypeOrOfOneOfItsSize) {
  const MeasuredTimes all =
      times({{call(1024, DataType::f32), "ring", 1}, {call(1024, DataType::bf16), "ring", 2}});
  const auto of = [&](DataType type) { return all.find("ring", call(1024, type))->microseconds; };
  EXPECT_DOUBLE_EQ(of(DataType::f32), 1);
  EXPECT_DOUBLE_EQ(of(DataType::bf16), 2);
  EXPECT_DOUBLE_EQ(of(DataType::f16), 2);
  EXPECT_DOUBLE_EQ(of(DataType::i32), 1);
  EXPECT_DOUBLE_EQ(of(DataType::f64), 1);
}

TEST(MeasuredTimes, OfAnAlgorithmAreThoseOfItsBestShape) {
  const MeasuredTimes best = times({{call(1024), "ring", 3},
                                    {call(1024), "ring", 1, 2},
                                    {call(1024), "ring", 2, 1},
                                    {call(4096), "ring", 4}});
  EXPECT_DOUBLE_EQ(best.find("ring", call(1024))->microseconds, 1);
  EXPECT_EQ(best.find("ring", call(1024))->shape, 2u);
  EXPECT_EQ(best.find("ring", call(2047))->shape, 2u) << "of the nearer size";
  EXPECT_EQ(best.find("ring", call(2049))->shape, 0u);
}

const std::string text_of_ring =
    "plait-times 1\nfor a machine\nall_reduce u8 ordinary:\nring 1K=2 4K=8 16K=16@3\nend\n";

TEST(MeasuredTimes, AreReadAsTheyAreWritten) {
  EXPECT_EQ(times(of_ring).text(), text_of_ring);
  const MeasuredTimes read(text_of_ring, "a file");
  EXPECT_EQ(read.text(), text_of_ring);
  EXPECT_EQ(read.key(), "a machine");
  EXPECT_EQ(read.find("ring", call(16384))->shape, 3u);
  const MeasuredTimes windows(
      "plait-times 1\r\n\r\n# a comment\r\n for a machine \r\nall_reduce u8 in:\r\n  ring\t1K=2  # "
      "fast\r\nall_reduce u8 out:\r\nring 1K=3\r\nend\r\n# the end\r\n",
      "a file");
  EXPECT_DOUBLE_EQ(windows.find("ring", symmetric(call(1024), true))->microseconds, 2);
  EXPECT_DOUBLE_EQ(windows.find("ring", symmetric(call(1024), false))->microseconds, 3);
  EXPECT_EQ(times({{call(1000), "ring", 1.23456}}).text(),
            "plait-times 1\nfor a machine\nall_reduce u8 ordinary:\nring 1000=1.235\nend\n");
}

TEST(MeasuredTimes, OfAlgorithmsThatAreLeftOutArePassedOver) {
  const MeasuredTimes read(
      "plait-times 1\nfor x\nall_reduce u8 in:\nnobody 1K=1\nring 1K=2\nreduce u8 in:\nnobody "
      "1K=1\nend",
      "a file");
  EXPECT_EQ(read.text(), "plait-times 1\nfor x\nall_reduce u8 in:\nring 1K=2\nend\n");
  EXPECT_FALSE(read.find("nobody", symmetric(call(1024), true)));
}

/// At every byte: no half of a file is taken for a whole one.
TEST(MeasuredTimes, ThatAreCutOffAreRefused) {
  for (std::size_t length = 0; length + 1 < text_of_ring.size(); ++length)
    EXPECT_NE(error_of([&] { MeasuredTimes(text_of_ring.substr(0, length), "a file"); }),
              std::nullopt)
        << length;
  const std::string most = text_of_ring.substr(0, text_of_ring.size() - 4);
  expect_invalid([&] { MeasuredTimes(most, "a file"); },
                 "a file: the file is cut off: its last line is not \"end\"");
}

TEST(MeasuredTimes, ThatAreBrokenAreRefusedWithTheLine) {
  const auto refused = [](const std::string& line, const char* why, const char* number = "4") {
    const std::string text =
        "plait-times 1\nfor x\nall_reduce u8 in:\n" + line + "\nring 1K=1\nend\n";
    expect_invalid([&] { MeasuredTimes(text, "a file"); },
                   "a file: line " + std::string(number) + ": in \"", why);
  };
  refused("tree", "an algorithm and its times are expected");
  refused("tr=ee 1K=2", "an algorithm and its times are expected");
  refused("tree 1K", "\"1K\" is not of the form 1K=3.25 or 1K=3.25@2");
  for (const char* point :
       {"1K=", "=1", "1K=0", "1K=-1", "1K=nan", "1K=inf", "1K=1x", "1X=1", "1K=1@", "1K=1@-1",
        "1K=1@x", "1K=1@1000", "1K@1=1", "-1=1", "1K=1=1", "1K=1e999", "99999999999999999999=1"})
    refused(std::string("tree ") + point, "is not of the form");
  refused("tree 2K=1 1K=1", "\"1K=1\": sizes must ascend");
  refused("tree 1K=1 1K=1", "sizes must ascend");
  refused("ring 2K=1", "it is there twice", "5");
  refused("nobody 2K=1\nnobody 2K=1", "it is there twice", "5");
  refused("all_reduce u8 in:", "it is there twice");
  refused("all_reduce u8:", "not of the form \"all_reduce f32 in:\"");
  refused("all_reduce u8 inside:", "not of the form");
  refused("all_red u8 in:", "all_red");
  refused("all_reduce u9 in:", "u9");
  refused("end", "there is more after the end", "5");
  const auto refuses = [](const char* text, const char* why) {
    expect_invalid([&] { MeasuredTimes(text, "a file"); }, why);
  };
  refuses("plait-times 2\nfor x\nend", "in \"plait-times 2\": not \"plait-times 1\"");
  refuses("plait-times 1\nall_reduce u8 in:\nend", "not the machine and the communicator");
  refuses("plait-times 1\nfor x\nring 1K=1\nend", "not of the form \"all_reduce f32 in:\"");
  refuses("plait-times 1\nfor x\nri\x01ng 1K=1\nend", R"("ri\x01ng 1K=1")");
}

TEST(MeasuredTimes, AreToldFromRulesByTheFirstLine) {
  EXPECT_TRUE(MeasuredTimes::are_in(text_of_ring));
  EXPECT_TRUE(MeasuredTimes::are_in("plait-times 7\n"));
  EXPECT_TRUE(MeasuredTimes::are_in("\xef\xbb\xbf\r\n# a comment\n\n plait-times 1\r\n"));
  EXPECT_FALSE(MeasuredTimes::are_in("# plait-times 1\nring"));
  EXPECT_FALSE(MeasuredTimes::are_in("ring\n"));
  EXPECT_FALSE(MeasuredTimes::are_in("# plait 0.1.0\n[4 ranks]\nring"));
  EXPECT_FALSE(MeasuredTimes::are_in(""));
}

}  // namespace
}  // namespace plait::test
