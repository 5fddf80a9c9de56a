// Tests of every bootstrap, whatever its ranks are: run by threads in bootstrap_test, by processes
// in mpi_bootstrap_test.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"
#include "support/errors.hpp"

namespace plait::test {

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

struct Conduct {
  std::string name;
  /// On every rank of three or more. The pointer is the rank's own: the body may destroy its
  /// bootstrap. `meet` waits for all ranks, by other means.
  std::function<void(std::unique_ptr<Bootstrap>& bootstrap, const std::function<void()>& meet)>
      body;
};

const std::vector<Conduct>& bootstrap_conduct();

}  // namespace plait::test
