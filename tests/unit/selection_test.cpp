// The registry, the grammar of PLAIT_ALGO, and the precedence of rules.
#include "communicator/selection/selection.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/algorithm_memory.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "communicator/setup.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"
#include "support/environment.hpp"

namespace plait {
namespace {

using test::ScopedEnvironment;
using testing::HasSubstr;

/// The facts that all ranks may rely on: the lesser rate, the longer time.
TEST(Facts, OfTwoDevicesTheWeakerCounts) {
  const DeviceFacts good{.units = 9,
                         .block_threads = 9,
                         .max_block_threads = 9,
                         .wide_packets = true,
                         .line_threads = 9,
                         .bulk_threads = 9,
                         .indexed_arguments = true,
                         .peer_reads = true,
                         .launch_us = 1,
                         .hop_us = 1,
                         .signal_us = 1,
                         .link_bandwidth = 9,
                         .push_bandwidth = 9,
                         .packet_bandwidth = 9,
                         .copy_us = 1,
                         .copy_bandwidth = 9};
  const DeviceFacts bad{.units = 2,
                        .block_threads = 3,
                        .max_block_threads = 4,
                        .wide_packets = false,
                        .line_threads = 5,
                        .bulk_threads = 0,
                        .indexed_arguments = false,
                        .peer_reads = false,
                        .launch_us = 2,
                        .hop_us = 3,
                        .signal_us = 4,
                        .link_bandwidth = 6,
                        .push_bandwidth = 7,
                        .packet_bandwidth = 8,
                        .copy_us = 5,
                        .copy_bandwidth = 1};
  EXPECT_EQ(weaker(good, bad), bad);
  EXPECT_EQ(weaker(bad, good), bad);
  EXPECT_EQ(weaker(good, good), good);
}

/// An algorithm that is never run: it serves calls up to a size, at a price.
class Fake final : public Algorithm {
 public:
  Fake(std::string name, std::size_t most, double price)
      : name_(std::move(name)), most_(most), price_(price) {}
  std::string_view name() const override { return name_; }
  Collective collective() const override { return Collective::all_reduce; }
  std::string_view summary() const override { return "a test"; }
  Support supports(const Call& call, const Topology&) const override {
    if (call.collective != Collective::all_reduce) return Support::no("only all_reduce");
    return call.bytes() <= most_ ? Support() : Support::no("too large for " + name_);
  }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override {
    return {{.blocks = 2, .threads = 1}, {.blocks = 9, .threads = 1}};
  }
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, 20u), shape.threads};
  }
  double estimate(const Call&, const Topology&) const override { return price_; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext&) const override {}

 private:
  std::string name_;
  std::size_t most_;
  double price_;
};

const Algorithm& registered(const char* name, std::size_t most, double price) {
  auto& registry = Registry::instance();
  if (registry.find(name) == nullptr) registry.add(std::make_unique<Fake>(name, most, price));
  return *registry.find(name);
}

class Selection : public testing::Test {
 protected:
  const Algorithm& small_ = registered("fake_small", 1024, 1);
  const Algorithm& large_ = registered("fake_large", ~std::size_t{0}, 5);
  const Algorithm& twin_ = registered("fake_twin", ~std::size_t{0}, 5);

  Selector selector() const {
    Topology topology;
    topology.ranks = 4;
    topology.max_block_threads = 64;
    return {topology, {&large_, &small_, &twin_}, 2};
  }
  static Call call(std::size_t bytes) { return {.type = DataType::u8, .count = bytes}; }
  std::string chosen(std::size_t bytes, const std::string& option = {}) const {
    return std::string(selector().choose(call(bytes), {.algorithm = option}).algorithm->name());
  }
};

