// main of the programs that know nothing of Plait but NCCL's interface.
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const auto& all = *testing::UnitTest::GetInstance();
  if (result != 0 || all.test_to_run_count() != 0 || GTEST_FLAG_GET(list_tests)) return result;
  std::fputs("no test has that name: a filter that is out of date shows nothing\n", stderr);
  return 1;
}
