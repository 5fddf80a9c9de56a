// The knowledge that CPU ranks have of each other's processes.
#include "backends/host/processes.hpp"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace plait::host {
namespace {

/// A process that may run on these of the first processors.
ProcessFacts on(std::uint64_t processors, std::uint64_t quota = 0) {
  ProcessFacts facts;
  facts.processors[0] = processors;
  facts.quota = quota;
  return facts;
}

TEST(Processes, SpinLongWhereAllHaveACore) {
  const unsigned few = spins_for(std::array{on(0b11), on(0b11), on(0b11)}, 1);
  const auto spins = [](const std::vector<ProcessFacts>& processes, unsigned threads = 1) {
    return spins_for(processes, threads);
  };
  EXPECT_LT(few, 100u);
  EXPECT_GT(spins({on(0b11), on(0b11)}), 10 * few);
  EXPECT_GT(spins({on(0b01), on(0b10)}), 10 * few) << "each bound to its own";
  EXPECT_EQ(spins({on(0b01), on(0b01)}), few) << "both bound to one";
  EXPECT_EQ(spins({on(0b11), on(0b11)}, 2), few) << "two threads each";
  EXPECT_EQ(spins({on(0b1111, 1), on(0b1111, 1)}), few)
      << "a control group with one processor's time";
  EXPECT_GT(spins({on(0b1111, 2), on(0b1111, 2)}), 10 * few);
}

TEST(Processes, TakeTurnsOnProcessors) {
  EXPECT_EQ(turns_of(std::array{on(0b11), on(0b11), on(0b11)}, 1), 1.5);
  EXPECT_EQ(turns_of(std::array{on(0b0011), on(0b1110)}, 1), 0.5);
  EXPECT_EQ(turns_of(std::array{on(0b11), on(0b11)}, 4), 4) << "four threads each";
  EXPECT_EQ(turns_of(std::array{on(0b1111, 1), on(0b1111, 1)}, 1), 2) << "a control group";
}

TEST(Processes, KnowTheirProcessors) {
  const ProcessFacts mine = process_facts();
  EXPECT_EQ(mine.process, getpid());
  EXPECT_NE(mine.processors, ProcessFacts().processors);
}

TEST(Processes, AreReadOnlyIfTheWordIsThere) {
  const ProcessFacts mine = process_facts();
  int word = 1, copy = 0;
  const iovec local{&copy, sizeof(copy)}, remote{&word, sizeof(word)};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != sizeof(word))
    GTEST_SKIP() << "process_vm_readv is forbidden here";
  EXPECT_TRUE(can_read(std::array{mine, mine}));
  ProcessFacts other = mine;
  ++other.value;
  EXPECT_FALSE(can_read(std::array{mine, other}))
      << "another process of that number, in another container";
  other = mine;
  other.address = 0;
  EXPECT_FALSE(can_read(std::array{mine, other}));
  other = mine;
  other.process = fork();
  if (other.process == 0) _exit(0);
  waitpid(static_cast<pid_t>(other.process), nullptr, 0);
  EXPECT_FALSE(can_read(std::array{mine, other})) << "a process that has ended";
}

}  // namespace
}  // namespace plait::host
