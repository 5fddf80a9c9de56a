// Times that are measured when a communicator is created or by plait-tune: what is measured, when,
// and what follows for the choice.
#include "communicator/calibration/calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calibration/measure.hpp"
#include "communicator/calibration_cache.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/plait.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_algorithm.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

/// Every collective that has a choice, in each kind of memory and place, at every size, by the same
/// times on both ranks.
TEST_F(Calibrating, MeasuresEachCollectiveWithAChoice) {
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  measuring_limit_us = 100e6;  // for all of it
  std::array<std::vector<MeasuredCall>, 2> of;
  run_ranks(2, options(), [&](Communicator& comm, int rank) {
    Topology topology{backend_of(comm).info().facts};
    topology.ranks = 2;
    topology.scratch_limit = 16 << 20;
    of[static_cast<std::size_t>(rank)] =
        measure_algorithms(comm, topology, MeasuringPlan::of_calibration(BackendKind::host));
  });
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
    run_ranks(2, options(), [&](Communicator& comm, int rank) {
      Topology topology{backend_of(comm).info().facts};
      topology.ranks = 2;
      topology.scratch_limit = 16 << 20;
      MeasuringPlan own = plan();
      change(own);
      of[static_cast<std::size_t>(rank)] = measure_algorithms(comm, topology, own);
    });
    EXPECT_EQ(of[0].size(), of[1].size());
    return of[0];
  }
  static std::set<std::string> names(const std::vector<MeasuredCall>& calls) {
    std::set<std::string> names;
    for (const MeasuredCall& one : calls) names.insert(one.algorithm);
    return names;
  }
};

/// An algorithm whose first call at one size takes far too long is left out at the next. On a busy
/// machine that happens to any, so the test tries again until it has happened to none of the two.
TEST_F(MeasuringTest, LeavesOutAlgorithmsWhoseResultsAreWrong) {
  std::mutex lock;
  std::map<std::string, int> checks;
  std::vector<MeasuredCall> measured;
  for (int tries = 0; (checks["stream"] < 8 || checks["ring"] < 5) && tries < 50; ++tries) {
    checks.clear();
    measured = measure([&](MeasuringPlan& plan) {
      plan.is_right = [&](const Call& call, bool, const Algorithm& algorithm, LaunchShape) {
        const std::lock_guard guard(lock);
        ++checks[std::string(algorithm.name())];
        return algorithm.name() != "ring" || call.bytes() != 4096;
      };
    });
  }
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

/// Takes 2 ms more while the machine of its rank is said to be slow.
struct Sluggish final : ForwardingAlgorithm {
  Sluggish() : ForwardingAlgorithm("sluggish", "oneshot_ll") {}
  double estimate(const Call&, const Topology&) const override {
    return takes_part ? 1e12 : std::numeric_limits<double>::infinity();
  }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    if (is_slow[static_cast<std::size_t>(context.rank())])
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ForwardingAlgorithm::enqueue(call, buffers, shape, context);
  }
  static inline std::atomic<bool> takes_part = false;
  static inline std::array<std::atomic<bool>, 2> is_slow{};
};
const AlgorithmRegistration<Sluggish> sluggish;

/// A machine that is slow from one look at its pulse to another.
class SlowMachine : public MeasuringTest {
 protected:
  SlowMachine() { Sluggish::takes_part = true; }
  ~SlowMachine() override {
    Sluggish::takes_part = false;
    for (auto& rank : Sluggish::is_slow) rank = false;
  }
  /// The times at 128 and 4096 bytes. Slow are the looks from `begin` on, before `end`.
  std::map<std::size_t, double> measure(int begin, int end, double patience_us) {
    looks_ = {};
    const auto measured = MeasuringTest::measure([&](MeasuringPlan& plan) {
      plan.is_right = [](const Call&, bool, const Algorithm& algorithm, LaunchShape) {
        return algorithm.name() == "sluggish";
      };
      plan.patience_us = patience_us;
      plan.pulse = [this, begin, end, rank = ranks_++ % 2] {
        const int look = looks_[rank]++;
        Sluggish::is_slow[rank] = look >= begin && look < end;
        return Sluggish::is_slow[rank] ? 4.0 : 1.0;
      };
    });
    EXPECT_EQ(looks_[0], looks_[1]);
    std::map<std::size_t, double> times;
    for (const MeasuredCall& one : measured) times[one.call.bytes()] = one.microseconds;
    EXPECT_EQ(times.size(), 2u);
    return times;
  }
  int looks() const { return looks_[0]; }
  static constexpr double fast_us = 1900;

 private:
  std::atomic<unsigned> ranks_ = 0;
  std::array<int, 2> looks_{};
};

TEST_F(SlowMachine, IsMeasuredAgainWhenItIsFast) {
  // Looks 0 and 1 are before and after the first size, 2 and 3 those of the second one.
  for (const auto& [bytes, time] : measure(2, 4, 0)) EXPECT_LT(time, fast_us) << bytes;
  // It has been slow from the beginning, which shows only later.
  for (const auto& [bytes, time] : measure(0, 2, 0)) EXPECT_LT(time, fast_us) << bytes;
}

TEST_F(SlowMachine, IsWaitedFor) {
  const auto times = measure(2, 10, 1e6);
  EXPECT_GE(looks(), 12) << "a look at a time until it is fast, and one after the size";
  EXPECT_LT(times.at(4096), fast_us);
}

