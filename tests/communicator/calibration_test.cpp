// Times that are measured on a machine, when a communicator is created or by plait-tune: how they
// are made, kept and given to all ranks.
#include "communicator/calibration/calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calibration/measure.hpp"
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

/// A folder of its own for the cache.
class CalibrationTest : public testing::Test {
 protected:
  CalibrationTest()
      : folder_(fs::temp_directory_path() /
                ("plait-calibration-" + std::to_string(getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())),
        cache_("XDG_CACHE_HOME", folder_.string()) {
    fs::remove_all(folder_);
  }
  ~CalibrationTest() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (fs::exists(folder_ / "plait"))
      for (const auto& entry : fs::directory_iterator(folder_ / "plait"))
        all.push_back(entry.path());
    return all;
  }
  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

 private:
  fs::path folder_;
  ScopedEnvironment cache_;
};

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
      const CalibrationRequest mine{"a machine", false, wish, fastest != nullptr},
          other{"another machine", false, Calibration::on, fastest == nullptr};
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

/// Communicators of the host target that may measure. On a busy machine, in which a call waits for
/// time slices, the first kind of calls takes seconds.
class Calibrating : public CalibrationTest {
 protected:
  Calibrating() { measuring_limit_us = 10e6; }
  static CommunicatorOptions options() { return test_options({.backend = BackendKind::host}); }
  static std::string explained(const Communicator& comm) {
    return comm.explain({.collective = Collective::all_reduce, .count = 1000});
  }

 private:
  ScopedEnvironment wish_{"PLAIT_CALIBRATE", "1"}, few_bytes_{"PLAIT_SCRATCH_BYTES", "16M"};
};

/// Every collective that has a choice, in each kind of memory and place, at every size, by the same
/// times on both ranks.
TEST_F(Calibrating, MeasuresEachCollectiveWithAChoice) {
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  measuring_limit_us = 100e6;  // for all of it
  std::array<std::vector<MeasuredCall>, 2> of;
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        Topology topology{backend_of(comm).info().facts};
        topology.ranks = 2;
        topology.scratch_limit = 16 << 20;
        of[static_cast<std::size_t>(rank)] =
            measure_algorithms(comm, topology, MeasuringPlan::of_calibration(BackendKind::host));
      },
      options());
  std::map<std::tuple<Collective, Where>, std::set<std::size_t>> sizes;
  ASSERT_EQ(of[0].size(), of[1].size());
  for (std::size_t i = 0; i < of[0].size(); ++i) {
    const MeasuredCall &a = of[0][i], &b = of[1][i];
    EXPECT_EQ(std::tie(a.call, a.algorithm, a.microseconds),
              std::tie(b.call, b.algorithm, b.microseconds));
    EXPECT_GT(a.microseconds, 0);
    sizes[{a.call.collective, where_is(a.call)}].insert(a.call.bytes());
  }
  for (int c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const Where where : {Where::ordinary, Where::out_of_place, Where::in_place}) {
      if (collective == Collective::barrier) continue;
      const std::set<std::size_t>& those = sizes[{collective, where}];
      if (where == Where::in_place && (!has_in_place(collective) || facts_of(collective).rooted)) {
        EXPECT_THAT(those, IsEmpty());
        continue;
      }
      EXPECT_GE(those.size(), 8u) << name_of(collective);
      EXPECT_THAT(those, testing::IsSupersetOf({128u, 512u, 2048u, 1u << 21}))
          << name_of(collective);
    }
  }
}