std::string message_of(ErrorCode code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

std::string matched(const RuleList& rules, std::size_t bytes) {
  const Rule* rule = rules.match({.type = DataType::u8, .count = bytes});
  return rule == nullptr ? "" : rule->algorithm;
}

TEST_F(Selection, RegistryIsSortedAndRefusesTwins) {
  const auto all = Registry::instance().all();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a->name() < b->name(); }));
  EXPECT_EQ(Registry::instance().find("fake_small"), &small_);
  EXPECT_EQ(Registry::instance().find("no such"), nullptr);
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument,
                 [] { Registry::instance().add(std::make_unique<Fake>("fake_small", 1, 1)); }),
      HasSubstr("fake_small"));
  for (const char* name : {"copy_engine", "oneshot_ll", "recursive_doubling", "ring", "twoshot"})
    EXPECT_NE(Registry::instance().find(name), nullptr) << name;
}

TEST_F(Selection, RangesAreHalfOpenAndTheFirstMatchCounts) {
  const RuleList rules("0-64K=fake_small;64K-8M=fake_large;0-1G=fake_twin", "a test");
  EXPECT_EQ(matched(rules, 0), "fake_small");
  EXPECT_EQ(matched(rules, 65535), "fake_small");
  EXPECT_EQ(matched(rules, 65536), "fake_large");
  EXPECT_EQ(matched(rules, (8u << 20) - 1), "fake_large");
  EXPECT_EQ(matched(rules, 8u << 20), "fake_twin");
  EXPECT_EQ(matched(rules, (1u << 30) - 1), "fake_twin");
  EXPECT_EQ(matched(rules, 1u << 30), "");
}

TEST_F(Selection, OpenRangesAndNoRange) {
  EXPECT_EQ(matched(RuleList("fake_large", "a test"), std::size_t{1} << 50), "fake_large");
  const RuleList open("8M-=fake_large", "a test");
  EXPECT_EQ(matched(open, (8u << 20) - 1), "");
  EXPECT_EQ(matched(open, std::size_t{1} << 50), "fake_large");
  EXPECT_TRUE(RuleList("", "a test").empty());
  EXPECT_EQ(matched(RuleList(" all_reduce : 0 - 1K = fake_small ; fake_large ;", "a test"), 1024),
            "fake_large");
}

TEST_F(Selection, ACollectiveHoldsForTheRulesAfterIt) {
  const RuleList rules("barrier:barrier;all_reduce:0-1K=fake_small;fake_large", "a test");
  EXPECT_EQ(matched(rules, 5), "fake_small");
  EXPECT_EQ(matched(rules, 5000), "fake_large");
  const Rule* barrier = rules.match({.collective = Collective::barrier});
  ASSERT_NE(barrier, nullptr);
  EXPECT_EQ(barrier->algorithm, "barrier");
}

TEST_F(Selection, MalformedRulesAreErrors) {
  for (const char* text :
       {"nonsense", "0-64K=nonsense", "64K=fake_small", "0-64Q=fake_small", "-=fake_small",
        "x-64K=fake_small", "64K-0=fake_small", "5-5=fake_small",
        "0-64K=", "0-64K=fake_small;nonsense", "=fake_small", "0-99999999999999999999=fake_small",
        "0-99999999999999G=fake_small", "1-2-3=fake_small"}) {
    const std::string message =
        message_of(ErrorCode::invalid_argument, [&] { RuleList(text, "PLAIT_ALGO"); });
    EXPECT_THAT(message, HasSubstr("PLAIT_ALGO")) << text;
  }
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [] { RuleList("nonsense", "x"); }),
              HasSubstr("oneshot_ll"));  // lists the known
}

TEST_F(Selection, ARuleMustNameAnAlgorithmOfItsCollective) {
  const auto refusal = [](const char* text) {
    return message_of(ErrorCode::unsupported, [&] { RuleList(text, "PLAIT_ALGO"); });
  };
  EXPECT_THAT(refusal("all_reduce:barrier"),
              HasSubstr("\"barrier\" serves barrier, not all_reduce, which has "));
  EXPECT_THAT(refusal("all_gather:fake_small"),
              HasSubstr("PLAIT_ALGO: in \"all_gather:fake_small\""));
  EXPECT_THAT(refusal("0-64K=direct_ll"),
              AllOf(HasSubstr("serves "), HasSubstr("broadcast, "),
                    HasSubstr("; name the collective, as in reduce_scatter:direct_ll")));
}

