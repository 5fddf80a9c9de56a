#include <unistd.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <ctime>
#include <set>

#include "bench/peers/mpi.hpp"
#include "bench/results.hpp"
#include "plait/version.hpp"

namespace plait::bench {
namespace {

std::vector<std::string> gather(Bootstrap& bootstrap, const std::string& text) {
  std::array<char, 256> mine{};
  std::copy_n(text.begin(), std::min(text.size(), mine.size() - 1), mine.begin());
  std::vector<std::string> all;
  for (const auto& other : bootstrap.all_gather(mine)) all.emplace_back(other.data());
  return all;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string hostname() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The architecture of all devices, or "mixed", as in Topology.
std::string architecture(Communicator& comm) {
  const auto all = gather(comm.bootstrap(), backend_of(comm).info().architecture);
  return std::all_of(all.begin(), all.end(),
                     [&](const std::string& other) { return other == all[0]; })
             ? all[0]
             : "mixed";
}

/// In how many processes the ranks live.
int processes(Bootstrap& bootstrap) {
  struct Process {
    std::int64_t node, number;
    // NOLINTNEXTLINE(modernize-use-nullptr): the default compares with 0
    auto operator<=>(const Process&) const = default;
  };
  const auto all = bootstrap.all_gather(Process{bootstrap.node(), getpid()});
  return static_cast<int>(std::set<Process>(all.begin(), all.end()).size());
}

}  // namespace

bool share_a_device(Communicator& comm) {
  const auto places = gather(comm.bootstrap(), hostname() + " " + backend_of(comm).info().id);
  return std::set<std::string>(places.begin(), places.end()).size() != places.size();
}

Machine describe_machine(Communicator& comm) {
  return {.date = now(),
          .hostname = hostname(),
          .backend = std::string(name_of(comm.backend_kind())),
          .architecture = architecture(comm),
          .ranks = gather(comm.bootstrap(), comm.describe()),
          .devices = gather(comm.bootstrap(), backend_of(comm).info().name),
          .nodes = comm.bootstrap().nodes(),
          .version = PLAIT_VERSION,
          .mpi_version = mpi_version(),
          .processes = processes(comm.bootstrap())};
}

}  // namespace plait::bench
