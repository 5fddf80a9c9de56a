// main of the tests whose ranks are threads.
#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/run_tests.hpp"

namespace {

class DropCommunicators final : public testing::Environment {
 public:
  void TearDown() override { plait::test::RankGroup::drop_cached(); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new DropCommunicators);
  return plait::test::run_tests();
}
