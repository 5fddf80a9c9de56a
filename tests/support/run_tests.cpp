#include "support/run_tests.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace plait::test {
namespace {

class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "%s:%d: %s\n", result.file_name() ? result.file_name() : "",
                   result.line_number(), result.message());
  }
};

}  // namespace

int run_tests() {
  // As under CTest (tests/CMakeLists.txt), for programs that are run by hand.
  setenv("PLAIT_CALIBRATE", "0", 0);
  const int result = RUN_ALL_TESTS();
  const auto& all = *testing::UnitTest::GetInstance();
  if (result == 0 && all.test_to_run_count() == 0 && !GTEST_FLAG_GET(list_tests)) {
    std::fputs("no test has that name, so nothing was tested\n", stderr);
    return 1;
  }
  return result;
}

int run_tests(int rank) {
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);
  }
  return run_tests();
}

}  // namespace plait::test
