// main of the tests whose ranks are threads.
#include <gtest/gtest.h>

#include <cstdio>

#include "support/ranks.hpp"

namespace {

class DropCommunicators final : public testing::Environment {
 public:
  void TearDown() override { plait::test::RankGroup::drop_cached(); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new DropCommunicators);
  const int result = RUN_ALL_TESTS();
  const auto& all = *testing::UnitTest::GetInstance();
  if (result == 0 && all.test_to_run_count() == 0 && !GTEST_FLAG_GET(list_tests)) {
    std::fputs("no test has that name: a filter that is out of date shows nothing\n", stderr);
    return 1;
  }
  return result;
}
