// Says in words what the selector chooses, and why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

/// The network as estimates see it.
std::string network_text(const Topology& topology) {
  if (topology.nodes == 1) return {};
  return fmt::format(" of {} nodes, {:.3g} GB/s per node and {:.3g} us between them",
                     topology.nodes, topology.network.bandwidth / 1e3, topology.network.latency_us);
}

std::string_view place_text(const Call& call) {
  return call.in_place    ? "in place in symmetric memory"
         : call.symmetric ? "symmetric memory"
                          : "ordinary memory";
}

/// Such as ", 1.4 x"; empty if there is nothing to compare.
std::string compared(double us, double with) {
  if (!std::isfinite(us) || !std::isfinite(with) || us <= 0 || with <= 0) return {};
  const double ratio = us / with;
  return fmt::format(", {:.{}f} x", ratio, ratio < 0.995 ? 2 : ratio < 9.95 ? 1 : 0);
}

std::string choice_text(const Choice& choice) {
  return fmt::format("{} with {} blocks of {} threads, by {}{}", choice.algorithm->name(),
                     choice.shape.blocks, choice.shape.threads, choice.rule, choice.rule_text);
}

}  // namespace

std::string text_of(const Rule& rule) {
  const std::string line = rule.line == 0 ? std::string() : fmt::format(", line {}", rule.line);
  return fmt::format("{}: {}", line, printable(rule.text));
}

std::string list_candidates(std::span<const Candidate> candidates, const Algorithm* taken) {
  const auto of_taken = std::find_if(candidates.begin(), candidates.end(),
                                     [&](const Candidate& one) { return one.algorithm == taken; });
  std::string text;
  for (const Candidate& one : candidates) {
    text += fmt::format("  {:<20} ", one.algorithm->name());
    if (!one.support) text += fmt::format("no: {}", one.support.reason());
    else if (std::isinf(one.us)) text += "only by its name";
    else text += fmt::format("{} {:.1f} us", one.source, one.us);
    if (one.algorithm == taken) text += ", taken";
    else if (one.support && of_taken != candidates.end()) text += compared(one.us, of_taken->us);
    text += '\n';
  }
  return text;
}

Candidate Selector::candidate(const Algorithm& algorithm, const Call& call) const {
  Candidate one{&algorithm, admits(algorithm, call)};
  if (!one.support) return one;
  const auto measured = measured_us(algorithm, call);
  one.us = measured ? *measured : estimate(algorithm, call, topology_);
  one.source = measured ? "measured" : "estimated";
  return one;
}

std::vector<Candidate> Selector::ranking(const Call& call) const {
  std::vector<Candidate> all;
  for (const Algorithm* algorithm : algorithms_)
    if (algorithm->collective() == call.collective) all.push_back(candidate(*algorithm, call));
  // A tie goes to the first name, as in `by_estimate`.
  const auto place = [](const Candidate& one) {
    return std::tuple(!one.support, one.us, std::string_view(one.algorithm->name()));
  };
  std::sort(all.begin(), all.end(),
            [&](const Candidate& a, const Candidate& b) { return place(a) < place(b); });
  return all;
}

/// Null if none can serve, or all run only when named.
const Candidate* Selector::fastest(std::span<const Candidate> ranking) {
  return ranking.empty() || !ranking[0].support || std::isinf(ranking[0].us) ? nullptr
                                                                             : ranking.data();
}

/// The user's rules that fit the call and come first, but whose algorithms can't serve it.
std::string Selector::explain_passed_over(const Call& call, const CallOptions& options) const {
  if (!options.algorithm.empty() && order_of(options.algorithm) == SumOrder::any) return {};
  std::string text;
  for (const auto& from :
       {std::pair(&overrides_, override_variable), std::pair(&tuning_, tuning_variable)}) {
    const Rule* const deciding = by_rules(*from.first, call, [&](const Rule& rule) {
      text +=
          fmt::format("  passed over, because it can't serve: {}{}\n", from.second, text_of(rule));
    });
    if (deciding != nullptr) break;
  }
  return text;
}

