// When no calibration is made, or kept: the user says so, something would be disturbed, or the
// machine is busy.
#include "communicator/calibration/calm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/calibration_cache.hpp"
#include "plait/plait.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(Calibrating, IsLeftOutIfTheUserSaysSoOrCallsAreCompared) {
  for (const auto& setting : {std::pair{"PLAIT_CALIBRATE", "0"}, {"PLAIT_CHECK", "1"}}) {
    const ScopedEnvironment variable(setting.first, setting.second);
    run_ranks(
        4,
        [&](Communicator& comm, int) {
          EXPECT_THAT(explained(comm), Not(HasSubstr("calibration"))) << setting.first;
        },
        options());
  }
  EXPECT_THAT(files(), IsEmpty());
}

/// Their calls, which nothing orders, could wait for those of the calibration.
TEST_F(Calibrating, IsLeftOutBesideOtherCommunicators) {
  auto bootstraps = make_thread_bootstraps(2);
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  std::once_flag once;
  run_ranks(
      2,
      [&](Communicator&, int rank) {
        std::call_once(once, [] { setenv("PLAIT_CALIBRATE", "again", 1); });
        const Communicator second =
            Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options());
        EXPECT_THAT(explained(second), Not(HasSubstr("calibration")));
      },
      options());
  EXPECT_THAT(files(), IsEmpty());
}

/// Here two ranks are on one.
TEST_F(Calibrating, IsLeftOutWhereRanksShareProcessors) {
  looks_at_machine = true;
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);  // threads inherit it
  const ScopedEnvironment bytes("PLAIT_SCRATCH_BYTES", "18M");
  run_ranks(
      2, [](Communicator&, int) {}, options());
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

/// Threads of this process keep all processors busy.
TEST_F(Calibrating, IsNotKeptFromABusyMachine) {
  looks_at_machine = true;
  const ScopedEnvironment bytes("PLAIT_SCRATCH_BYTES", "19M");
  std::vector<std::jthread> others;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    others.emplace_back([](const std::stop_token& end) {
      while (!end.stop_requested()) continue;
    });
  run_ranks(
      2,
      [](Communicator& comm, int) {
        EXPECT_THAT(explained(comm), Not(HasSubstr("by calibration\n")));
      },
      options());
  EXPECT_THAT(files(), IsEmpty());
}

TEST(CalmMachine, IsToldFromABusyOne) {
  const MachineFacts calm{
      .ranks = 4, .turns = 1, .waited = 0.02, .least_pulse_us = 0.6, .middle_pulse_us = 2.3};
  EXPECT_EQ(why_not_calm(calm, false), "");
  MachineFacts shared = calm;
  shared.turns = 2;
  EXPECT_EQ(why_not_calm(shared, false), "4 ranks share 2 processors");
  shared.waited = 0.5;
  EXPECT_EQ(why_not_calm(shared, true), "") << "they always wait for each other";
  for (const bool asked : {false, true}) {
    MachineFacts busy = calm;
    busy.waited = 0.31;
    EXPECT_THAT(why_not_calm(busy, asked),
                HasSubstr("busy: a rank waited for a processor for 31 % of the time"));
    busy.waited.reset();
    EXPECT_EQ(why_not_calm(busy, asked), "");
    busy.middle_pulse_us = 1400;
    EXPECT_THAT(why_not_calm(busy, asked),
                HasSubstr("took 0.6 us at best, and 1400.0 us half of the time"));
  }
}

}  // namespace
}  // namespace plait::test
