// Rules that are measured when a communicator is created: how they are made, kept and given to all
// ranks.
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

#include "communicator/calibration/measure.hpp"
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

/// Rules without a machine behind them: two ranks, and times that a test makes up.
class CalibratedRules : public CalibrationTest {
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
  static std::string chosen(const RuleList& rules, DataType type = DataType::bf16) {
    const Call wanted = call(type);
    const Rule* rule = rules.match(wanted, [&](const Rule& r) {
      return static_cast<bool>(
          Registry::instance().find(r.algorithm)->supports(wanted, topology()));
    });
    return rule == nullptr ? "" : rule->algorithm;
  }

  using Store = CalibrationStore;  // one of each process
  struct Outcome {
    std::array<std::string, 2> chosen;
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
      const CalibrationRequest mine{"# machine", wish, fastest != nullptr},
          other{"# another machine", Calibration::on, fastest == nullptr};
      outcome.chosen[r] = chosen(
          calibrated_rules(*bootstraps[r], topology(), rank == 0 ? mine : other, measure, store));
    });
    return outcome;
  }
};

TEST_F(CalibratedRules, AreMeasuredOnceAndThenKeptForThisProcessAndOthers) {
  Store store, other;
  const Outcome once = run(store, "ring");
  EXPECT_THAT(once.chosen, Each("ring"));
  EXPECT_EQ(once.measurements, 1);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_THAT(files()[0].string(), HasSubstr("/plait/2-ranks-on-sm_90-"));
  EXPECT_EQ(text_of(files()[0]), "# machine\n[2 ranks on sm_90]\nall_reduce: 0- ordinary=ring\n");
  for (Store* later : {&store, &other}) {
    const Outcome again = run(*later, "tree");
    EXPECT_THAT(again.chosen, Each("ring"));
    EXPECT_EQ(again.measurements, 0);
  }
}

TEST_F(CalibratedRules, AreMeasuredAgainIfTheUserSaysSo) {
  Store first, second;
  static_cast<void>(run(first, "ring"));
  EXPECT_THAT(run(first, "tree", Calibration::again).chosen, Each("tree"));
  EXPECT_THAT(run(first, nullptr).chosen, Each("tree"));
  EXPECT_THAT(run(second, nullptr).chosen, Each("tree"));
}

TEST_F(CalibratedRules, AreNoneIfNothingIsKeptAndNothingMayBeMeasured) {
  Store store;
  EXPECT_THAT(run(store, nullptr).chosen, Each(""));
  EXPECT_THAT(files(), IsEmpty());
}

/// Or each process would measure, every time.
TEST_F(CalibratedRules, AreNotMeasuredIfNoFileCanBeWritten) {
  for (const char* folder : {"/proc/none", "relative"}) {
    const ScopedEnvironment nowhere("XDG_CACHE_HOME", folder), home("HOME", "");
    Store store, other;
    EXPECT_EQ(run(store, "ring").measurements, 0);
    EXPECT_EQ(run(store, "ring", Calibration::again).measurements, 1);
    EXPECT_THAT(run(store, "tree").chosen, Each("ring"));  // the process remembers
    EXPECT_EQ(run(other, "tree").measurements, 0);
  }
}

TEST_F(CalibratedRules, OfADamagedFileAreMeasuredAnew) {
  Store first;
  static_cast<void>(run(first, "ring"));
  ASSERT_EQ(files().size(), 1u);
  for (const char* text : {"", "# machine", "# another machine\n[2 ranks on sm_90]\nstream\n",
                           "# machine\n[2 ranks\nstream\n", "# machine\n5K-1K=ring\n"}) {
    std::ofstream(files()[0]) << text;
    Store store;
    const Outcome outcome = run(store, "tree");
    EXPECT_THAT(outcome.chosen, Each("tree")) << text;
    EXPECT_EQ(outcome.measurements, 1) << text;
    EXPECT_THAT(text_of(files()[0]), HasSubstr("=tree")) << text;
  }
  std::ofstream(files()[0]) << std::string(1 << 20, '\n');
  Store store;
  EXPECT_EQ(run(store, "tree").measurements, 1);
}

/// A rule for an algorithm that this build lacks is passed over, as in the built-in table.
TEST_F(CalibratedRules, ForAlgorithmsThatAreLeftOutArePassedOver) {
  Store first, second;
  static_cast<void>(run(first, "ring"));
  ASSERT_EQ(files().size(), 1u);
  std::ofstream(files()[0]) << "# machine\n[2 ranks on sm_90]\n0-=nobody; 0-=stream\n";
  EXPECT_THAT(run(second, nullptr).chosen, Each("stream"));
}

TEST_F(CalibratedRules, ForIntegersAreThoseOfAlgorithmsThatTakeThem) {
  Store store;
  auto bootstraps = make_thread_bootstraps(1);
  const auto measure = [] {
    return std::vector{measured("oneshot_sentinel", 1), measured("ring", 2), measured("stream", 3)};
  };
  const RuleList rules =
      calibrated_rules(*bootstraps[0], topology(), {"# machine"}, measure, store);
  EXPECT_EQ(chosen(rules), "oneshot_sentinel");
  EXPECT_EQ(chosen(rules, DataType::i32), "ring");
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
        of[static_cast<std::size_t>(rank)] = measure_algorithms(comm, topology);
      },
      options());
  std::map<std::tuple<Collective, bool, bool>, std::set<std::size_t>> sizes;
  ASSERT_EQ(of[0].size(), of[1].size());
  for (std::size_t i = 0; i < of[0].size(); ++i) {
    const MeasuredCall &a = of[0][i], &b = of[1][i];
    EXPECT_EQ(std::tie(a.call, a.in_place, a.algorithm, a.microseconds),
              std::tie(b.call, b.in_place, b.algorithm, b.microseconds));
    EXPECT_GT(a.microseconds, 0);
    sizes[{a.call.collective, a.call.symmetric, a.in_place}].insert(a.call.bytes());
  }
  for (int c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const bool symmetric : {false, true})
      for (const bool in_place : {false, true}) {
        if (collective == Collective::barrier) continue;
        const std::set<std::size_t>& those = sizes[{collective, symmetric, in_place}];
        if (in_place && collective == Collective::send_recv) {
          EXPECT_THAT(those, IsEmpty());
          continue;
        }
        EXPECT_GE(those.size(), 8u) << name_of(collective);
        EXPECT_THAT(those, testing::IsSupersetOf({128u, 512u, 2048u, 1u << 21}))
            << name_of(collective);
      }
  }
}

TEST_F(Calibrating, CommunicatorsChooseByItAndOnlyTheFirstMeasures) {
  std::string before;
  for (int i = 0; i < 2; ++i) {
    run_ranks(
        2,
        [&](Communicator& comm, int) {
          EXPECT_THAT(explained(comm), HasSubstr(", by calibration, line "));
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

/// Parts use what is kept, and don't measure.
TEST_F(Calibrating, PartsDontMeasure) {
  // No other test's, because the process remembers the rules of two ranks.
  const ScopedEnvironment bytes("PLAIT_SCRATCH_BYTES", "17M");
  run_ranks(
      3,
      [&](Communicator& comm, int rank) {
        const auto part = comm.split(rank == 2 ? -1 : 0, rank);
        EXPECT_THAT(explained(comm), HasSubstr(", by calibration, line "));
        if (part) {
          EXPECT_THAT(explained(*part), Not(HasSubstr("calibration")));
        }
        const Communicator same = comm.duplicate();
        EXPECT_THAT(explained(same), HasSubstr(", by calibration, line "));
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
