// Memory of the host: asked for before it is committed, and committed as it is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "backends/host/memory_limits.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"
#include "support/resource_limit.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t mega = std::size_t{1} << 20;

/// A tree of files that looks like /proc and control groups.
class System {
 public:
  System()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("plait_memory_" + std::to_string(::getpid()))) {
    write("/proc/meminfo",
          "MemTotal: 9999999 kB\nMemFree: 1 kB\nMemAvailable: 320 kB\nSwapFree: 64 kB\n");
  }
  ~System() { std::filesystem::remove_all(root_); }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(
        (root_.string() + path).substr(0, (root_.string() + path).rfind('/')));
    std::ofstream(root_.string() + path) << text;
  }
  /// "name left" of each limit.
  std::vector<std::string> limits() const {
    std::vector<std::string> all;
    for (const MemoryLimit& limit : host::memory_limits(root_.string()))
      all.push_back(std::string(limit.name.data()) + ' ' + std::to_string(limit.left));
    return all;
  }

 private:
  std::filesystem::path root_;
};

TEST(MemoryLimits, AreTheMachines) {
  const System system;
  EXPECT_THAT(system.limits(),
              testing::ElementsAre("the machine " + std::to_string(384 * 1024 * 31 / 32)));
}

TEST(MemoryLimits, AreThoseOfAllGroupsAbove) {
  const System system;
  system.write("/proc/self/mountinfo",
               "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  system.write("/proc/self/cgroup", "0::/jobs/7\n");
  system.write("/sys/fs/cgroup/cgroup.procs", "");  // the root group has no limit
  system.write("/sys/fs/cgroup/jobs/memory.max", "6400\n");
  system.write("/sys/fs/cgroup/jobs/memory.current", "3200\n");
  system.write("/sys/fs/cgroup/jobs/memory.stat", "anon 7\ninactive_file 640\n");
  system.write("/sys/fs/cgroup/jobs/7/memory.max", "max\n");
  system.write("/sys/fs/cgroup/jobs/7/memory.current", "3200\n");
  EXPECT_THAT(system.limits(),
              testing::ElementsAre(HasSubstr("the machine"), "the control group /jobs 3720"));
  system.write("/sys/fs/cgroup/jobs/7/memory.max", "3264\n");
  EXPECT_THAT(system.limits(),
              testing::ElementsAre(HasSubstr("the machine"), "the control group /jobs/7 62",
                                   "the control group /jobs 3720"));
}

TEST(MemoryLimits, AreThoseOfTheFirstVersion) {
  const System system;
  system.write(
      "/proc/self/mountinfo",
      "31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
      "32 25 0:28 /docker/abc /sys/fs/cgroup/memory rw master:3 - cgroup cgroup rw,memory\n");
  system.write("/proc/self/cgroup", "5:cpu:/\n4:memory:/docker/abc/job\n0::/\n");
  system.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  system.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "96000\n");
  system.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "64640\n");
  system.write("/sys/fs/cgroup/memory/job/memory.stat", "cache 5\ntotal_inactive_file 640\n");
  EXPECT_THAT(system.limits(),
              testing::ElementsAre(HasSubstr("the machine"), "the control group /job 31000"));
}

/// A group that this process can't see, as in a container, may be the one at the mount point.
TEST(MemoryLimits, AreThoseThatAContainerSees) {
  const System system;
  system.write("/proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  system.write("/proc/self/cgroup", "0::/kubepods/pod1\n");
  system.write("/sys/fs/cgroup/memory.max", "6400\n");
  system.write("/sys/fs/cgroup/memory.current", "0\n");
  EXPECT_THAT(system.limits(),
              testing::ElementsAre(HasSubstr("the machine"), "the control group / 6200"));
}

// --- allocations

std::size_t machine_left() {
  const auto limits = host::memory_limits();
  return limits.empty() ? 0 : limits.front().left;
}

/// The kernel would have ended other processes to make room.
TEST(Allocate, RefusesWhatTheMachineDoesNotHave) {
  for (const int ranks : {1, 3}) {
    const std::size_t before = machine_left();
    // One part alone would fit where there are several.
    const std::size_t bytes = ranks == 1 ? std::size_t{1} << 40 : before - before / 16;
    run_ranks(ranks, {.backend = BackendKind::host}, [&](Communicator& comm, int) {
      for (int i = 0; i < 2; ++i)
        expect_throws(
            ErrorCode::out_of_memory, [&] { static_cast<void>(comm.allocate<char>(bytes)); },
            "allocate: rank 0: " + std::to_string(bytes) + " bytes for each of " +
                std::to_string(ranks),
            "left");
      const auto small = comm.allocate<float>(1000);
      comm.all_reduce(small.span(), small.span(), ReduceOp::sum);
      comm.synchronize();
    });
    EXPECT_GT(machine_left(), before / 2) << "something was committed";
  }
}

/// Beyond it the kernel ends the process by SIGXFSZ.
TEST(Allocate, RefusesFilesThatAreTooLarge) {
  run_ranks(1, {.backend = BackendKind::host}, [](Communicator& comm, int) {
    {
      const ResourceLimit limit(RLIMIT_FSIZE, mega);
      expect_throws(
          ErrorCode::out_of_memory, [&] { static_cast<void>(comm.allocate<char>(mega + 1)); },
          "ulimit -f");
      expect_throws(
          ErrorCode::out_of_memory, [&] { static_cast<void>(comm.duplicate()); }, "ulimit -f");
      static_cast<void>(comm.allocate<char>(mega));
    }
    static_cast<void>(comm.allocate<char>(mega + 1));
  });
}

// --- scratch memory

void all_collectives(Communicator& comm, std::size_t count, StreamRef stream = {}) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<float> send(count * n, 1), recv(count * n);
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    comm.enqueue({.collective = collective, .count = collective == Collective::barrier ? 0 : count},
                 send.data(), recv.data(), stream);
  }
  comm.synchronize(stream);
  comm.all_reduce(send.data(), recv.data(), count, DataType::f32, ReduceOp::sum, stream);
  comm.synchronize(stream);
  EXPECT_EQ(recv[0], static_cast<float>(n));
  EXPECT_EQ(recv[count - 1], static_cast<float>(n));
}

