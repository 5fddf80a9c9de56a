// Ranks of a bootstrap that are threads of the test.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "plait/bootstrap.hpp"
#include "plait/unique_id.hpp"
#include "support/ranks.hpp"

namespace plait {

/// How the threads meet.
enum class Means { threads, sockets };
inline std::string name_of(Means means) { return means == Means::threads ? "threads" : "sockets"; }

/// Runs `body` on a thread per rank. The pointer is the thread's own: the body may destroy its
/// bootstrap.
inline void run_ranks(int size, const std::function<void(std::unique_ptr<Bootstrap>&)>& body,
                      std::chrono::nanoseconds timeout = std::chrono::seconds(60),
                      Means means = Means::threads) {
  auto bootstraps = make_thread_bootstraps(size);
  const UniqueId id = means == Means::sockets ? UniqueId::create() : UniqueId{};
  test::on_threads(size, [&](int rank) {
    auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
    if (means == Means::sockets) bootstrap = make_socket_bootstrap(id, rank, size);
    bootstrap->set_timeout(timeout);
    body(bootstrap);
  });
}

}  // namespace plait
