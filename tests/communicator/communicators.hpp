// The fixture for tests of communicators with one to four ranks, which are threads.
#pragma once
#include <gtest/gtest.h>

#include "support/ranks.hpp"

namespace plait::test {

class Communicators : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
};

}  // namespace plait::test