/// Which launch the call takes in a group with others. Messages keep their algorithms.
std::string Selector::explain_group(const Call& call, const CallOptions& options,
                                    const Choice& choice) const {
  if (!has_in_place(call.collective)) return {};
  const bool shaped = options.blocks != 0 || options.threads != 0,
             shares = options.algorithm.empty() && !shaped
                          ? gains_in_batch(call, choice)
                          : !shaped && choice.algorithm->batches(topology_);
  if (!shares) return "  in a group: has a launch for itself\n";
  Call all = call;
  all.symmetric = all.in_place = false;
  const Algorithm* const batching = choice.wished ? choice.algorithm : choose_batch(all);
  return batching == nullptr
             ? "  in a group: has a launch for itself\n"
             : fmt::format(
                   "  in a group: shares a launch with calls like it, by {} if they have "
                   "{} bytes together\n",
                   batching->name(), call.bytes());
}

std::string Selector::explain(const Call& wanted, const CallOptions& options) const {
  const Choice choice = choose(wanted, options);
  Call call = ordered(wanted, options);
  const bool kept = choice.sum_order != call.sum_order;
  call.sum_order = choice.sum_order;
  std::vector<Candidate> all = ranking(call);
  const auto taken = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
    return one.algorithm == choice.algorithm;
  });
  std::string text =
      fmt::format("{} of {} x {} ({} bytes), {}, {}, {} ranks on {} {}{}\n  takes {}\n",
                  name_of(call.collective), call.count, name_of(call.type), call.bytes(),
                  name_of(call.op), place_text(call), topology_.ranks, name_of(topology_.backend),
                  topology_.architecture, network_text(topology_), choice_text(choice));
  if (const Candidate* const first = fastest(all);
      first != nullptr && first->algorithm != choice.algorithm && !std::isinf(taken->us))
    text += fmt::format("  against the times below: {} is {} at {:.1f} us, {} at {:.1f} us\n",
                        first->algorithm->name(), first->source, first->us,
                        taken->algorithm->name(), taken->us);
  text += explain_passed_over(call, options);
  if (const std::string stages = choice.algorithm->stages(call, choice.shape, topology_);
      !stages.empty())
    text += fmt::format("  stages: {}\n", stages);
  if (call.sum_order != SumOrder::any)
    text += fmt::format("  {}: only algorithms that reduce in {}\n",
                        kept ? "unless named" : "reproducible", text_of(call.sum_order));
  else if (order(options) != SumOrder::any)
    text += "  reproducible: all algorithms give the same bits here\n";
  if (is_done_in_place(call, options))
    text += "  in place: launches nothing, because one rank has the result already\n";
  text += explain_group(call, options, choice);
  std::rotate(all.begin(), taken, taken + 1);
  return text + list_candidates(all, choice.algorithm);
}

std::string Selector::explain_shortly(const Call& call, const Choice& choice) const {
  Call in_order = call;
  in_order.sum_order = choice.sum_order;
  const std::vector<Candidate> all = ranking(in_order);
  const auto taken = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
    return one.algorithm == choice.algorithm;
  });
  const auto next = std::find_if(all.begin(), all.end(), [&](const Candidate& one) {
    return one.algorithm != choice.algorithm && one.support && !std::isinf(one.us);
  });
  std::string text = fmt::format("{} of {} x {} ({} bytes), {}, {}: {}", name_of(call.collective),
                                 call.count, name_of(call.type), call.bytes(), name_of(call.op),
                                 place_text(call), choice_text(choice));
  if (taken != all.end() && !std::isinf(taken->us))
    text += fmt::format("; {} {:.1f} us", taken->source, taken->us);
  if (next != all.end())
    text += fmt::format("; next {}, {} {:.1f} us", next->algorithm->name(), next->source, next->us);
  return text;
}

}  // namespace plait
