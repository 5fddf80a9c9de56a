// Which algorithm serves a call. Deterministic, and equal on all ranks: it sees nothing that may
// differ between them.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "plait/error.hpp"

namespace plait {

/// Kinds of calls that rules tell apart, as bits: in symmetric memory those in place and all
/// others, and those in ordinary memory, where ranks may differ in being in place.
enum Where : unsigned { in_place = 1, out_of_place = 2, ordinary = 4, anywhere = 7 };

/// "Calls of `collective`, of the kinds `where`, with a message of `from` bytes or more and less
/// than `to` take `algorithm`."
struct Rule {
  Collective collective;
  std::size_t from, to;
  unsigned where;
  std::string algorithm;
};

/// An ordered list of rules; of those that match a call, the first counts whose algorithm can serve
/// it.
///
/// Grammar: rules separated by `;`. A rule is `[collective:][[range] [where]=]algorithm`. A
/// collective holds for the rules after it too, until another is named; before the first it is
/// all_reduce. A range is `from-to` in bytes with suffixes K M G, `to` excluded; without `to` it
/// has no end; without a range it is every size. `in` is for calls in place in symmetric memory
/// only, `out` for all others only, `symmetric` and `ordinary` for those in such memory only. The
/// name of a policy stands for its rules. Example:
/// `all_reduce:0-64K=oneshot_ll;64K-8M=twoshot;8M-=ring`.
class RuleList {
 public:
  RuleList() = default;
  /// Throws Error(invalid_argument) that names `source` (an environment variable, a file) for
  /// anything malformed or unknown, Error(unsupported) for an algorithm of other collectives alone.
  RuleList(std::string_view text, std::string_view source);
  /// The first rule that matches and that `serves` likes; null if there is none.
  const Rule* match(
      const Call& call,
      const std::function<bool(const Rule&)>& serves = [](const Rule&) { return true; }) const;
  bool empty() const { return rules_.empty(); }
  /// Other rules, which come after these.
  void append(RuleList others);

 private:
  std::vector<Rule> rules_;
};

/// Rules with a name, to be named where an algorithm can be: what other libraries' authors chose.
struct Policy {
  std::string_view name, rules, source;
};
std::span<const Policy> policies();

/// What was chosen and why.
struct Choice {
  const Algorithm* algorithm = nullptr;
  LaunchShape shape;
  std::string rule;     // "call option", "policy yali", "PLAIT_ALGO", "PLAIT_TUNING", "built-in
                        // table", "estimate"
  bool wished = false;  // by the user: one of the first three
};

/// What is wrong with a name that is none of the collective's algorithms: Error(unsupported) if it
/// is one of others. `algorithms`: those of all collectives.
struct WrongName {
  ErrorCode code;
  std::string why;
};
WrongName wrong_name(std::string_view name, Collective collective,
                     std::span<const Algorithm* const> algorithms);

/// Precedence: call option (an algorithm or a policy), PLAIT_ALGO, tuning file, built-in table,
/// estimate. A rule whose algorithm can't serve the call is passed over, with a warning once if the
/// user wrote it and no other rule of his serves it; a call option that can't be served is
/// Error(unsupported), also if it names an algorithm of another collective; an unknown name is
/// Error(invalid_argument).
class Selector {
 public:
  /// `rank`: for messages; no choice depends on it. `tuning`: rules of a tuning file
  /// (communicator/selection/tuning_file.hpp).
  Selector(Topology topology, std::vector<const Algorithm*> algorithms, int rank = 0,
           RuleList tuning = {});
  Choice choose(const Call& call, const CallOptions& options) const;
  /// The algorithm for a batch of calls of one type, operation and scale that are as long as `all`
  /// together: what a single call of that length takes if it takes batches, else the one of those
  /// that do with the least estimate. Null if none serves it.
  const Algorithm* choose_batch(const Call& all) const;
  /// Whether a call that would take `choice` alone gains by sharing a launch with others: when what
  /// it adds to a batch takes less time.
  bool gains_in_batch(const Call& call, const Choice& choice) const;
  /// Throws Error(invalid_argument) if the options name an algorithm that does not exist,
  /// Error(unsupported) if it is one of other collectives alone.
  void check_known(Collective collective, const CallOptions& options) const;
  /// Several lines: the choice, its rule, and every algorithm with its estimate or the reason why
  /// not.
  std::string explain(const Call& call, const CallOptions& options) const;
  const Topology& topology() const noexcept { return topology_; }

 private:
  [[noreturn]] void refuse(Collective collective, ErrorCode code, const std::string& why) const;
  std::string candidates(const Call& call) const;
  Choice choose_algorithm(const Call& call, const CallOptions& options) const;
  const Algorithm* find(std::string_view name, Collective collective) const;
  Choice by_option(const Call& call, const std::string& name) const;
  const Algorithm* by_estimate(const Call& call, bool batches = false) const;
  const Algorithm* by_rules(const RuleList& rules, const Call& call) const;

  Topology topology_;
  std::vector<const Algorithm*> algorithms_;
  int rank_;
  RuleList overrides_, tuning_, builtin_;
  std::map<std::string, RuleList, std::less<>> policies_;
};

/// Measured rules for a kind of machine, in the grammar of RuleList; empty where the estimates
/// serve.
std::string_view builtin_rules(const Topology& topology);

}  // namespace plait