/// A plan of few calls, for the tuner's wishes.
class MeasuringTest : public Calibrating {
 protected:
  static MeasuringPlan plan() {
    MeasuringPlan plan;
    plan.collectives = {Collective::all_reduce};
    plan.sizes = {128, 4096};
    plan.ordinary = false;
    plan.halvings = 0;
    plan.limit_us = 60e6;
    return plan;
  }
  /// What rank 0 has measured; all ranks must have measured the same.
  static std::vector<MeasuredCall> measure(const std::function<void(MeasuringPlan&)>& change) {
    const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
    std::array<std::vector<MeasuredCall>, 2> of;
    run_ranks(
        2,
        [&](Communicator& comm, int rank) {
          Topology topology{backend_of(comm).info().facts};
          topology.ranks = 2;
          topology.scratch_limit = 16 << 20;
          MeasuringPlan own = plan();
          change(own);
          of[static_cast<std::size_t>(rank)] = measure_algorithms(comm, topology, own);
        },
        options());
    EXPECT_EQ(of[0].size(), of[1].size());
    return of[0];
  }
  static std::set<std::string> names(const std::vector<MeasuredCall>& calls) {
    std::set<std::string> names;
    for (const MeasuredCall& one : calls) names.insert(one.algorithm);
    return names;
  }
};

TEST_F(MeasuringTest, LeavesOutAlgorithmsWhoseResultsAreWrong) {
  std::mutex lock;
  std::map<std::string, int> checks;
  const auto measured = measure([&](MeasuringPlan& plan) {
    plan.is_right = [&](const Call& call, bool, const Algorithm& algorithm, LaunchShape) {
      const std::lock_guard guard(lock);
      ++checks[std::string(algorithm.name())];
      return algorithm.name() != "ring" || call.bytes() != 4096;
    };
  });
  EXPECT_THAT(names(measured), testing::IsSupersetOf({"stream", "oneshot_ll"}));
  EXPECT_FALSE(names(measured).contains("ring")) << "though it is right at the other size";
  EXPECT_THAT(checks["stream"], testing::Ge(8)) << "2 ranks, 2 places, 2 sizes";
}

TEST_F(MeasuringTest, TakesTheCollectivesTypesAndMemoryOfThePlan) {
  double last = 0;
  const auto measured = measure([&](MeasuringPlan& plan) {
    plan.collectives = {Collective::all_gather, Collective::scatter};
    plan.types = {DataType::i32, DataType::u8};
    plan.symmetric = false;
    plan.ordinary = true;
    plan.progress = [&last, previous = 0.0](const MeasuredKind&, std::size_t, double done) mutable {
      EXPECT_GE(done, previous);
      previous = last = done;
    };
  });
  std::set<std::tuple<Collective, DataType, std::size_t>> calls;
  for (const MeasuredCall& one : measured) {
    EXPECT_FALSE(one.call.symmetric);
    calls.insert({one.call.collective, one.call.type, one.call.bytes()});
  }
  EXPECT_EQ(calls.size(), 8u);
  EXPECT_DOUBLE_EQ(last, 1);
}

/// Whole kinds only.
TEST_F(MeasuringTest, EndsWhenTheTimeIsOver) {
  EXPECT_THAT(measure([](MeasuringPlan& plan) { plan.limit_us = 1; }), IsEmpty());
}

TEST_F(Calibrating, CommunicatorsChooseByItAndOnlyTheFirstMeasures) {
  std::string before;
  for (int i = 0; i < 2; ++i) {
    run_ranks(
        2,
        [&](Communicator& comm, int) {
          EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
          const Statistics statistics = comm.statistics();
          EXPECT_EQ(statistics.launches, 0u);
        },
        options());
    ASSERT_EQ(files().size(), 1u);
    if (i == 0) std::ofstream(files()[0], std::ios::app) << "# untouched\n";
    EXPECT_THAT(text_of(files()[0]), HasSubstr("# untouched"));
  }
}

TEST_F(Calibrating, WhatTheUserNamesComesFirst) {
  run_ranks(
      2,
      [&](Communicator& comm, int) {
        EXPECT_THAT(comm.explain({.count = 1000}, {.algorithm = "tree"}),
                    HasSubstr("takes tree with"));
      },
      options());
}

