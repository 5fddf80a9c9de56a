// The registry, the grammar of PLAIT_ALGO, and the precedence of rules.
#include "communicator/selection/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/error.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace plait {
namespace {

using test::expect_invalid;
using test::expect_throws;
using test::message_of;
using test::ScopedEnvironment;
using testing::HasSubstr;

/// An algorithm that is never run: it serves calls up to a size, at a price.
class Fake final : public Algorithm {
 public:
  Fake(std::string name, std::size_t most, double price, bool in_order = false)
      : name_(std::move(name)), most_(most), price_(price), in_order_(in_order) {}
  StaticName name() const override { return StaticName::lasting(name_); }
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
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return in_order_; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext&) const override {}

 private:
  std::string name_;
  std::size_t most_;
  double price_;
  bool in_order_;
};

const Algorithm& registered(const char* name, std::size_t most, double price,
                            bool in_order = false) {
  auto& registry = Registry::instance();
  if (registry.find(name) == nullptr)
    registry.add(std::make_unique<Fake>(name, most, price, in_order));
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
  struct Row {
    const char* algorithm;
    std::size_t bytes;
    double microseconds;
    unsigned shape = 0;
  };
  static MeasuredTimes times(const std::vector<Row>& rows) {
    std::vector<MeasuredCall> calls;
    for (const Row& row : rows)
      calls.push_back({call(row.bytes), row.algorithm, row.microseconds, row.shape});
    return {"here", calls};
  }
  static std::string name(const Choice& choice) { return std::string(choice.algorithm->name()); }
  std::string chosen(std::size_t bytes, const std::string& option = {}) const {
    return name(selector().choose(call(bytes), {.algorithm = option}));
  }
};

TEST_F(Selection, RegistryIsSortedAndRefusesTwins) {
  const auto all = Registry::instance().all();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a->name() < b->name(); }));
  EXPECT_EQ(Registry::instance().find("fake_small"), &small_);
  EXPECT_EQ(Registry::instance().find("no such"), nullptr);
  expect_invalid([] { Registry::instance().add(std::make_unique<Fake>("fake_small", 1, 1)); },
                 "fake_small");
  for (const char* known : {"copy_engine", "oneshot_ll", "recursive_doubling", "ring", "twoshot"})
    EXPECT_NE(Registry::instance().find(known), nullptr) << known;
}

TEST_F(Selection, TheFirstRuleWhoseHalfOpenRangeMatchesCounts) {
  struct Matched {
    const char* rules;
    std::size_t bytes;
    const char* algorithm;
  };
  constexpr const char* three = "0-64K=fake_small;64K-8M=fake_large;0-1G=fake_twin";
  constexpr const char* by_collective = "barrier:barrier;all_reduce:0-1K=fake_small;fake_large";
  for (const auto& [rules, bytes, algorithm] : {
           Matched{three, 0, "fake_small"},
           {three, 65535, "fake_small"},
           {three, 65536, "fake_large"},
           {three, (8u << 20) - 1, "fake_large"},
           {three, 8u << 20, "fake_twin"},
           {three, (1u << 30) - 1, "fake_twin"},
           {three, 1u << 30, ""},
           {"fake_large", std::size_t{1} << 50, "fake_large"},
           {"8M-=fake_large", (8u << 20) - 1, ""},
           {"8M-=fake_large", std::size_t{1} << 50, "fake_large"},
           {" all_reduce : 0 - 1K = fake_small ; fake_large ;", 1024, "fake_large"},
           {by_collective, 5, "fake_small"},  // a collective holds for the rules after it
           {by_collective, 5000, "fake_large"},
       }) {
    const RuleList list(rules, "a test");
    const Rule* const rule = list.match(call(bytes));
    EXPECT_EQ(rule == nullptr ? "" : rule->algorithm, algorithm) << rules << ", " << bytes;
  }
  const RuleList rules(by_collective, "a test");
  const Rule* const barrier = rules.match({.collective = Collective::barrier});
  ASSERT_NE(barrier, nullptr);
  EXPECT_EQ(barrier->algorithm, "barrier");
  EXPECT_TRUE(RuleList("", "a test").empty());
}

