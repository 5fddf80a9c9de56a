// How measured times are kept in files, found again and given to all ranks; and when none are made,
// or kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/calibration/calibration.hpp"
#include "communicator/calibration/calm_machine.hpp"
#include "communicator/calibration_cache.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/plait.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace fs = std::filesystem;

/// Times without a machine behind them: two ranks, and times that a test makes up.
class KeptTimesTest : public CalibrationTest {
 protected:
  static Topology topology() {
    Topology topology;
    topology.backend = BackendKind::cuda;
    topology.ranks = 2;
    topology.architecture = "sm_90";
    topology.max_block_threads = 512;
    topology.scratch_limit = 128 << 20;
    topology.link_bandwidth = topology.push_bandwidth = topology.packet_bandwidth = 1;
    return topology;
  }
  static Call call(DataType type = DataType::bf16) { return {.type = type, .count = 1000}; }
  static MeasuredCall measured(const char* algorithm, double microseconds) {
    return {.call = call(), .algorithm = algorithm, .microseconds = microseconds};
  }
  /// The fastest of the algorithms that can serve the call.
  static std::string chosen(const MeasuredTimes& times, DataType type = DataType::bf16) {
    const Call wanted = call(type);
    std::string best;
    double least = 1e9;
    for (const auto& algorithm : Registry::instance().all()) {
      const auto time = times.find(algorithm->name(), wanted);
      if (algorithm->collective() != Collective::all_reduce || !time ||
          time->microseconds >= least || !algorithm->supports(wanted, topology()))
        continue;
      least = time->microseconds;
      best = algorithm->name();
    }
    return best;
  }

  using Store = CalibrationStore;  // one of each process
  struct Outcome {
    std::array<std::string, 2> chosen, tuned;
    int measurements = 0;  // of rank 0
  };
  /// What two ranks get that measure that `fastest` is the fastest. Null: they must not measure.
  static Outcome run(Store& store, const char* fastest, Calibration wish = Calibration::on) {
    Outcome outcome;
    auto bootstraps = make_thread_bootstraps(2);
    on_threads(2, [&](int rank) {
      const auto measure = [&, rank] {
        if (rank == 0) ++outcome.measurements;
        return std::vector{measured(fastest, 1), measured("stream", 2)};
      };
      const auto r = static_cast<std::size_t>(rank);
      // Rank 1 asks for something else, which does not count.
      const CalibrationRequest mine{"a machine", SumOrder::any, wish, fastest != nullptr},
          other{"another machine", SumOrder::any, Calibration::on, fastest == nullptr};
      const KeptTimes times =
          kept_times(*bootstraps[r], topology(), rank == 0 ? mine : other, measure, store);
      outcome.chosen[r] = chosen(times.calibration);
      outcome.tuned[r] = chosen(times.tuned);
    });
    return outcome;
  }
};

TEST_F(KeptTimesTest, AreMeasuredOnceAndThenKeptForThisProcessAndOthers) {
  Store store, other;
  const Outcome once = run(store, "ring");
  EXPECT_THAT(once.chosen, Each("ring"));
  EXPECT_EQ(once.measurements, 1);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_THAT(files()[0].string(), HasSubstr("/plait/2-ranks-on-sm_90-"));
  EXPECT_EQ(text_of(files()[0]),
            "plait-times 1\nfor a machine\nall_reduce bf16 ordinary:\nring 2000=1\nstream "
            "2000=2\nend\n");
  for (Store* later : {&store, &other}) {
    const Outcome again = run(*later, "tree");
    EXPECT_THAT(again.chosen, Each("ring"));
    EXPECT_EQ(again.measurements, 0);
  }
}

TEST_F(KeptTimesTest, AreMeasuredAgainIfTheUserSaysSo) {
  Store first, second;
  static_cast<void>(run(first, "ring"));
  EXPECT_THAT(run(first, "tree", Calibration::again).chosen, Each("tree"));
  EXPECT_THAT(run(first, nullptr).chosen, Each("tree"));
  EXPECT_THAT(run(second, nullptr).chosen, Each("tree"));
}