TEST(Scratch, IsCommittedAsItIsUsed) {
  for (const int ranks : {2, 8}) {
    run_ranks(ranks, {.backend = BackendKind::host}, [](Communicator& comm, int) {
      const Statistics fresh = comm.statistics();
      EXPECT_GT(fresh.scratch_bytes, 100 * mega);
      EXPECT_LT(fresh.scratch_bytes_committed, mega);
      all_collectives(comm, 100);
      const Statistics used = comm.statistics();
      EXPECT_GT(used.scratch_bytes_committed, fresh.scratch_bytes_committed);
      EXPECT_LT(used.scratch_bytes_committed, 4 * mega);
      auto part = comm.split(comm.rank() % 2, 0);
      auto copy = comm.duplicate();
      EXPECT_LT(
          part->statistics().scratch_bytes_committed + copy.statistics().scratch_bytes_committed,
          mega);
    });
  }
}

/// The first call that a communicator makes is a large one, by each algorithm.
TEST(Scratch, IsThereForALargeMessageAtOnce) {
  constexpr std::size_t count = 1'000'000;
  for (const auto& algorithm : Registry::instance().all()) {
    if (algorithm->collective() != Collective::all_reduce || algorithm->is_lossy()) continue;
    run_ranks(2, {.backend = BackendKind::host}, [&](Communicator& comm, int rank) {
      // All but those for several nodes.
      if (!is_served(comm, {.algorithm = std::string(algorithm->name()),
                            .count = count,
                            .in_place = true,
                            .symmetric = true}))
        return;
      const auto x = comm.allocate<float>(count);
      for (std::size_t i = 0; i < count; ++i)
        x.data()[i] = element<float>(1, rank, i, ReduceOp::sum);
      comm.all_reduce(x.data(), x.data(), count, DataType::f32, ReduceOp::sum, {},
                      {.algorithm = std::string(algorithm->name())});
      comm.synchronize();
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(x.data()[i], expected<float>(1, 2, i, ReduceOp::sum, 1))
            << algorithm->name() << ", " << i;
    });
  }
}

TEST(Scratch, HasAnOption) {
  const ScopedEnvironment variable("PLAIT_SCRATCH_BYTES", "64M");
  run_ranks(2, {.backend = BackendKind::host, .scratch_bytes = 16 * mega},
            [](Communicator& comm, int) {
              EXPECT_LE(comm.statistics().scratch_bytes, 16 * mega);
              EXPECT_LE(comm.duplicate().statistics().scratch_bytes, 16 * mega);
              all_collectives(comm, 1000);
            });
  run_ranks(2, {.backend = BackendKind::host},
            [](Communicator& comm, int) { EXPECT_GT(comm.statistics().scratch_bytes, 32 * mega); });
}

/// The host target with as much memory as the test says.
std::atomic<std::size_t> bytes_left = 0;
class ShortBackend final : public HostAsCuda {
 public:
  explicit ShortBackend(int ordinal) : HostAsCuda(ordinal, "short" + std::to_string(ordinal)) {}
  std::vector<MemoryLimit> memory_limits() const override {
    return {{.id = 7, .left = bytes_left, .name = {"the test"}}};
  }
};
const BackendRegistration registration = stand_in_for_cuda<ShortBackend>();

/// No signal and no hang, even if the others are in the call already.
TEST(Scratch, ThatCannotBeHadBreaksTheCommunicatorOnAllRanks) {
  bytes_left = 64 * mega;
  CommunicatorOptions options = patient();
  options.backend = BackendKind::cuda;
  run_ranks(3, options, [](Communicator& comm, int rank) {
    std::vector<float> x(1000);
    const auto reduce = [&](const char* algorithm) {
      comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                      {.algorithm = algorithm, .threads = 1});
      comm.synchronize();
    };
    reduce("oneshot_ll");
    comm.bootstrap().barrier();
    if (rank == 0) bytes_left = 1000;
    comm.bootstrap().barrier();
    reduce("oneshot_ll");  // what it touches is there
    comm.bootstrap().barrier();
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    expect_throws(
        ErrorCode::out_of_memory, [&] { reduce("ring"); }, "scratch memory of ring",
        "the test has 1000");
    expect_throws(
        ErrorCode::out_of_memory, [&] { reduce("oneshot_ll"); }, "scratch memory of ring");
  });
}

TEST(Scratch, OfParticularAllocationsIsAskedForOnAllRanksTogether) {
  bytes_left = 64 * mega;
  CommunicatorOptions options = patient();
  options.backend = BackendKind::cuda;
  run_ranks(4, options, [](Communicator& comm, int) {
    expect_throws(
        ErrorCode::out_of_memory, [&] { static_cast<void>(comm.allocate<char>(17 * mega)); },
        "allocate: rank 0: 17825792 bytes for each of 4 ranks, and the test "
        "has 67108864 bytes left");
    static_cast<void>(comm.allocate<char>(16 * mega));
  });
}

}  // namespace
}  // namespace plait::test