TEST_F(Selection, WrongRulesAreErrors) {
  using testing::Matcher;
  struct Refused {
    const char* rules;
    Matcher<std::string> sentence = HasSubstr("PLAIT_ALGO");
    ErrorCode code = ErrorCode::invalid_argument;
  };
  const Matcher<std::string> is_policy = HasSubstr("yali is a policy, it stands alone"),
                             is_reproducible =
                                 HasSubstr("PLAIT_ALGO: reproducible stands alone in PLAIT_ALGO");
  for (const auto& [text, says, code] : {
           Refused{"nonsense", HasSubstr("oneshot_ll")},  // lists the known
           {"0-64K=nonsense"},
           {"64K=fake_small"},
           {"0-64Q=fake_small"},
           {"-=fake_small"},
           {"x-64K=fake_small"},
           {"64K-0=fake_small"},
           {"5-5=fake_small"},
           {"0-64K="},
           {"0-64K=fake_small;nonsense"},
           {"=fake_small"},
           {"0-99999999999999999999=fake_small"},
           {"0-99999999999999G=fake_small"},
           {"1-2-3=fake_small"},
           {"all_reduce:barrier",
            HasSubstr("\"barrier\" serves barrier, not all_reduce, which has "),
            ErrorCode::unsupported},
           {"all_gather:fake_small", HasSubstr("PLAIT_ALGO: in \"all_gather:fake_small\""),
            ErrorCode::unsupported},
           {"0-64K=direct_ll",
            AllOf(HasSubstr("serves "), HasSubstr("broadcast, "),
                  HasSubstr("; name the collective, as in reduce_scatter:direct_ll")),
            ErrorCode::unsupported},
           {"0-1M=yali", is_policy},
           {"broadcast:yali", is_policy},
           {"in=yali", is_policy},
           {"reproducible;fake_large", is_reproducible},
           {"0-1K=fake_small;reproducible", is_reproducible},
           {"reproducible", is_reproducible},
           {"0-1K=reproducible", HasSubstr("reproducible is a policy, it stands alone")},
       })
    EXPECT_THAT(message_of(code, [text = text] { RuleList(text, "PLAIT_ALGO"); }), says) << text;
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

TEST_F(Selection, TheFirstRuleThatServesCounts) {
  const ScopedEnvironment environment("PLAIT_ALGO", "fake_small;fake_twin");
  EXPECT_EQ(chosen(10), "fake_small");
  EXPECT_EQ(chosen(5000), "fake_twin");
}

TEST_F(Selection, RulesForCallsInPlaceOrOut) {
  const ScopedEnvironment environment("PLAIT_ALGO", "0-1K out=fake_small;in=fake_twin;fake_large");
  Call inside = call(1000);
  inside.symmetric = inside.in_place = true;
  EXPECT_EQ(name(selector().choose(inside, {})), "fake_twin");
  EXPECT_EQ(chosen(1000), "fake_small");
  EXPECT_EQ(chosen(2000), "fake_large");
}

TEST_F(Selection, OptionsThatCantBeServedAreErrors) {
  expect_invalid([&] { chosen(1, "nonsense"); }, "\"nonsense\"");
  expect_invalid([&] { chosen(1, "flash_bulk"); },
                 "there is no algorithm \"flash_bulk\" any more: flash has taken its place");
  expect_throws(
      ErrorCode::unsupported, [&] { chosen(5000, "fake_small"); }, "too large for fake_small");
}

/// Of the algorithms that can serve the call, the one with the least measured time.
TEST_F(Selection, MeasuredTimesTakeTheFastest) {
  Selector measured = selector();
  measured.add_times("plait-tune", times({{"fake_small", 100, 5},
                                          {"fake_small", 10000, 1},
                                          {"fake_large", 100, 1},
                                          {"fake_large", 10000, 100}}));
  measured.add_times("calibration", times({{"fake_twin", 100, 0.1}, {"fake_twin", 10000, 0.1}}));
  EXPECT_EQ(name(measured.choose(call(100), {})), "fake_large");
  EXPECT_EQ(name(measured.choose(call(1000), {})), "fake_small") << "2.2 us and 10 us";
  EXPECT_EQ(name(measured.choose(call(5000), {})), "fake_large")
      << "the other refuses more than 4 KB";
  EXPECT_EQ(measured.choose(call(100), {}).rule, "plait-tune") << "the first source counts";
  EXPECT_EQ(measured.choose(call(100), {.algorithm = "fake_twin"}).rule, "call option");
  const ScopedEnvironment environment("PLAIT_ALGO", "fake_twin");
  EXPECT_EQ(selector().choose(call(100), {}).rule, "PLAIT_ALGO");
}

TEST_F(Selection, CallsThatWereNotMeasuredFollowTheNextSource) {
  Selector measured = selector();
  Call broadcast = call(100);
  broadcast.collective = Collective::broadcast;
  measured.add_times("plait-tune",
                     MeasuredTimes("here", std::vector<MeasuredCall>{{broadcast, "chain", 1}}));
  EXPECT_EQ(measured.choose(call(100), {}).rule, "estimate");
  measured.add_times("calibration", times({{"fake_twin", 100, 1}}));
  EXPECT_EQ(measured.choose(call(100), {}).rule, "calibration");
}

TEST_F(Selection, TellsTheMeasuredTimeOfAnAlgorithm) {
  Selector measured = selector();
  EXPECT_EQ(measured.measured_us(small_, call(100)), std::nullopt);
  measured.add_times("plait-tune", times({{"fake_small", 100, 5}, {"fake_small", 400, 20}}));
  measured.add_times("calibration", times({{"fake_small", 100, 7}, {"fake_twin", 100, 9}}));
  EXPECT_DOUBLE_EQ(measured.measured_us(small_, call(100)).value(), 5);
  EXPECT_NEAR(measured.measured_us(small_, call(200)).value(), 10, 1e-9);
  EXPECT_DOUBLE_EQ(measured.measured_us(twin_, call(100)).value(), 9);
  EXPECT_EQ(measured.measured_us(small_, call(401)), std::nullopt) << "longer than measured";
  EXPECT_EQ(measured.measured_us(large_, call(100)), std::nullopt);
  Call symmetric = call(100);
  symmetric.symmetric = true;
  EXPECT_EQ(measured.measured_us(small_, symmetric), std::nullopt);
}

/// The algorithms have shapes of 2 and of 9 blocks.
TEST_F(Selection, MeasuredTimesNameTheShape) {
  Selector measured = selector();
  measured.add_times("plait-tune", times({{"fake_small", 100, 5, 1}, {"fake_small", 400, 20}}));
  EXPECT_EQ(measured.choose(call(150), {}).shape, (LaunchShape{9, 1}));
  EXPECT_EQ(measured.choose(call(300), {}).shape, (LaunchShape{2, 1})) << "nearer to 400";
  EXPECT_EQ(measured.choose(call(150), {.algorithm = {}, .blocks = 7}).shape.blocks, 7u);
  EXPECT_EQ(measured.choose(call(150), {.algorithm = "fake_small"}).shape, (LaunchShape{2, 1}));
  Selector unknown = selector();
  unknown.add_times("plait-tune", times({{"fake_small", 100, 5, 9}}));
  EXPECT_EQ(unknown.choose(call(100), {}).shape, (LaunchShape{2, 1})) << "it has no shape 9";
}

/// Two algorithms that say they reduce in rank order, and three cheaper ones that say nothing.
class ReproducibleSelection : public Selection {
 protected:
  const Algorithm& ordered_ = registered("fake_ordered", 4096, 10, true);
  const Algorithm& slow_ = registered("fake_slow", ~std::size_t{0}, 20, true);

  Selector any(bool reproducible, RuleList tuning = {}) const {
    Topology topology;
    topology.ranks = 4;
    topology.max_block_threads = 64;
    return {topology,
            {&large_, &ordered_, &slow_, &small_, &twin_},
            2,
            std::move(tuning),
            reproducible ? SumOrder::ranks : SumOrder::any};
  }
  static Call floats(std::size_t bytes) {
    return {.type = DataType::f32, .count = bytes / sizeof(float)};
  }
};

TEST_F(ReproducibleSelection, FloatsTakeOnlyThoseThatSayIt) {
  const Selector selector = any(true);
  EXPECT_EQ(name(selector.choose(floats(1000), {})), "fake_ordered");
  EXPECT_EQ(name(selector.choose(floats(5000), {})), "fake_slow");
  EXPECT_EQ(name(selector.choose(call(1000), {})), "fake_small") << "integers have one sum";
}

TEST_F(ReproducibleSelection, AnAllReduceKeepsTheOrderUnlessAnotherAlgorithmIsNamed) {
  Selector selector = any(false);
  EXPECT_EQ(name(selector.choose(floats(1000), {})), "fake_ordered");
  EXPECT_EQ(selector.choose(floats(1000), {}).sum_order, SumOrder::ranks);
  EXPECT_THAT(selector.explain(floats(1000), {}),
              HasSubstr("unless named: only algorithms that reduce in rank order"));
  EXPECT_EQ(name(selector.choose(call(1000), {})), "fake_small") << "integers have one sum";
  EXPECT_EQ(name(selector.choose(floats(1000), {.algorithm = "fake_twin"})), "fake_twin");
  EXPECT_EQ(selector.choose(floats(1000), {.algorithm = "fake_twin"}).sum_order, SumOrder::any);
  selector.add_times("calibration", times({{"fake_twin", 1000, 1}, {"fake_slow", 1000, 2}}));
  EXPECT_EQ(name(selector.choose(floats(1000), {})), "fake_slow");
  EXPECT_EQ(name(selector.choose(call(1000), {})), "fake_twin");
  EXPECT_EQ(name(any(false, RuleList("fake_twin", "a test")).choose(floats(1000), {})),
            "fake_twin");
  const ScopedEnvironment environment("PLAIT_ALGO", "fake_large");
  EXPECT_EQ(name(any(false).choose(floats(1000), {})), "fake_large");
}

TEST_F(ReproducibleSelection, NoOrderIsKeptBetweenNodesOrWhereNoAlgorithmHasIt) {
  Topology topology;
  topology.ranks = 4;
  topology.max_block_threads = 64;
  const Selector none(topology, {&large_, &twin_});
  EXPECT_EQ(name(none.choose(floats(1000), {})), "fake_large");
  EXPECT_EQ(none.choose(floats(1000), {}).sum_order, SumOrder::any);
  topology.nodes = 2;
  const Selector nodes(topology, {&ordered_});
  EXPECT_EQ(nodes.in_kept_order(floats(1000)).sum_order, SumOrder::any);
}

TEST_F(ReproducibleSelection, RulesArePreferencesAmongThem) {
  const RuleList rules("0-100=fake_twin;0-2K=fake_slow;fake_large", "a test");
  Selector selector = any(true, rules);
  EXPECT_EQ(name(selector.choose(floats(60), {})), "fake_slow");
  EXPECT_EQ(selector.choose(floats(60), {}).rule, "PLAIT_TUNING");
  EXPECT_EQ(selector.choose(floats(4000), {}).rule, "estimate");
  EXPECT_EQ(name(selector.choose(call(60), {})), "fake_twin");
  selector.add_times(
      "calibration",
      times({{"fake_twin", 1000, 1}, {"fake_slow", 1000, 2}, {"fake_ordered", 1000, 3}}));
  EXPECT_EQ(name(selector.choose(floats(4000), {})), "fake_slow");
  EXPECT_EQ(selector.choose(floats(4000), {}).rule, "calibration");
}

TEST_F(ReproducibleSelection, ByPlaitAlgo) {
  const ScopedEnvironment environment("PLAIT_ALGO", "reproducible");
  EXPECT_EQ(any(false).order(), SumOrder::ranks);
  EXPECT_EQ(name(any(false).choose(floats(1000), {})), "fake_ordered");
}

TEST_F(ReproducibleSelection, ByACallOption) {
  const Selector selector = any(false);
  const Choice choice = selector.choose(floats(1000), {.algorithm = "reproducible"});
  EXPECT_EQ(name(choice), "fake_ordered");
  EXPECT_EQ(choice.rule, "policy reproducible: estimate");
  EXPECT_TRUE(choice.wished);
  const std::string text = selector.explain(floats(1000), {.algorithm = "reproducible"});
  EXPECT_THAT(text, HasSubstr("reproducible: only algorithms that reduce in rank order"));
  EXPECT_THAT(text, HasSubstr("fake_twin            no: it does not reduce f32 in rank order"));
}

TEST_F(ReproducibleSelection, AnotherAlgorithmByNameIsAnError) {
  expect_invalid([&] { any(true).choose(floats(8), {.algorithm = "fake_twin"}); },
                 "all_reduce: rank 2: algorithm fake_twin: it does not reduce f32 in rank "
                 "order, which a reproducible communicator requires");
  EXPECT_EQ(name(any(true).choose(call(8), {.algorithm = "fake_twin"})), "fake_twin");
  EXPECT_EQ(name(any(true).choose(floats(8), {.algorithm = "fake_slow"})), "fake_slow");
  expect_throws(
      ErrorCode::unsupported, [&] { any(true).choose(floats(8), {.algorithm = "p2p"}); },
      "policy p2p: none of its algorithms serves this call of a reproducible");
}

TEST_F(Selection, ShapesComeFromTheAlgorithmOrTheCaller) {
  const auto shape = [&](const CallOptions& options) {
    return selector().choose(call(1), options).shape;
  };
  EXPECT_EQ(shape({}), (LaunchShape{2, 1}));
  EXPECT_EQ(shape({.algorithm = {}, .blocks = 7}), (LaunchShape{7, 1}));
  EXPECT_EQ(shape({.algorithm = {}, .threads = 64}), (LaunchShape{2, 64}));
  EXPECT_EQ(shape({.algorithm = {}, .blocks = 21}), (LaunchShape{20, 1}));
  expect_invalid([&] { shape({.algorithm = {}, .threads = 65}); },
                 "all_reduce: rank 2: 65 threads a block; at most 64 on host");
}

}  // namespace
}  // namespace plait