TEST_F(Selection, APolicyStandsAlone) {
  for (const char* text : {"0-1M=yali", "broadcast:yali", "in=yali"})
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { RuleList(text, "PLAIT_ALGO"); }),
                HasSubstr("yali is a policy, it stands alone"));
}

TEST_F(Selection, EstimatesDecideAndTiesGoToTheFirstName) {
  EXPECT_EQ(chosen(1024), "fake_small");
  EXPECT_EQ(chosen(1025), "fake_large");
}

TEST_F(Selection, CallOptionBeforeEnvironmentBeforeEstimate) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-100=fake_twin");
  EXPECT_EQ(chosen(99), "fake_twin");
  EXPECT_EQ(chosen(100), "fake_small");
  EXPECT_EQ(chosen(99, "fake_large"), "fake_large");
  EXPECT_EQ(selector().choose(call(99), {}).rule, "PLAIT_ALGO");
  EXPECT_EQ(selector().choose(call(99), {.algorithm = "fake_large"}).rule, "call option");
}

TEST_F(Selection, ARuleThatCantServeIsPassedOver) {
  const ScopedEnvironment environment("PLAIT_ALGO", "fake_small");
  EXPECT_EQ(chosen(10), "fake_small");
  EXPECT_EQ(chosen(5000), "fake_large");
}

TEST_F(Selection, TheFirstRuleThatServesCounts) {
  const ScopedEnvironment environment("PLAIT_ALGO", "fake_small;fake_twin");
  EXPECT_EQ(chosen(10), "fake_small");
  EXPECT_EQ(chosen(5000), "fake_twin");
}

TEST_F(Selection, RulesForCallsInPlaceOrOut) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-1K out=fake_small;in=fake_twin;fake_large");
  Call inside = call(1000);
  inside.symmetric = inside.in_place = true;
  EXPECT_EQ(selector().choose(inside, {}).algorithm->name(), "fake_twin");
  EXPECT_EQ(chosen(1000), "fake_small");
  EXPECT_EQ(chosen(2000), "fake_large");
}

/// The thresholds of the sources, with the real algorithms.
class Policies : public testing::Test {
 protected:
  static std::string chosen(const char* policy, std::size_t bytes, bool symmetric) {
    Topology topology;
    topology.ranks = 2;
    topology.max_block_threads = 64;
    std::vector<const Algorithm*> all;
    for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
    Call call{.type = DataType::u8, .count = bytes};
    call.symmetric = symmetric;
    return std::string(
        Selector(topology, all).choose(call, {.algorithm = policy}).algorithm->name());
  }
};

TEST_F(Policies, YaliChangesAbove64MiB) {
  constexpr std::size_t edge = std::size_t{64} << 20;
  EXPECT_EQ(chosen("yali", edge - 1, true), "flash");
  EXPECT_EQ(chosen("yali", edge, true), "flash");
  EXPECT_EQ(chosen("yali", edge + 1, true), "stream");
  EXPECT_EQ(chosen("yali", 1000, false), "stream") << "flash needs symmetric memory";
}

TEST_F(Policies, PeerToPeerChangesAbove32KiB) {
  for (const bool symmetric : {false, true}) {
    EXPECT_EQ(chosen("p2p", 32767, symmetric), "recursive_doubling");
    EXPECT_EQ(chosen("p2p", 32768, symmetric), "recursive_doubling");
    EXPECT_EQ(chosen("p2p", 32769, symmetric), "ring");
  }
}

