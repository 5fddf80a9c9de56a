#include "communicator/selection/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// PLAIT_ALGO as rules; none if it is a policy without rules.
std::string_view rules_in(std::string_view overrides) {
  return order_of(trim(overrides)) != SumOrder::any ? std::string_view() : overrides;
}

}  // namespace

bool depends_on_order(const Call& call) {
  return facts_of(call.collective).reduces && (is_float(call.type) || is_complex(call.type));
}

Selector::Selector(Topology topology, std::vector<const Algorithm*> algorithms, int rank,
                   RuleList tuning, SumOrder order)
    : topology_(std::move(topology)),
      algorithms_(std::move(algorithms)),
      rank_(rank),
      order_(order != SumOrder::any ? order
                                    : order_of(trim(environment(override_variable).value_or("")))),
      overrides_(rules_in(environment(override_variable).value_or("")), override_variable),
      tuning_(std::move(tuning)),
      builtin_(builtin_rules(topology_)) {
  for (const Policy& policy : policies())
    policies_.emplace(policy.name, RuleList(policy.rules, policy.name, rules_of_library));
}

const Algorithm* Selector::find(std::string_view name, Collective collective) const {
  const auto found = std::find_if(algorithms_.begin(), algorithms_.end(), [&](const Algorithm* a) {
    return a->name() == name && a->collective() == collective;
  });
  return found == algorithms_.end() ? nullptr : *found;
}

void Selector::refuse(Collective collective, ErrorCode code, const std::string& why) const {
  throw Error(code, fmt::format("{}: rank {}: {}", name_of(collective), rank_, why));
}

void Selector::check_known(Collective collective, const CallOptions& options) const {
  if (options.algorithm.empty() || find(options.algorithm, collective) != nullptr ||
      policies_.contains(options.algorithm))
    return;
  const auto [code, why] = wrong_name(options.algorithm, collective, algorithms_);
  refuse(collective, code, why);
}

SumOrder Selector::order(const CallOptions& options) const {
  const SumOrder named = order_of(options.algorithm);
  return named != SumOrder::any ? named : order_;
}
Call Selector::ordered(Call call, const CallOptions& options) const {
  call.sum_order = depends_on_order(call) ? order(options) : SumOrder::any;
  // Each rank has the sum of other terms, so a scan has no tree that ranks could share.
  if (is_scan(call.collective) && call.sum_order == SumOrder::tree)
    call.sum_order = SumOrder::ranks;
  return call;
}

Call Selector::in_kept_order(Call call) const {
  if (call.sum_order == SumOrder::any && call.collective == Collective::all_reduce &&
      topology_.nodes == 1 && depends_on_order(call))
    call.sum_order = SumOrder::ranks;
  return call;
}

Support Selector::admits(const Algorithm& algorithm, const Call& call) const {
  Support support = can_serve(algorithm, call, topology_);
  if (!support || call.sum_order == SumOrder::any ||
      (call.sum_order == SumOrder::tree ? algorithm.reduces_in_tree(call, topology_)
                                        : algorithm.reduces_in_rank_order(call, topology_)))
    return support;
  return Support::no(
      fmt::format("it does not reduce {} in {}", name_of(call.type), text_of(call.sum_order)));
}

Choice Selector::by_option(const Call& call, const std::string& name) const {
  if (order_of(name) != SumOrder::any) {
    Choice choice = by_default(call);
    choice.rule = fmt::format("policy {}: {}", name, choice.rule);
    choice.wished = true;
    return choice;
  }
  const Algorithm* algorithm = find(name, call.collective);
  if (algorithm == nullptr) {
    const Rule* const rule = by_rules(policies_.find(name)->second, call);
    if (rule == nullptr)
      refuse(call.collective, ErrorCode::unsupported,
             fmt::format("policy {}: none of its algorithms serves this call{}", name,
                         order_ != SumOrder::any ? " of a reproducible communicator" : ""));
    return by_rule(*rule, "policy " + name, true);
  }
  if (const Support support = can_serve(*algorithm, call, topology_); !support)
    refuse(call.collective, ErrorCode::unsupported,
           fmt::format("algorithm {}: {}", name, support.reason()));
  if (const Support support = admits(*algorithm, call); !support)
    refuse(call.collective, ErrorCode::invalid_argument,
           fmt::format("algorithm {}: {}, which a reproducible communicator requires", name,
                       support.reason()));
  return {algorithm, {}, "call option", true};
}

const Rule* Selector::by_rules(const RuleList& rules, const Call& call,
                               const std::function<void(const Rule&)>& passed_over) const {
  return rules.match(call, [&](const Rule& r) {
    const Algorithm* algorithm = find(r.algorithm, r.collective);
    const bool serves = algorithm != nullptr && admits(*algorithm, call);
    if (!serves) passed_over(r);
    return serves;
  });
}

Choice Selector::by_rule(const Rule& rule, std::string source, bool wished) const {
  return {find(rule.algorithm, rule.collective), {}, std::move(source), wished, text_of(rule)};
}

/// Null in the choice: none of the algorithms that can serve the call was measured.
Choice Selector::by_times(const MeasuredTimes& times, const Call& call) const {
  Choice best;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm* algorithm : algorithms_) {
    if (algorithm->collective() != call.collective) continue;
    const auto time = times.find(algorithm->name(), call);
    if (!time || time->microseconds >= least || !admits(*algorithm, call)) continue;
    least = time->microseconds;
    best.algorithm = algorithm;
    best.shape_number = time->shape;
  }
  return best;
}

