// Selects the algorithm for a call. The choice is deterministic and equal on all ranks, because it
// depends on nothing that may differ between them.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/rules.hpp"

namespace plait {

/// Factors of an algorithm's formula on one kind of machine, fitted to times: of the part of the
/// estimate that does not depend on the bytes, and of the part that does.
struct EstimateFactors {
  double fixed = 1, bytes = 1;
};

/// The algorithm and shape of a call, and the reason.
struct Choice {
  const Algorithm* algorithm = nullptr;
  LaunchShape shape;
  /// "call option", "policy yali", "PLAIT_ALGO", "PLAIT_TUNING", "plait-tune", "calibration",
  /// "built-in table" or "estimate".
  std::string rule;
  bool wished = false;  // by the user: one of the first three
  /// `text_of` the rule; empty if none decided.
  std::string rule_text{};
  unsigned shape_number = 0;           // of the shape in Algorithm::shapes, if the call names none
  SumOrder sum_order = SumOrder::any;  // in which the algorithm adds
};

/// An algorithm of a call's collective, as a candidate for the call.
struct Candidate {
  const Algorithm* algorithm;
  Support support;  // whether it can serve, or why not
  double us = 0;    // infinite: it runs only when named
  /// Where the time comes from: "measured" or "estimated".
  std::string_view source{};
};

/// A line for each candidate. `taken`: the one that the others' times are compared with, or null.
std::string list_candidates(std::span<const Candidate> candidates, const Algorithm* taken);

/// Whether algorithms may differ in the bits of the result. Integers wrap, so the order of their
/// terms does not matter, and what is only moved keeps its bits.
bool depends_on_order(const Call& call);

/// Chooses algorithms. Precedence: call option (an algorithm or a policy), PLAIT_ALGO, tuning file,
/// measured times, built-in table, estimate. Of the algorithms that can serve the call, measured
/// times take the one with the least time. A rule whose algorithm can't serve the call is passed
/// over; one warning follows if PLAIT_ALGO has a rule for the call and none that can serve it. A
/// call option that can't be served, or that names an algorithm of another collective, is
/// Error(unsupported); an unknown name is Error(invalid_argument).
///
/// A reproducible selector passes over rules, and estimates, of algorithms that would not keep the
/// bits of the call. A call option that names one is Error(invalid_argument). Without it, times,
/// table and estimates still keep some bits: see `in_kept_order`.
class Selector {
 public:
  /// `rank`: for texts of errors only. `tuning`: the rules of a tuning file
  /// (communicator/selection/tuning_file.hpp). `order`: if not `any`, the selector is reproducible,
  /// as it is if PLAIT_ALGO says so.
  Selector(Topology topology, std::vector<const Algorithm*> algorithms, int rank = 0,
           RuleList tuning = {}, SumOrder order = SumOrder::any);
  /// Before the first choice, in order of precedence: times that were measured on this machine.
  /// `rule`: the name of their source, as in `Choice::rule`.
  void add_times(std::string_view rule, MeasuredTimes times) {
    measured_.push_back({rule, std::move(times)});
  }
  /// Before the first choice, with several nodes: what is known of the network between them.
  void set_network(const NetworkFacts& network) { topology_.network = network; }
  /// Whether the built-in table has rules for this topology.
  bool has_builtin_rules() const noexcept { return !builtin_.empty(); }
  /// The time of an algorithm for a call, in microseconds, measured or between measured sizes. None
  /// if such calls were not measured, or only shorter or longer ones.
  std::optional<double> measured_us(const Algorithm& algorithm, const Call& call) const;
  SumOrder order() const noexcept { return order_; }
  /// The call with the order that the options, or else the selector, demand of it, if its bits
  /// depend on one.
  Call ordered(Call call, const CallOptions& options) const;
  /// An `ordered` call with the order that the library keeps if nobody demands one: the ranks', of
  /// floats in an all-reduce on one node. So its bits depend on its terms alone there.
  /// docs/same-bits.md has the cost. Whoever names another algorithm gets that.
  Call in_kept_order(Call call) const;
  /// Whether the algorithm can serve an `ordered` call, and keeps its bits.
  Support admits(const Algorithm& algorithm, const Call& call) const;
  Choice choose(const Call& call, const CallOptions& options) const;
  /// Microseconds that the call takes by the algorithm's formula and its `factors`. Infinite: the
  /// algorithm runs only when named.
  static double estimate(const Algorithm& algorithm, const Call& call, const Topology& topology);
  /// 1 and 1 for one rank, between nodes, and between GPUs with links. Algorithms without a row in
  /// builtin.factors have those of their family, or else the geometric mean of the collective.
  static EstimateFactors factors(const Algorithm& algorithm, const Topology& topology);
  /// The algorithm for a batch of calls of one type, operation and scale that together are as long
  /// as `all`: the one for a single call of that length if it takes batches, else the one with the
  /// least estimate among those that do. Null if none serves it.
  const Algorithm* choose_batch(const Call& all) const;
  /// True if a call that takes `choice` when alone gains by sharing a launch: if it adds less time
  /// to a batch than it takes alone.
  bool gains_in_batch(const Call& call, const Choice& choice) const;
  /// Throws Error(invalid_argument) if the options name an unknown algorithm, Error(unsupported) if
  /// they name one that serves only other collectives.
  void check_known(Collective collective, const CallOptions& options) const;
  /// Several lines: the choice and its rule, whether it is reproducible, and every algorithm: the
  /// one that is taken, those that can serve by their times, and those that can't, with the reason.
  /// The text is the same on all ranks.
  std::string explain(const Call& call, const CallOptions& options) const;
  /// One line: the choice, its rule, and of the other algorithms the one of least time.
  std::string explain_shortly(const Call& call, const Choice& choice) const;
  /// True on one rank for a call that changes nothing if it is in place, and for which the user has
  /// asked for no launch. A reduction changes a float: every NaN becomes the only one.
  bool is_done_in_place(const Call& call, const CallOptions& options) const noexcept;
  const Topology& topology() const noexcept { return topology_; }