/// The communicator that the file is for takes it, its parts pass over it, and others are refused.
TEST_F(Calibrating, TimesInPlaitTuningAreForTheirCommunicatorAlone) {
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  std::string key;
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        const std::string own =
            describe_for_calibration(backend_of(comm).info(), selector_of(comm).topology());
        if (rank == 0) key = own;
      },
      options());
  const fs::path path = fs::temp_directory_path() / ("plait-times-" + std::to_string(getpid()));
  std::ofstream(path) << MeasuredTimes(key,
                                       std::vector<MeasuredCall>{
                                           {{.type = DataType::f32, .count = 1000}, "tree", 1}})
                             .text();
  const ScopedEnvironment tuning("PLAIT_TUNING", path.string());
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        EXPECT_THAT(explained(comm), HasSubstr("takes tree with "));
        EXPECT_THAT(explained(comm), HasSubstr(", by PLAIT_TUNING\n"));
        const auto alone = comm.split(rank, 0);
        EXPECT_THAT(explained(*alone), Not(HasSubstr("PLAIT_TUNING")));
        EXPECT_THAT(explained(comm.duplicate()), HasSubstr(", by PLAIT_TUNING\n"));
      },
      options());
  auto bootstraps = make_thread_bootstraps(3);
  on_threads(3, [&](int rank) {
    const std::string said = message_of(ErrorCode::invalid_argument, [&] {
      Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options());
    });
    EXPECT_THAT(said, HasSubstr("there \"2 ranks on 1 nodes\", here \"3 ranks on 1 nodes\""));
  });
  fs::remove(path);
}

/// The times of plait-tune stand above those of the calibration.
TEST_F(Calibrating, TimesOfPlaitTuneAreFoundByThemselves) {
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
        const Topology& topology = selector_of(comm).topology();
        const std::string key = describe_for_calibration(backend_of(comm).info(), topology);
        if (rank != 0) return;
        const fs::path path = tuned_path(topology, key).value();
        fs::create_directories(path.parent_path());
        std::ofstream(path) << MeasuredTimes(
                                   key,
                                   std::vector<MeasuredCall>{
                                       {{.type = DataType::f32, .count = 1000}, "tree", 1}})
                                   .text();
      },
      options());
  const auto expect_tuned = [](Communicator& comm, int) {
    EXPECT_THAT(explained(comm), HasSubstr("takes tree with "));
    EXPECT_THAT(explained(comm), HasSubstr(", by plait-tune\n"));
    EXPECT_THAT(comm.explain({.collective = Collective::broadcast, .count = 1000}),
                HasSubstr(", by calibration\n"));
  };
  run_ranks(2, expect_tuned, options());
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  run_ranks(
      2,
      [](Communicator& comm, int) { EXPECT_THAT(explained(comm), Not(HasSubstr("plait-tune"))); },
      options());
}

/// Parts use what is kept, and don't measure.
TEST_F(Calibrating, PartsDontMeasure) {
  // No other test's, because the process remembers the rules of two ranks.
  const ScopedEnvironment bytes("PLAIT_SCRATCH_BYTES", "17M");
  run_ranks(
      3,
      [&](Communicator& comm, int rank) {
        const auto part = comm.split(rank == 2 ? -1 : 0, rank);
        EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
        if (part) {
          EXPECT_THAT(explained(*part), Not(HasSubstr("calibration")));
        }
        const Communicator same = comm.duplicate();
        EXPECT_THAT(explained(same), HasSubstr(", by calibration\n"));
      },
      options());
  EXPECT_EQ(files().size(), 1u);
}

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

TEST_F(Calibrating, DeviceGroupsDoItToo) {
  DeviceGroup group({0, 1, 2}, {.backend = BackendKind::host});
  EXPECT_EQ(files().size(), 1u);
}

TEST(CalibrationWish, IsRefusedIfItIsUnknown) {
  for (const auto& [value, wish] : {std::pair{"", Calibration::on},
                                    {"1", Calibration::on},
                                    {"0", Calibration::off},
                                    {"again", Calibration::again}}) {
    const ScopedEnvironment variable("PLAIT_CALIBRATE", value);
    EXPECT_EQ(calibration_wish(), wish) << value;
  }
  const ScopedEnvironment variable("PLAIT_CALIBRATE", "yes");
  expect_error(error_of([] { calibration_wish(); }), ErrorCode::invalid_argument,
               HasSubstr("PLAIT_CALIBRATE=\"yes\": not 0, 1 or again"));
}

}  // namespace
}  // namespace plait::test
