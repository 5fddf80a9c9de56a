// Rules and policies: what users, and the built-in table, say of the choice of algorithms.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_times.hpp"
#include "plait/communicator_options.hpp"
#include "plait/error.hpp"

namespace plait {

/// "Calls of `collective`, of the kinds `where`, with a message of `from` bytes or more and less
/// than `to` take `algorithm`."
struct Rule {
  Collective collective;
  std::size_t from, to;
  unsigned where;
  std::string algorithm;
  /// For explanations: the rule as it was written, and its line in a file; 0: it is in none.
  std::string text{};
  int line = 0;
};

/// Where the rule stands and how it reads, such as ", line 4: 96K-=chain". It follows the name of
/// the rule's source.
std::string text_of(const Rule& rule);

/// Holds rules.
inline constexpr const char* override_variable = "PLAIT_ALGO";

/// Rules for an algorithm that this build does not have.
enum class LeftOut { refused, passed_over };
/// For the library's own rules: passed_over in a build with some of the algorithms.
extern const LeftOut rules_of_library;

/// An ordered list of rules. Among those that match a call, the first counts whose algorithm can
/// serve it.
///
/// Grammar: rules separated by `;`. A rule is `[collective:][[range] [where]=]algorithm`. A
/// collective also holds for the rules after it, until another is named; before the first it is
/// all_reduce. A range is `from-to` in bytes with suffixes K M G, `to` excluded; without `to` it
/// has no end; without a range it is every size. `where` restricts a rule: `in` to calls in place
/// in symmetric memory, `out` to all other calls, `symmetric` and `ordinary` to calls in such
/// memory. The name of a policy stands for its rules. Example:
/// `all_reduce:0-64K=oneshot_ll;64K-8M=twoshot;8M-=ring`.
class RuleList {
 public:
  RuleList() = default;
  /// Throws an error that names `source` (an environment variable, a file): Error(invalid_argument)
  /// for anything malformed or unknown, Error(unsupported) for an algorithm that serves only other
  /// collectives. `first_line`: where `text` begins in a file.
  RuleList(std::string_view text, std::string_view source, LeftOut left_out = LeftOut::refused,
           int first_line = 0);
  /// The first rule that matches and for which `serves` is true; null if there is none.
  const Rule* match(
      const Call& call,
      const std::function<bool(const Rule&)>& serves = [](const Rule&) { return true; }) const;
  bool empty() const { return rules_.empty(); }
  /// Adds rules behind these.
  void append(RuleList others);

 private:
  std::vector<Rule> rules_;
};

/// Rules with a name, which may stand wherever an algorithm's name may: the choices of other
/// libraries. Those of `order_of` have no rules.
struct Policy {
  std::string_view name, rules, source;
};
std::span<const Policy> policies();

/// The order that a policy demands. It restricts the choice instead: `reproducible` to algorithms
/// that reduce floats in rank order (`Algorithm::reduces_in_rank_order`), `reproducible_tree` to
/// those that do so in a tree. For other calls, all algorithms give the same bits. So these
/// policies can't stand among rules. `any` for other names.
SumOrder order_of(std::string_view policy);
SumOrder order_of(const CommunicatorOptions& options);
/// "rank order" or "a tree".
std::string_view text_of(SumOrder order);

/// The error for a name that none of the collective's algorithms has: `unsupported` if an algorithm
/// of another collective has it, else `invalid_argument`. `algorithms`: those of all collectives.
struct WrongName {
  ErrorCode code;
  std::string why;
};
WrongName wrong_name(std::string_view name, Collective collective,
                     std::span<const Algorithm* const> algorithms);

}  // namespace plait
