// What explain() says of a choice: the rule that decided, and the whole ranking.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "support/environment.hpp"
#include "support/every_algorithm.hpp"

namespace plait {
namespace {

using test::every_algorithm;
using test::ScopedEnvironment;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// A machine for which there are no built-in rules.
Topology machine(int ranks = 5) {
  Topology topology;
  topology.architecture = "sm_1";
  topology.backend = BackendKind::cuda;
  topology.ranks = ranks;
  topology.units = 100;
  topology.block_threads = topology.max_block_threads = 512;
  topology.peer_access = topology.indexed_arguments = true;
  topology.line_threads = 8;
  topology.scratch_limit = 64 << 20;
  topology.launch_us = topology.hop_us = topology.signal_us = topology.copy_us = 1;
  topology.link_bandwidth = topology.push_bandwidth = 300e3;
  topology.packet_bandwidth = topology.copy_bandwidth = 200e3;
  return topology;
}

std::string explain(const Call& call, const CallOptions& options = {},
                    const Topology& topology = machine(), RuleList tuning = {}) {
  return Selector(topology, every_algorithm(), 0, std::move(tuning)).explain(call, options);
}
constexpr Call all_reduce{.count = 100'000};

struct Line {
  std::string name, rest;
};
/// The lines of the ranking.
std::vector<Line> ranking(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (line.size() > 23 && line.starts_with("  ") && line[2] != ' ' && line[22] == ' ' &&
        Registry::instance().find(line.substr(2, line.find(' ', 2) - 2)) != nullptr)
      lines.push_back({line.substr(2, line.find(' ', 2) - 2), line.substr(23)});
  return lines;
}

/// First the one that is taken, then the others by their times, then those that can't serve.
TEST(Explain, RanksAllAlgorithms) {
  const std::string text = explain(all_reduce);
  const std::vector<Line> lines = ranking(text);
  EXPECT_EQ(static_cast<std::size_t>(std::count_if(
                Registry::instance().all().begin(), Registry::instance().all().end(),
                [](const auto& one) { return one->collective() == Collective::all_reduce; })),
            lines.size())
      << text;
  EXPECT_THAT(text, HasSubstr("\n  takes " + lines[0].name + " with "));
  EXPECT_THAT(lines[0].rest, ContainsRegex("^estimated [0-9.]+ us, taken$"));
  double last = 0;
  std::size_t i = 0;
  for (; i < lines.size() && lines[i].rest.starts_with("estimated "); ++i) {
    const double us = std::stod(lines[i].rest.substr(10));
    EXPECT_GE(us, last) << text;
    last = us;
    EXPECT_THAT(lines[i].rest, ContainsRegex(i == 0 ? ", taken$" : ", [0-9.]+ x$"));
  }
  EXPECT_GT(i, 5u) << text;
  for (; i < lines.size() && lines[i].rest == "only by its name"; ++i) {
  }
  EXPECT_LT(i, lines.size()) << text;
  for (; i < lines.size(); ++i) EXPECT_THAT(lines[i].rest, testing::StartsWith("no: "));
  EXPECT_THAT(text, HasSubstr(", by estimate\n"));
  EXPECT_THAT(text, Not(HasSubstr("against")));
}

TEST(Explain, SaysTheRuleThatDecided) {
  const ScopedEnvironment rules(
      "PLAIT_ALGO", "0-4K=oneshot_ll; 64K-8M symmetric=twoshot;64K- = tree ;broadcast:chain");
  const std::string text = explain(all_reduce);
  EXPECT_THAT(text, HasSubstr(", by PLAIT_ALGO: 64K- = tree\n"));
  EXPECT_THAT(text, ContainsRegex("\n  against the times below: [a-z_0-9]+ is estimated at [0-9.]+ "
                                  "us, tree at [0-9.]+ us\n"));
  EXPECT_EQ(ranking(text)[0].name, "tree");
  Call symmetric = all_reduce;
  symmetric.symmetric = true;
  EXPECT_THAT(explain(symmetric), HasSubstr(", by PLAIT_ALGO: 64K-8M symmetric=twoshot\n"));
  EXPECT_THAT(explain({.collective = Collective::broadcast, .count = 9}),
              HasSubstr("takes chain with "));
  EXPECT_THAT(explain(all_reduce, {.algorithm = "ring"}), HasSubstr(", by call option\n"));
  EXPECT_THAT(explain(all_reduce, {.algorithm = "p2p"}), HasSubstr(", by policy p2p: 32769-=ring"));
}

TEST(Explain, SaysWhichRulesWerePassedOver) {
  const ScopedEnvironment rules("PLAIT_ALGO", "64K-=twoshot;1M-=flash;p2p");
  const std::string text = explain(all_reduce);
  EXPECT_THAT(text,
              HasSubstr("\n  passed over, because it can't serve: PLAIT_ALGO: 64K-=twoshot\n"));
  EXPECT_THAT(text, Not(HasSubstr("flash is")));
  EXPECT_THAT(text, Not(HasSubstr("1M-")));
  EXPECT_THAT(text, HasSubstr(", by PLAIT_ALGO: 32769-=ring, of the policy p2p\n"));
  EXPECT_THAT(explain(all_reduce, {.algorithm = "tree"}), Not(HasSubstr("passed over")));
  const ScopedEnvironment none("PLAIT_ALGO", "64K-=twoshot");
  EXPECT_THAT(explain(all_reduce), HasSubstr(", by estimate\n"));
}

/// The number is that of the line in the file, also below comments, sections and empty lines.
TEST(Explain, NamesTheLineOfAFile) {
  constexpr std::string_view file =
      "# measured\n"
      "[4 ranks]\n"
      "all_reduce: 0-=stream\n"
      "\n"
      "[5 ranks]\n"
      "\n"
      "all_reduce: 0-4K=oneshot_ll;   # small\n"
      "  4K-64K=tree; 64K-1M=ring\n"
      "  1M-=stream\n";
  const auto by = [&](std::size_t bytes) {
    return explain({.type = DataType::u8, .count = bytes}, {}, machine(),
                   tuning_rules({"a.rules", std::string(file)}, machine()));
  };
  EXPECT_THAT(by(1), HasSubstr(", by PLAIT_TUNING, line 7: all_reduce: 0-4K=oneshot_ll\n"));
  EXPECT_THAT(by(5000), HasSubstr(", by PLAIT_TUNING, line 8: 4K-64K=tree\n"));
  EXPECT_THAT(by(70'000), HasSubstr(", by PLAIT_TUNING, line 8: 64K-1M=ring\n"));
  EXPECT_THAT(by(2'000'000), HasSubstr(", by PLAIT_TUNING, line 9: 1M-=stream\n"));
}

TEST(Explain, NamesTheLineOfTheBuiltInTable) {
  Topology topology = machine(2);
  topology.architecture = "sm_90";
  const std::string text = explain(all_reduce, {}, topology);
  const std::size_t at = text.find(", by built-in table, line ");
  ASSERT_NE(at, std::string::npos) << text;
  const auto line = std::stoi(text.substr(at + 26));
  std::istringstream table{std::string(builtin_rules_text)};
  std::string written;
  for (int i = 0; i < line; ++i) std::getline(table, written);
  const std::size_t rule = text.find(": ", at) + 2;
  EXPECT_THAT(written, HasSubstr(text.substr(rule, text.find('\n', rule) - rule)));
}

/// Each collective, also where there is little to choose.
TEST(Explain, ServesEveryCall) {
  for (int c = 0; c < collective_count; ++c)
    for (const int ranks : {1, 2, 5}) {
      Call call{.collective = static_cast<Collective>(c), .type = DataType::i32, .count = 1000};
      call.parts = parts_of(call.collective, ranks);
      const std::string text = explain(call, {}, machine(ranks));
      EXPECT_THAT(text, testing::StartsWith(std::string(name_of(call.collective)) + " of "));
      EXPECT_THAT(text, ContainsRegex("\n  takes [a-z_0-9]+ with "));
      EXPECT_EQ(text.find("\n  in place: launches nothing") != std::string::npos,
                ranks == 1 && has_in_place(call.collective))
          << text;
      EXPECT_EQ(text.find("\n  in a group: ") != std::string::npos, has_in_place(call.collective))
          << text;
    }
}

TEST(Explain, SaysWhatHappensInAGroup) {
  EXPECT_THAT(explain(all_reduce, {.algorithm = "ring"}),
              HasSubstr("\n  in a group: has a launch for itself\n"));
  EXPECT_THAT(explain({.count = 10}),
              ContainsRegex("\n  in a group: shares a launch with calls like it, by [a-z_0-9]+ if "
                            "they have 40 bytes together\n"));
}

TEST(Explain, SaysWhatRunsOnlyByItsName) {
  Topology topology = machine(4);
  topology.nodes = 2;
  topology.rails = topology.node_ranks = 2;
  const std::string text = explain(all_reduce, {.algorithm = "quantized_int8"}, topology);
  EXPECT_THAT(ranking(text)[0].rest, "only by its name, taken");
  EXPECT_THAT(text, Not(HasSubstr(" x\n")));
  EXPECT_THAT(text, HasSubstr("\n  stages: "));
}

/// For PLAIT_LOG=select: the runner-up is the fastest of the others.
TEST(Explain, ShortlyNamesTheRunnerUp) {
  const Selector selector(machine(), every_algorithm());
  const std::vector<Line> lines = ranking(selector.explain(all_reduce, {}));
  const std::string text = selector.explain_shortly(all_reduce, selector.choose(all_reduce, {}));
  EXPECT_THAT(text, HasSubstr(": " + lines[0].name + " with "));
  EXPECT_THAT(text, HasSubstr("; next " + lines[1].name + ", " +
                              lines[1].rest.substr(0, lines[1].rest.find(" us") + 3)));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const CallOptions slowest{.algorithm = "tree"};
  EXPECT_THAT(selector.explain_shortly(all_reduce, selector.choose(all_reduce, slowest)),
              HasSubstr("by call option; estimated "));
}

/// A time that is no number has no place in an order, and is no reason to choose.
TEST(Estimates, AreNumbers) {
  for (const BackendKind backend : {BackendKind::host, BackendKind::cuda})
    for (const int ranks : {1, 2, 3, 4, 5, 8, 16})
      for (const int sharing : {1, ranks}) {
        Topology topology = machine(ranks);
        topology.backend = backend;
        topology.ranks_per_device = sharing;
        for (const Algorithm* algorithm : every_algorithm())
          for (const bool symmetric : {false, true})
            for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000},
                                            std::size_t{1} << 40, std::size_t{1} << 60}) {
              const Call call{
                  .collective = algorithm->collective(), .count = count, .symmetric = symmetric};
              if (!can_serve(*algorithm, call, topology)) continue;
              EXPECT_GE(Selector::estimate(*algorithm, call, topology), 0)
                  << algorithm->name() << ", " << name_of(call.collective) << ", " << ranks
                  << " ranks, " << sharing << " on a device, " << count << " elements";
            }
      }
}

}  // namespace
}  // namespace plait
