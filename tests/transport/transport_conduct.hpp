// Tests of every transport, whoever the ranks are. transport_test runs them on threads, each with
// a transport of its own. A test program for a transport of processes can run the same bodies.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

struct Conduct {
  std::string name;
  int ranks;
  /// On every rank. `ranks` exchanges what the ranks need to know. The body may destroy the
  /// transport.
  std::function<void(std::unique_ptr<Transport>& transport, Bootstrap& ranks)> body;
};

const std::vector<Conduct>& transport_conduct();

}  // namespace plait::transport
