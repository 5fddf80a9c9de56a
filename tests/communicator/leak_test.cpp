// Communicators come and go, as many as one likes: memory, descriptors, mappings and threads are
// back where they were. PLAIT_LEAK_ROUNDS: how many, instead of some seconds' worth.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// The resources that a process holds.
struct Holdings {
  std::ptrdiff_t descriptors = 0, threads = 0, mappings = 0;
  std::size_t kilobytes = 0;  // resident

  static Holdings now() {
    Holdings held;
    held.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    held.threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++held.mappings;
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == "VmRSS:") status >> held.kilobytes;
    return held;
  }
  /// A thread that was joined stays in /proc for some moments more: the fewest threads in a tenth
  /// of a second.
  static Holdings settled() {
    Holdings held = now();
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (const Holdings later = now(); later.threads < held.threads) held = later;
    }
    return held;
  }
};

int rounds() {
  if (const char* wanted = std::getenv("PLAIT_LEAK_ROUNDS"); wanted != nullptr)
    return std::atoi(wanted);
  return target() == BackendKind::host && !under_tsan ? 300 : 30;
}

/// Made, used, divided and destroyed, in every other round after an error.
void live_once(int ranks, bool abort) {
  run_ranks(ranks, [&](Communicator& comm, int rank) {
    const Buffer<float> x = comm.allocate<float>(1000);
    Stream stream = comm.create_stream();
    comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, stream);
    comm.synchronize(stream);
    const std::optional<Communicator> part = comm.split(rank % 2, rank);
    comm.bootstrap().barrier();
    if (abort) comm.abort("this round's error");
  });
}

PLAIT_FOR_RANKS(Leak, testing::Values(1, 3));

TEST_P(Leak, NothingIsLeftOfManyCommunicators) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam());
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "5M"), quiet("PLAIT_LOG", "off");
  for (int i = 0; i < 20; ++i)
    live_once(GetParam(), i % 2 == 1);  // allocators and drivers keep what they got first
  const Holdings before = Holdings::settled();
  for (int i = 0; i < rounds(); ++i) live_once(GetParam(), i % 2 == 1);
  const Holdings after = Holdings::settled();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LE(after.mappings, before.mappings + 10)
      << "arenas of malloc come and go, but not one a round";
  EXPECT_LE(after.kilobytes, before.kilobytes + 20 * 1024 + static_cast<std::size_t>(rounds()))
      << "a kilobyte a round is a leak";
}

}  // namespace
}  // namespace plait::test