TEST_F(KeptTimesTest, AreNoneIfNothingIsKeptAndNothingMayBeMeasured) {
  Store store;
  EXPECT_THAT(run(store, nullptr).chosen, Each(""));
  EXPECT_THAT(files(), IsEmpty());
}

/// Or each process would measure, every time.
TEST_F(KeptTimesTest, AreNotMeasuredIfNoFileCanBeWritten) {
  for (const char* folder : {"/proc/none", "relative"}) {
    const ScopedEnvironment nowhere("XDG_CACHE_HOME", folder), home("HOME", "");
    Store store, other;
    EXPECT_EQ(run(store, "ring").measurements, 0);
    EXPECT_EQ(run(store, "ring", Calibration::again).measurements, 1);
    EXPECT_THAT(run(store, "tree").chosen, Each("ring"));  // the process remembers
    EXPECT_EQ(run(other, "tree").measurements, 0);
  }
}

TEST_F(KeptTimesTest, OfADamagedFileAreMeasuredAnew) {
  Store first;
  static_cast<void>(run(first, "ring"));
  ASSERT_EQ(files().size(), 1u);
  for (const char* text :
       {"", "plait-times 1\nfor a machine\n",
        "plait-times 1\nfor another machine\nall_reduce bf16 ordinary:\nstream 1K=1\nend\n",
        "plait-times 1\nfor a machine\nall_reduce bf16 ordinary:\nstream 1K=1\n", "stream\n",
        "plait-times 1\nfor a machine\nall_reduce bf16 ordinary:\nstream 1K=0\nend\n"}) {
    std::ofstream(files()[0]) << text;
    Store store;
    const Outcome outcome = run(store, "tree");
    EXPECT_THAT(outcome.chosen, Each("tree")) << text;
    EXPECT_EQ(outcome.measurements, 1) << text;
    EXPECT_THAT(text_of(files()[0]), HasSubstr("\ntree 2000=1")) << text;
  }
  std::ofstream(files()[0]) << std::string((1 << 20) + 1, '\n');
  Store store;
  EXPECT_EQ(run(store, "tree").measurements, 1);
}

/// Another build of the library may have measured them.
TEST_F(KeptTimesTest, ForAlgorithmsThatAreLeftOutArePassedOver) {
  Store first, second;
  static_cast<void>(run(first, "ring"));
  ASSERT_EQ(files().size(), 1u);
  std::ofstream(files()[0])
      << "plait-times 1\nfor a machine\nall_reduce bf16 ordinary:\nnobody 1K=1\nstream "
         "1K=2\nend\n";
  EXPECT_THAT(run(second, nullptr).chosen, Each("stream"));
}

TEST_F(KeptTimesTest, ForIntegersAreThoseOfAlgorithmsThatTakeThem) {
  Store store;
  auto bootstraps = make_thread_bootstraps(1);
  const auto measure = [] {
    return std::vector{measured("oneshot_sentinel", 1), measured("ring", 2), measured("stream", 3)};
  };
  const MeasuredTimes times =
      kept_times(*bootstraps[0], topology(), {"a machine"}, measure, store).calibration;
  EXPECT_EQ(chosen(times), "oneshot_sentinel");
  EXPECT_EQ(chosen(times, DataType::i32), "ring");
}

