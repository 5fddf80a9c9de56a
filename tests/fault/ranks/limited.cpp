// Ranks that run out of open files, memory or threads.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "fault/ranks/faults.hpp"
#include "support/no_threads.hpp"
#include "support/resource_limit.hpp"

namespace plait::test {

namespace {

/// A call that fails on one rank fails on all, and is as if it had not been made.
template <class Call>
void try_with(Member& member, __rlimit_resource what, rlim_t value, const char* name, Call call) {
  member.begin();
  {
    const ResourceLimit limit(what, member.is_victim() ? value : RLIM_INFINITY);
    member.report(std::string(name) + ": " + outcome(call));
  }
  member.report(std::string(name) + " again: " + outcome(call));
  member.report(std::string("calls after ") + name + ": " + outcome([&] { member.begin(); }));
}

}  // namespace

void descriptors() {
  Member member(std::chrono::seconds(20), {});
  const auto open =
      static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
  try_with(member, RLIMIT_NOFILE, member.is_victim() ? open - 1 : open + 1000, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(1000)); });
}

void memory() {
  Member member(std::chrono::seconds(20), {});
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t little = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (4u << 20);
  try_with(member, RLIMIT_AS, little, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(8u << 20)); });
  try_with(member, RLIMIT_AS, little, "create",
           [&] { static_cast<void>(member.comm().duplicate()); });
}

void threads() {
  const auto world = make_mpi_bootstrap(MPI_COMM_WORLD);
  const int rank = world->rank();
  // There is no other communicator: the first one of a process starts the monitor's thread.
  const auto create = [] { static_cast<void>(Member(std::chrono::seconds(20), {})); };
  {
    std::optional<NoThreads> none;
    if (rank == victim) none.emplace();
    say(rank, "create: " + outcome(create));
  }
  say(rank, "create again: " + outcome([] { Member(std::chrono::seconds(20), {}).begin(); }));
}

}  // namespace plait::test