/// Every all-reduce is served by a rule, whatever its size and memory, and by several algorithms.
TEST_F(Policies, BuiltInTablesServeEverything) {
  for (const int ranks : {2, 3, 4}) {
    Topology topology;
    topology.backend = BackendKind::cuda;
    topology.architecture = "sm_90";
    topology.ranks = ranks;
    topology.wide_packets = true;
    topology.line_threads = 8;
    topology.max_block_threads = 512;
    topology.block_threads = 512;
    topology.units = 132;
    topology.scratch_limit = std::size_t{128} << 20;
    std::vector<const Algorithm*> all;
    for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
    const Selector selector(topology, all);
    std::set<std::string> used;
    for (std::size_t bytes = 1; bytes <= std::size_t{8} << 30; bytes *= 2)
      for (const bool symmetric : {false, true}) {
        Call call{.type = DataType::u8, .count = bytes};
        call.symmetric = symmetric;
        const Choice choice = selector.choose(call, {});
        EXPECT_EQ(choice.rule, "built-in table") << bytes;
        used.insert(std::string(choice.algorithm->name()));
      }
    EXPECT_GE(used.size(), 6u) << ranks;
    topology.architecture = "sm_80";
    EXPECT_TRUE(builtin_rules(topology).empty());
  }
}

/// CPU ranks: calls in ordinary memory have rules, with and without reads of the peers' memory.
TEST_F(Policies, BuiltInTablesServeTheHost) {
  std::vector<const Algorithm*> all;
  for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
  for (const int ranks : {2, 3, 8}) {
    for (const bool peer_reads : {false, true}) {
      Topology topology;
      topology.backend = BackendKind::host;
      topology.architecture = "x86_64";
      topology.ranks = ranks;
      topology.wide_packets = topology.indexed_arguments = true;
      topology.line_threads = topology.bulk_threads = 1;
      topology.max_block_threads = 64;
      topology.scratch_limit = std::size_t{128} << 20;
      topology.peer_reads = peer_reads;
      const Selector selector(topology, all);
      bool pulls = false;
      for (int collective = 0; collective < collective_count; ++collective) {
        if (static_cast<Collective>(collective) == Collective::barrier) continue;
        for (std::size_t bytes = 64; bytes <= std::size_t{1} << 30; bytes *= 4) {
          Call call{.collective = static_cast<Collective>(collective),
                    .type = DataType::u8,
                    .count = bytes};
          call.parts = parts_of(call.collective, ranks);
          call.count = bytes / static_cast<unsigned>(call.parts);
          const Choice choice = selector.choose(call, {});
          EXPECT_EQ(choice.rule, "built-in table")
              << name_of(call.collective) << " of " << bytes << " bytes, " << ranks << " ranks";
          pulls = pulls || choice.algorithm->name() == "pull";
        }
      }
      EXPECT_EQ(pulls, peer_reads);
    }
  }
}

TEST_F(Policies, AreNamedWhereAlgorithmsAre) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-1K=oneshot_ll;p2p");
  EXPECT_EQ(chosen("", 1023, false), "oneshot_ll");
  EXPECT_EQ(chosen("", 1024, false), "recursive_doubling");
  EXPECT_EQ(chosen("", std::size_t{1} << 20, false), "ring");
}

TEST_F(Selection, OptionsThatCantBeServedAreErrors) {
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { chosen(1, "nonsense"); }),
              HasSubstr("\"nonsense\""));
  EXPECT_THAT(message_of(ErrorCode::unsupported, [&] { chosen(5000, "fake_small"); }),
              HasSubstr("too large for fake_small"));
}

TEST_F(Selection, UnknownNameInTheEnvironmentIsAnError) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-1K=onesot_ll");
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { selector(); }), HasSubstr("onesot_ll"));
}