/// The file that plait-tune writes.
class TunedTimes : public KeptTimesTest {
 protected:
  static void write(const std::string& text) {
    const std::string path = tuned_path(topology(), "a machine").value();
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string text_for(const char* machine) {
    return MeasuredTimes(machine, std::vector{measured("tree", 5)}).text();
  }
};

TEST_F(TunedTimes, AreReadByThemselvesAndNothingIsMeasuredBeside) {
  write(text_for("a machine"));
  Store store;
  const Outcome outcome = run(store, "ring");
  EXPECT_THAT(outcome.tuned, Each("tree"));
  EXPECT_THAT(outcome.chosen, Each(""));
  EXPECT_EQ(outcome.measurements, 0);
  const Outcome again = run(store, "ring", Calibration::again);
  EXPECT_THAT(again.tuned, Each("tree"));
  EXPECT_THAT(again.chosen, Each("ring"));
  EXPECT_EQ(again.measurements, 1);
}

TEST_F(TunedTimes, AreReadAgainWhenTheFileIsNew) {
  Store store;
  EXPECT_THAT(run(store, nullptr).tuned, Each(""));
  write(text_for("a machine"));
  EXPECT_THAT(run(store, nullptr).tuned, Each("tree"));
}

/// With one warning per file and process.
TEST_F(TunedTimes, OfAForeignOrBrokenFileArePassedOver) {
  for (const std::string& text :
       {text_for("another machine"), text_for("a machine").substr(0, 50), std::string("ring\n")}) {
    write(text);
    Store store;
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
      const Outcome outcome = run(store, "ring");
      EXPECT_THAT(outcome.tuned, Each("")) << text;
      EXPECT_THAT(outcome.chosen, Each("ring")) << text;
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("measured times are passed over: ")) << text;
    EXPECT_EQ(said.find("passed over"), said.rfind("passed over")) << said;
  }
}

TEST_F(TunedTimes, InPlaitTuningAreRefusedOnAllRanksWithWhatDiffers) {
  const auto refusal = [&](const std::string& text) {
    std::array<std::string, 2> said;
    auto bootstraps = make_thread_bootstraps(2);
    on_threads(2, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      said[r] = message_of(ErrorCode::invalid_argument, [&] {
        // Rank 1 is on another machine, which does not count.
        times_of({"some.file", text}, *bootstraps[r], rank == 0 ? "plait 1, EPYC, 4 ranks" : "x");
      });
    });
    EXPECT_EQ(said[0], said[1]);
    EXPECT_THAT(said[0], HasSubstr("PLAIT_TUNING=\"some.file\": ")) << text;
    return said[0];
  };
  EXPECT_THAT(refusal(text_for("plait 1, EPYC, 8 ranks")),
              HasSubstr("measured elsewhere: there \"8 ranks\", here \"4 ranks\""));
  EXPECT_THAT(refusal(text_for("plait 1, EPYC, 4 ranks, more")),
              HasSubstr("measured elsewhere: there \"more\", here \"\""));
  EXPECT_THAT(refusal("plait-times 1\nfor x\n"), HasSubstr("the file is cut off"));
  auto bootstraps = make_thread_bootstraps(1);
  EXPECT_EQ(
      chosen(times_of({"some.file", text_for("plait 1, EPYC")}, *bootstraps[0], "plait 1, EPYC")),
      "tree");
}

TEST_F(Calibrating, IsLeftOutIfTheUserSaysSoOrCallsAreCompared) {
  for (const auto& setting : {std::pair{"PLAIT_CALIBRATE", "0"}, {"PLAIT_CHECK", "1"}}) {
    const ScopedEnvironment variable(setting.first, setting.second);
    run_ranks(4, options(), [&](Communicator& comm, int) {
      EXPECT_THAT(explained(comm), Not(HasSubstr("calibration"))) << setting.first;
    });
  }
  EXPECT_THAT(files(), IsEmpty());
}

/// Their calls, which nothing orders, could wait for those of the calibration.
TEST_F(Calibrating, IsLeftOutBesideOtherCommunicators) {
  auto bootstraps = make_thread_bootstraps(2);
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  std::once_flag once;
  run_ranks(2, options(), [&](Communicator&, int rank) {
    std::call_once(once, [] { setenv("PLAIT_CALIBRATE", "again", 1); });
    const Communicator second =
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options());
    EXPECT_THAT(explained(second), Not(HasSubstr("calibration")));
  });
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
  run_ranks(2, options(), [](Communicator&, int) {});
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
  run_ranks(2, options(), [](Communicator& comm, int) {
    EXPECT_THAT(explained(comm), Not(HasSubstr("by calibration\n")));
  });
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
