// transport_bench [CONNECTIONS...]: rates and round-trip times of sockets between two threads of
// this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "plait/bootstrap.hpp"
#include "transport/flows.hpp"
#include "transport/socket/socket_transport.hpp"

namespace plait::transport {
namespace {

using std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// `sleeps`: between tests, instead of testing without end.
Microseconds round_trip(Transport& transport, Mesh& mesh, int rank, std::size_t bytes,
                        bool sleeps) {
  const auto other = static_cast<std::size_t>(1 - rank);
  Buffer out(*mesh.to[other], bytes), in(*mesh.from[other], bytes);
  const auto complete = [&](Flow& flow, Request request) {
    while (!flow.test(request)) {
      if (sleeps) transport.wait(1ms);
      else std::this_thread::yield();
    }
  };
  constexpr int rounds = 2000;
  const auto start = steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    const Request receiving = receive(transport, *mesh.from[other], in, bytes);
    if (rank == 0) complete(*mesh.to[other], send(transport, *mesh.to[other], out, bytes));
    complete(*mesh.from[other], receiving);
    if (rank == 1) complete(*mesh.to[other], send(transport, *mesh.to[other], out, bytes));
  }
  return (steady_clock::now() - start) / rounds;
}

/// Megabytes per second, from rank 0 to rank 1, with eight messages under way.
double rate(Transport& transport, Mesh& mesh, int rank, std::size_t bytes) {
  constexpr std::size_t depth = 8;
  const std::size_t number = std::max<std::size_t>((std::size_t{1} << 30) / bytes, depth);
  const auto other = static_cast<std::size_t>(1 - rank);
  Flow& flow = rank == 0 ? static_cast<Flow&>(*mesh.to[other]) : *mesh.from[other];
  std::vector<Buffer> buffers;
  for (std::size_t at = 0; at < depth; ++at) buffers.emplace_back(flow, bytes).fill(at);
  std::vector<Request> requests(depth);
  const auto start = steady_clock::now();
  for (std::size_t at = 0; at < number + depth; ++at) {
    Request& request = requests[at % depth];
    if (request != nullptr)
      while (!flow.test(request)) transport.wait(1ms);
    request = nullptr;
    if (at >= number) continue;
    Buffer& buffer = buffers[at % depth];
    request = rank == 0 ? send(transport, *mesh.to[other], buffer, bytes)
                        : receive(transport, *mesh.from[other], buffer, bytes);
  }
  const Microseconds time = steady_clock::now() - start;
  return static_cast<double>(number * bytes) / time.count();
}

void measure(int connections, Bootstrap& ranks) {
  auto transport =
      make_socket_transport({.secret = {}, .connections = connections, .address = std::nullopt});
  Mesh mesh = connect_all(*transport, ranks);
  const auto say = [&](const std::string& words) {
    if (ranks.rank() == 0) fmt::print("{} connections: {}\n", connections, words);
    ranks.barrier();
  };
  ranks.barrier();
  for (const std::size_t bytes : {8, 4096}) {
    for (const bool sleeps : {false, true}) {
      const auto time = round_trip(*transport, mesh, ranks.rank(), bytes, sleeps);
      say(fmt::format("{} B there and back {:.1f} us, {}", bytes, time.count(),
                      sleeps ? "sleeping" : "polling"));
    }
  }
  for (const std::size_t bytes : {32 << 10, 256 << 10, 1 << 20, 8 << 20}) {
    const double megabytes = rate(*transport, mesh, ranks.rank(), bytes);
    say(fmt::format("{} KB messages {:.0f} MB/s", bytes >> 10, megabytes));
  }
}

}  // namespace
}  // namespace plait::transport

int main(int argc, char** argv) {
  std::vector<int> numbers;
  for (int at = 1; at < argc; ++at) numbers.push_back(std::atoi(argv[at]));
  if (numbers.empty()) numbers = {1, 2, 4};
  for (const int connections : numbers) {
    auto bootstraps = plait::make_thread_bootstraps(2);
    std::thread other([&] { plait::transport::measure(connections, *bootstraps[1]); });
    plait::transport::measure(connections, *bootstraps[0]);
    other.join();
  }
}