TEST_F(Selection, ShapesComeFromTheAlgorithmOrTheCaller) {
  EXPECT_EQ(selector().choose(call(1), {}).shape, (LaunchShape{2, 1}));
  EXPECT_EQ(selector().choose(call(1), {.algorithm = {}, .blocks = 7}).shape, (LaunchShape{7, 1}));
  EXPECT_EQ(selector().choose(call(1), {.algorithm = {}, .threads = 64}).shape,
            (LaunchShape{2, 64}));
  EXPECT_EQ(selector().choose(call(1), {.algorithm = {}, .blocks = 21}).shape,
            (LaunchShape{20, 1}));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] { selector().choose(call(1), {.algorithm = {}, .threads = 65}); }),
              HasSubstr("all_reduce: rank 2: 65 threads a block; at most 64 on host"));
}

TEST_F(Selection, ExplainNamesTheChoiceAndTheOthers) {
  const std::string text = selector().explain(call(5000), {});
  EXPECT_THAT(text, HasSubstr("takes fake_large"));
  EXPECT_THAT(text, HasSubstr("estimate"));
  EXPECT_THAT(text, HasSubstr("fake_twin"));
  EXPECT_THAT(text, HasSubstr("too large for fake_small"));
  EXPECT_THAT(selector().explain(call(1), {.algorithm = {}, .blocks = 100}),
              HasSubstr("with 20 blocks of 1 threads"));
}

TEST(Environment, Bytes) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("8MiB"), std::size_t{8} << 20);
  EXPECT_EQ(parse_bytes("2GB"), std::size_t{2} << 30);
  for (const char* wrong :
       {"", "K", "-1", "1.5K", "64KK", "1T", " 1", "18446744073709551616", "99999999999G"})
    EXPECT_FALSE(parse_bytes(wrong).has_value()) << wrong;
  EXPECT_EQ(format_bytes(65536), "64K");
  EXPECT_EQ(format_bytes(65537), "65537");
}

TEST(Environment, MalformedValuesAreErrorsThatNameTheVariable) {
  const ScopedEnvironment variable("PLAIT_TEST_NUMBER", "12x");
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [] { environment_integer("PLAIT_TEST_NUMBER", 0, 0, 100); }),
              HasSubstr("PLAIT_TEST_NUMBER"));
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [] { environment_bytes("PLAIT_TEST_NUMBER", 0); }),
      HasSubstr("12x"));
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [] { environment_seconds("PLAIT_TEST_NUMBER", 0); }),
      HasSubstr("12x"));
  const ScopedEnvironment large("PLAIT_TEST_NUMBER", "101");
  message_of(ErrorCode::invalid_argument,
             [] { environment_integer("PLAIT_TEST_NUMBER", 0, 0, 100); });
  const ScopedEnvironment empty("PLAIT_TEST_NUMBER", "");
  EXPECT_EQ(environment_integer("PLAIT_TEST_NUMBER", 7, 0, 100), 7);
}

class ScratchMemory : public testing::TestWithParam<BackendKind> {
 protected:
  static constexpr std::size_t mega = std::size_t{1} << 20;

  Topology topology(int ranks) const {
    const int line_threads = GetParam() == BackendKind::host   ? 1
                             : GetParam() == BackendKind::cuda ? 8
                                                               : 0;
    Topology topology;
    topology.backend = GetParam();
    topology.units = GetParam() == BackendKind::host ? 2 : 132;
    topology.line_threads = line_threads;
    topology.wide_packets = line_threads != 0;
    topology.ranks = ranks;
    return topology;
  }
  /// Scratch memory of a communicator with that limit; 0: the limit is refused.
  std::size_t bytes(std::size_t limit, Topology topology) const {
    try {
      topology.scratch_limit = scratch_within(limit, topology, all_);
    } catch (const Error&) {
      return 0;
    }
    EXPECT_LE(topology.scratch_limit, limit);
    return MemoryLayout(topology, all_).bytes();
  }
  /// The least limit that is not refused: what the error says.
  std::size_t least(const Topology& topology) const {
    const std::string text =
        message_of(ErrorCode::invalid_argument, [&] { scratch_within(0, topology, all_); });
    return std::stoull(text.substr(text.find("at least ") + 9));
  }

