// What every bootstrap does, whatever its ranks are: run by threads in bootstrap_test, by processes in mpi_bootstrap_test.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"

namespace plait::test {

struct Conduct {
  std::string name;
  /// On every rank of three or more. The pointer is the rank's own: the body may destroy its bootstrap. `meet` waits for all ranks, by
  /// other means.
  std::function<void(std::unique_ptr<Bootstrap>& bootstrap, const std::function<void()>& meet)> body;
};

const std::vector<Conduct>& bootstrap_conduct();

}  // namespace plait::test