 private:
  [[noreturn]] void refuse(Collective collective, ErrorCode code, const std::string& why) const;
  Choice choose_algorithm(const Call& call, const CallOptions& options) const;
  const Algorithm* find(std::string_view name, Collective collective) const;
  Choice by_option(const Call& call, const std::string& name) const;
  // The order that the options, or else the selector, demand.
  SumOrder order(const CallOptions& options) const;
  // The functions below take calls that are `ordered`, and choose only among algorithms that keep
  // their bits.

  // Those that can serve come first, from the least time on.
  std::vector<Candidate> ranking(const Call& call) const;
  Candidate candidate(const Algorithm& algorithm, const Call& call) const;
  static const Candidate* fastest(std::span<const Candidate> ranking);
  std::string explain_passed_over(const Call& call, const CallOptions& options) const;
  std::string explain_group(const Call& call, const CallOptions& options,
                            const Choice& choice) const;
  Choice by_default(const Call& call) const;
  Choice by_library(const Call& call) const;
  const Algorithm* by_estimate(const Call& call, bool batches = false) const;
  // `passed_over`: is told of rules for the call whose algorithms can't serve it.
  const Rule* by_rules(
      const RuleList& rules, const Call& call,
      const std::function<void(const Rule&)>& passed_over = [](const Rule&) {}) const;
  Choice by_rule(const Rule& rule, std::string source, bool wished) const;
  Choice by_times(const MeasuredTimes& times, const Call& call) const;

  struct Measured {
    std::string_view rule;
    MeasuredTimes times;
  };

  Topology topology_;
  std::vector<const Algorithm*> algorithms_;
  int rank_;
  SumOrder order_;
  RuleList overrides_, tuning_, builtin_;
  std::vector<Measured> measured_;
  std::map<std::string, RuleList, std::less<>> policies_;
};

}  // namespace plait