  const std::vector<const Algorithm*> all_ = [] {
    std::vector<const Algorithm*> all;
    for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
    return all;
  }();
};
INSTANTIATE_TEST_SUITE_P(All, ScratchMemory,
                         testing::Values(BackendKind::host, BackendKind::cuda, BackendKind::hip),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// Shares of the default of PLAIT_SCRATCH_BYTES need not be made smaller, whatever the number of
/// ranks. The same holds for less and for more memory.
TEST_P(ScratchMemory, SharesFitIntoTheDefault) {
  for (const auto& [limit, most_ranks] : {std::pair(16, 8), std::pair(64, 16), std::pair(128, 64),
                                          std::pair(384, 64), std::pair(512, 64)})
    for (int ranks = 1; ranks <= most_ranks; ++ranks)
      EXPECT_EQ(scratch_within(limit * mega, topology(ranks), all_), limit * mega)
          << limit << " MB, " << ranks << " ranks";
}

/// If some limit is enough, so is every larger one; and the error says which is.
TEST_P(ScratchMemory, MoreIsAlwaysEnough) {
  std::vector<std::size_t> limits;
  for (std::size_t limit = mega / 4; limit <= 16 * mega; limit += mega / 4) limits.push_back(limit);
  for (std::size_t limit = 32 * mega; limit <= 512 * mega; limit *= 2) limits.push_back(limit);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::size_t enough = least(topology(ranks));
    limits.insert(limits.end(), {enough - 1, enough, enough + 1});
    for (const std::size_t limit : limits) {
      const std::size_t used = bytes(limit, topology(ranks));
      EXPECT_LE(used, limit) << ranks << " ranks";
      EXPECT_EQ(used != 0, limit >= enough)
          << ranks << " ranks, limit " << limit << ", least " << enough;
    }
  }
}

/// The limits that docs/environment.md says are enough.
TEST_P(ScratchMemory, LeastIsAsDocumented) {
  for (const auto& [ranks, enough] : {std::pair(2, 1), std::pair(4, 2), std::pair(8, 3)})
    EXPECT_NE(bytes(enough * mega, topology(ranks)), 0u) << ranks << " ranks";
}

/// The memory that is there from the start, for any limit, if memory is committed as calls need it.
/// Messages need no more, and shares that are windows by themselves are as large as without.
TEST_P(ScratchMemory, BaseIsSmallAndServesMessages) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    Topology whole = topology(ranks);
    const std::size_t usual = default_scratch(whole);
    for (const std::size_t limit :
         {48 * mega, usual, std::size_t{1} << 30, std::size_t{16} << 30}) {
      Topology grows = whole;
      grows.base_limit = base_scratch;
      whole.scratch_limit = grows.scratch_limit =
          scratch_within(limit + base_scratch / 2, grows, all_, limit);
      EXPECT_TRUE(limit != usual || grows.scratch_limit == limit)
          << ranks << " ranks, " << grows.scratch_limit;
      const MemoryLayout layout(grows, all_), at_once(whole, all_);
      EXPECT_EQ(at_once.windows.size(), 1u);
      EXPECT_LE(layout.windows.front(), base_scratch) << ranks << " ranks, limit " << limit;
      for (std::size_t i = 0; i < all_.size(); ++i) {
        const auto& [own, common, reserved] = layout.places[i];
        if (all_[i]->collective() == Collective::send_recv) {
          EXPECT_EQ(own.window + common.window, 0u) << all_[i]->name();
        } else {
          EXPECT_EQ(all_[i]->resources(grows), all_[i]->resources(whole)) << all_[i]->name();
        }
        for (const MemoryLayout::Place& at : {own, common})
          EXPECT_TRUE(at.window == 0 || at.scratch == 0) << all_[i]->name();
      }
    }
  }
}

}  // namespace
}  // namespace plait
