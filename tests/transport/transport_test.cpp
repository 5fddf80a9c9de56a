// Each transport, with ranks that are threads.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plait/bootstrap.hpp"
#include "support/ranks.hpp"
#include "transport/plugin/plugin_transport.hpp"
#include "transport/socket/socket_transport.hpp"
#include "transport/test_plugin_files.hpp"
#include "transport/transport_conduct.hpp"

namespace plait::transport {
namespace {

struct Kind {
  std::string name;
  /// All transports of a kind can reach each other.
  std::function<std::unique_ptr<Transport>()> make;
  int plugin = 0;  // the version of one
};

Kind sockets(int connections, int threads = 0) {
  std::string name = "Sockets" + std::to_string(connections);
  if (threads > 0) name += "Threads" + std::to_string(threads);
  return {name, [connections, threads] {
            const plait::detail::Secret secret{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12}};
            return make_socket_transport({.secret = secret,
                                          .connections = connections,
                                          .threads = threads,
                                          .address = std::nullopt});
          }};
}

/// The test plug-in with the table of one version.
Kind plugin(int version) {
  const std::string file = test::test_plugin(test::plugin_of_version(version));
  return {"PluginV" + std::to_string(version), [file] { return make_plugin_transport(file, 0); },
          version};
}

std::vector<Kind> kinds() {
  return {sockets(1), sockets(2), sockets(8), sockets(2, 1), sockets(2, 2),
          plugin(8),  plugin(9),  plugin(10), plugin(11),    plugin(12)};
}

class Transports : public testing::TestWithParam<std::tuple<Kind, Conduct>> {};
INSTANTIATE_TEST_SUITE_P(Each, Transports,
                         testing::Combine(testing::ValuesIn(kinds()),
                                          testing::ValuesIn(transport_conduct())),
                         [](const auto& given) {
                           return std::get<0>(given.param).name + "_" +
                                  std::get<1>(given.param).name;
                         });

TEST_P(Transports, Conduct) {
  const auto& [kind, conduct] = GetParam();
  const test::RoughPlugin rough(kind.plugin);
  auto bootstraps = make_thread_bootstraps(conduct.ranks);
  test::on_threads(conduct.ranks, [&make = kind.make, &body = conduct.body, &bootstraps](int rank) {
    const auto bootstrap = std::move(bootstraps[static_cast<std::size_t>(rank)]);
    bootstrap->set_timeout(std::chrono::seconds(60));
    auto transport = make();
    body(transport, *bootstrap);
  });
}

}  // namespace
}  // namespace plait::transport