TEST_F(SlowMachine, IsNotWaitedForLongerThanThePatience) {
  EXPECT_GT(measure(2, 1000000, 100e3).at(4096), fast_us);
  EXPECT_LT(looks(), 30);
}

TEST_F(Calibrating, CommunicatorsChooseByItAndOnlyTheFirstMeasures) {
  std::string before;
  for (int i = 0; i < 2; ++i) {
    run_ranks(2, options(), [&](Communicator& comm, int) {
      EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
      const Statistics statistics = comm.statistics();
      EXPECT_EQ(statistics.launches, 0u);
    });
    ASSERT_EQ(files().size(), 1u);
    if (i == 0) std::ofstream(files()[0], std::ios::app) << "# untouched\n";
    EXPECT_THAT(text_of(files()[0]), HasSubstr("# untouched"));
  }
}

TEST_F(Calibrating, WhatTheUserNamesComesFirst) {
  run_ranks(2, options(), [&](Communicator& comm, int) {
    EXPECT_THAT(comm.explain({.count = 1000}, {.algorithm = "tree"}), HasSubstr("takes tree with"));
  });
}

/// The communicator that the file is for takes it, its parts pass over it, and others are refused.
TEST_F(Calibrating, TimesInPlaitTuningAreForTheirCommunicatorAlone) {
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  std::string key;
  run_ranks(2, options(), [&](Communicator& comm, int rank) {
    const std::string own =
        describe_for_calibration(backend_of(comm).info(), selector_of(comm).topology());
    if (rank == 0) key = own;
  });
  const fs::path path = fs::temp_directory_path() / ("plait-times-" + std::to_string(getpid()));
  std::ofstream(path) << MeasuredTimes(key,
                                       std::vector<MeasuredCall>{
                                           {{.type = DataType::f32, .count = 1000}, "tree", 1}})
                             .text();
  const ScopedEnvironment tuning("PLAIT_TUNING", path.string());
  run_ranks(2, options(), [](Communicator& comm, int rank) {
    EXPECT_THAT(explained(comm), HasSubstr("takes tree with "));
    EXPECT_THAT(explained(comm), HasSubstr(", by PLAIT_TUNING\n"));
    const auto alone = comm.split(rank, 0);
    EXPECT_THAT(explained(*alone), Not(HasSubstr("PLAIT_TUNING")));
    EXPECT_THAT(explained(comm.duplicate()), HasSubstr(", by PLAIT_TUNING\n"));
  });
  with_bootstraps(3, [](std::unique_ptr<Bootstrap> bootstrap, int) {
    const std::string said = message_of(ErrorCode::invalid_argument, [&] {
      Communicator::create(std::move(bootstrap), options());
    });
    EXPECT_THAT(said, HasSubstr("there \"2 ranks on 1 nodes\", here \"3 ranks on 1 nodes\""));
  });
  fs::remove(path);
}

/// The times of plait-tune stand above those of the calibration.
TEST_F(Calibrating, TimesOfPlaitTuneAreFoundByThemselves) {
  run_ranks(2, options(), [&](Communicator& comm, int rank) {
    EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
    const Topology& topology = selector_of(comm).topology();
    const std::string key = describe_for_calibration(backend_of(comm).info(), topology);
    if (rank != 0) return;
    const fs::path path = tuned_path(topology, key).value();
    fs::create_directories(path.parent_path());
    std::ofstream(path) << MeasuredTimes(key,
                                         std::vector<MeasuredCall>{
                                             {{.type = DataType::f32, .count = 1000}, "tree", 1}})
                               .text();
  });
  const auto expect_tuned = [](Communicator& comm, int) {
    EXPECT_THAT(explained(comm), HasSubstr("takes tree with "));
    EXPECT_THAT(explained(comm), HasSubstr(", by plait-tune\n"));
    EXPECT_THAT(comm.explain({.collective = Collective::broadcast, .count = 1000}),
                HasSubstr(", by calibration\n"));
  };
  run_ranks(2, expect_tuned, options());
  const ScopedEnvironment off("PLAIT_CALIBRATE", "0");
  run_ranks(2, options(), [](Communicator& comm, int) {
    EXPECT_THAT(explained(comm), Not(HasSubstr("plait-tune")));
  });
}

/// Parts use what is kept, and don't measure.
TEST_F(Calibrating, PartsDontMeasure) {
  // No other test's, because the process remembers the rules of two ranks.
  const ScopedEnvironment bytes("PLAIT_SCRATCH_BYTES", "17M");
  run_ranks(3, options(), [&](Communicator& comm, int rank) {
    const auto part = comm.split(rank == 2 ? -1 : 0, rank);
    EXPECT_THAT(explained(comm), HasSubstr(", by calibration\n"));
    if (part) {
      EXPECT_THAT(explained(*part), Not(HasSubstr("calibration")));
    }
    const Communicator same = comm.duplicate();
    EXPECT_THAT(explained(same), HasSubstr(", by calibration\n"));
  });
  EXPECT_EQ(files().size(), 1u);
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
  expect_invalid([] { calibration_wish(); }, "PLAIT_CALIBRATE=\"yes\": not 0, 1 or again");
}

}  // namespace
}  // namespace plait::test
