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
template <class Value, class Call>
void try_with(Member& member, __rlimit_resource what, Value value, const char* name, Call call) {
  member.begin();
  {
    const ResourceLimit limit(what, member.is_victim() ? value() : RLIM_INFINITY);
    member.report(std::string(name) + ": " + outcome(call));
  }
  member.report(std::string(name) + " again: " + outcome(call));
  member.report(std::string("calls after ") + name + ": " + outcome([&] { member.begin(); }));
}

/// As many as are open.
rlim_t open_files() {
  const auto here = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  return static_cast<rlim_t>(here) - 1;  // that of the folder is closed again
}

/// A limit of the address space that leaves room for small objects, which are not what is tested,
/// and not for a window.
rlim_t little_memory() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + (16u << 20);
}

}  // namespace

void descriptors() {
  Member member(std::chrono::seconds(20), {});
  try_with(member, RLIMIT_NOFILE, open_files, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(1000)); });
}

void memory() {
  Member member(std::chrono::seconds(20), {});
  try_with(member, RLIMIT_AS, little_memory, "allocate",
           [&] { static_cast<void>(member.comm().allocate<float>(8u << 20)); });
  try_with(member, RLIMIT_AS, little_memory, "create",
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