std::optional<double> Selector::measured_us(const Algorithm& algorithm, const Call& call) const {
  if (algorithm.collective() != call.collective) return std::nullopt;
  for (const Measured& measured : measured_)
    if (const auto time = measured.times.find(algorithm.name(), call); time && !time->extended)
      return time->microseconds;
  return std::nullopt;
}

/// `batches`: considers only algorithms that take batches.
const Algorithm* Selector::by_estimate(const Call& call, bool batches) const {
  const Algorithm* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm* algorithm : algorithms_) {
    if (algorithm->collective() != call.collective || (batches && !algorithm->batches(topology_)) ||
        !admits(*algorithm, call))
      continue;
    const double us = estimate(*algorithm, call, topology_);
    if (us >= least) continue;  // a tie goes to the first in order of name
    least = us;
    best = algorithm;
  }
  return best;
}

bool Selector::is_done_in_place(const Call& call, const CallOptions& options) const noexcept {
  if (topology_.ranks != 1 || !has_in_place(call.collective) || !options.algorithm.empty() ||
      options.blocks != 0 || options.threads != 0)
    return false;
  if (!facts_of(call.collective).reduces || call.collective == Collective::exscan) return true;
  const bool has_nans = is_float(call.type) || is_complex(call.type) ||
                        call.type == DataType::f32_i32 || call.type == DataType::f64_i32;
  return !has_nans && !is_logical(call.op);
}

Choice Selector::choose_algorithm(const Call& call, const CallOptions& options) const {
  check_known(call.collective, options);
  if (!options.algorithm.empty()) return by_option(call, options.algorithm);
  return by_default(call);
}

/// For a call that names no algorithm.
Choice Selector::by_default(const Call& call) const {
  if (const Rule* rule = by_rules(overrides_, call)) return by_rule(*rule, override_variable, true);
  if (const Rule* wanted = overrides_.match(call)) {
    static const bool once = [&] {
      log::warn("{} names {} for {} of {} bytes, which can't serve it; see explain()",
                override_variable, wanted->algorithm, name_of(call.collective), call.bytes());
      return true;
    }();
    static_cast<void>(once);
  }
  if (const Rule* rule = by_rules(tuning_, call)) return by_rule(*rule, tuning_variable, false);
  for (const Call& in_order : {in_kept_order(call), call})
    if (Choice choice = by_library(in_order); choice.algorithm != nullptr) {
      choice.sum_order = in_order.sum_order;
      return choice;
    }
  refuse(
      call.collective, ErrorCode::unsupported,
      fmt::format("no algorithm serves {} {} elements with {}\n{}", call.count, name_of(call.type),
                  name_of(call.op), trim(list_candidates(ranking(call), nullptr))));
}

/// Null in the choice: no algorithm serves the call.
Choice Selector::by_library(const Call& call) const {
  for (const Measured& measured : measured_)
    if (Choice choice = by_times(measured.times, call); choice.algorithm != nullptr) {
      choice.rule = measured.rule;
      return choice;
    }
  if (const Rule* rule = by_rules(builtin_, call)) return by_rule(*rule, "built-in table", false);
  return {by_estimate(call), {}, "estimate"};
}

Choice Selector::choose(const Call& wanted, const CallOptions& options) const {
  const Call call = ordered(wanted, options);
  Choice choice = choose_algorithm(call, options);
  if (call.sum_order != SumOrder::any) choice.sum_order = call.sum_order;
  const std::vector<LaunchShape> shapes = choice.algorithm->shapes(call, topology_);
  choice.shape = shapes[choice.shape_number < shapes.size() ? choice.shape_number : 0];
  choice.shape.threads = std::min(choice.shape.threads, topology_.max_block_threads);
  if (options.blocks != 0) choice.shape.blocks = options.blocks;
  if (options.threads != 0) choice.shape.threads = options.threads;
  if (choice.shape.threads > topology_.max_block_threads)
    refuse(call.collective, ErrorCode::invalid_argument,
           fmt::format("{} threads a block; at most {} on {}", choice.shape.threads,
                       topology_.max_block_threads, name_of(topology_.backend)));
  choice.shape = choice.algorithm->fitted(choice.shape, call, topology_);
  return choice;
}

const Algorithm* Selector::choose_batch(const Call& wanted) const {
  const Call all = ordered(wanted, {});
  const Algorithm* algorithm = choose_algorithm(all, {}).algorithm;
  return algorithm->batches(topology_) ? algorithm : by_estimate(in_kept_order(all), true);
}

bool Selector::gains_in_batch(const Call& call, const Choice& choice) const {
  if (choice.algorithm->batches(topology_)) return true;
  const Algorithm* batching =
      choice.wished ? nullptr : by_estimate(in_kept_order(ordered(call, {})), true);
  if (batching == nullptr) return false;
  Call least = call;
  least.count = 1;
  const double added = estimate(*batching, call, topology_) - estimate(*batching, least, topology_);
  return added < estimate(*choice.algorithm, call, topology_);
}

}  // namespace plait
