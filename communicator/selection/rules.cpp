#include "communicator/selection/rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

/// The grammar's words for kinds of calls.
constexpr std::array<std::pair<std::string_view, unsigned>, 4> places = {
    {{"in", Where::in_place},
     {"out", Where::out_of_place | Where::ordinary},
     {"symmetric", Where::in_place | Where::out_of_place},
     {"ordinary", Where::ordinary}}};

/// Algorithms of earlier versions, each with the one that does its work now.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> removed = {
    {{"flash_bulk", "flash"}, {"twoshot_ll16", "twoshot_ll128"}, {"twoshot_push", "stream"}}};

bool is_policy(std::string_view name) {
  const auto known = policies();
  return std::any_of(known.begin(), known.end(),
                     [&](const Policy& policy) { return policy.name == name; });
}

/// Reads one rule. `collective` carries over from rule to rule.
class RuleParser {
 public:
  RuleParser(std::string_view text, std::string_view source) : rule_(text), source_(source) {}

  Rule parse(Collective& collective) {
    std::string_view rest = rule_;
    if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
      try {
        collective = parse_collective(trim(rest.substr(0, colon)));
      } catch (const Error& error) {
        refuse(error.what());
      }
      rest.remove_prefix(colon + 1);
    }
    Rule rule{collective, 0, std::numeric_limits<std::size_t>::max(), Where::anywhere, {}};
    if (const auto equals = rest.find('='); equals != std::string_view::npos) {
      const std::string_view range = parse_place(trim(rest.substr(0, equals)), rule);
      if (!range.empty() || rule.where == Where::anywhere) parse_range(range, rule);
      rest.remove_prefix(equals + 1);
    }
    rule.algorithm = trim(rest);
    rule.text = rule_;
    return rule;
  }
  [[noreturn]] void refuse_name(const Rule& rule) {
    if (is_policy(rule.algorithm))
      refuse(fmt::format("{} is a policy, it stands alone", rule.algorithm));
    std::vector<const Algorithm*> all;
    for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
    const auto [code, why] = wrong_name(rule.algorithm, rule.collective, all);
    const auto serving = std::find_if(
        all.begin(), all.end(), [&](const Algorithm* a) { return a->name() == rule.algorithm; });
    refuse(serving == all.end() ? why
                                : fmt::format("{}; name the collective, as in {}:{}", why,
                                              name_of((*serving)->collective()), rule.algorithm),
           code);
  }

 private:
  /// Takes the word for `where` off the end of the range and returns the rest.
  static std::string_view parse_place(std::string_view range, Rule& rule) {
    const auto space = range.find_last_of(blanks);
    const std::string_view last = space == std::string_view::npos ? range : range.substr(space + 1);
    const auto* const place = std::find_if(places.begin(), places.end(),
                                           [&](const auto& known) { return known.first == last; });
    if (place == places.end()) return range;
    rule.where = place->second;
    return trim(range.substr(0, range.size() - last.size()));
  }
  void parse_range(std::string_view range, Rule& rule) {
    const auto dash = range.find('-');
    if (dash == std::string_view::npos)
      refuse(fmt::format("{} is not a range such as 0-64K or 8M-", in_quotes(range)));
    const auto from = parse_bytes(trim(range.substr(0, dash)));
    const auto end = trim(range.substr(dash + 1));
    const auto to = end.empty() ? std::optional(rule.to) : parse_bytes(end);
    if (!from || !to)
      refuse(fmt::format("{} is not a range such as 0-64K or 8M-", in_quotes(range)));
    if (*from >= *to) refuse(fmt::format("the range {} is empty", in_quotes(range)));
    rule.from = *from;
    rule.to = *to;
  }
  [[noreturn]] void refuse(std::string_view why, ErrorCode code = ErrorCode::invalid_argument) {
    throw Error(code, fmt::format("{}: in {}: {}", source_, in_quotes(rule_), why));
  }

  std::string_view rule_, source_;
};

}  // namespace

WrongName wrong_name(std::string_view name, Collective collective,
                     std::span<const Algorithm* const> algorithms) {
  std::string own;
  std::vector<std::string_view> serves;
  for (const Algorithm* algorithm : algorithms) {
    if (algorithm->collective() == collective)
      own += fmt::format("{}{}", own.empty() ? "" : ", ", algorithm->name());
    if (algorithm->name() == name) serves.push_back(name_of(algorithm->collective()));
  }
  if (!serves.empty())
    return {ErrorCode::unsupported,
            fmt::format("algorithm {} serves {}, not {}, which has {}", in_quotes(name),
                        fmt::join(serves, ", "), name_of(collective), own)};
  for (const auto& [old, successor] : removed)
    if (old == name)
      return {ErrorCode::invalid_argument,
              fmt::format("there is no algorithm {} any more: {} has taken its place",
                          in_quotes(name), successor)};
  return {ErrorCode::invalid_argument,
          fmt::format("unknown algorithm {}; known: {}", in_quotes(name), own)};
}

RuleList::RuleList(std::string_view text, std::string_view source, LeftOut left_out,
                   int first_line) {
  Collective collective = Collective::all_reduce;
  for (const std::string_view part : split(text, ';')) {
    const std::string_view rule = trim(part);
    if (rule.empty()) continue;
    const auto before = text.substr(0, static_cast<std::size_t>(rule.data() - text.data()));
    const int line =
        first_line == 0
            ? 0
            : first_line + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    const auto known = policies();
    const auto policy =
        std::find_if(known.begin(), known.end(), [&](const Policy& p) { return p.name == rule; });
    if (policy == known.end() || Registry::instance().find(rule, collective) != nullptr) {
      RuleParser parser(rule, source);
      Rule parsed = parser.parse(collective);
      parsed.line = line;
      const bool is_there = Registry::instance().find(parsed.algorithm, collective) != nullptr;
      if (!is_there && left_out == LeftOut::refused) parser.refuse_name(parsed);
      if (is_there) rules_.push_back(std::move(parsed));
    } else if (order_of(policy->name) != SumOrder::any) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} stands alone in {}, without rules: it is no rule itself",
                              source, policy->name, override_variable));
    } else {
      RuleList named(policy->rules, policy->name, rules_of_library);
      for (Rule& of_policy : named.rules_) {
        of_policy.text = fmt::format("{}, of the policy {}", of_policy.text, rule);
        of_policy.line = line;
      }
      append(std::move(named));
    }
  }
}

const Rule* RuleList::match(const Call& call,
                            const std::function<bool(const Rule&)>& serves) const {
  const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& r) {
    return r.collective == call.collective && call.bytes() >= r.from && call.bytes() < r.to &&
           (r.where & where_is(call)) != 0 && serves(r);
  });
  return rule == rules_.end() ? nullptr : &*rule;
}

void RuleList::append(RuleList others) {
  rules_.insert(rules_.end(), std::make_move_iterator(others.rules_.begin()),
                std::make_move_iterator(others.rules_.end()));
}

}  // namespace plait
