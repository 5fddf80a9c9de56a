#include "communicator/selection/measured_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "communicator/selection/selection.hpp"
#include "core/environment.hpp"

namespace plait {
namespace {

using Costs = std::map<std::string, double, std::less<>>;  // algorithm to microseconds
using Curve = std::map<std::size_t, Costs>;                // bytes to costs

struct Span {
  std::size_t from;
  std::string algorithm;
  bool operator==(const Span&) const = default;
};
using Spans = std::vector<Span>;  // each ends where the next begins; the last has no end

unsigned where_of(const MeasuredCall& measured) {
  if (!measured.call.symmetric) return Where::ordinary;
  return measured.call.in_place ? Where::in_place : Where::out_of_place;
}

/// The mean times of those algorithms that were measured, at a size, with all its types, operations
/// and those placements that rules can't tell apart. The means of others could not be compared with
/// these.
Curve curve_of(std::span<const MeasuredCall> calls, Collective collective, unsigned where) {
  struct Sum {
    double logarithms = 0;
    int terms = 0;
  };
  std::map<std::size_t, std::map<std::string, Sum, std::less<>>> sums;
  std::map<std::size_t, std::set<std::tuple<DataType, ReduceOp, bool>>> kinds;
  for (const MeasuredCall& measured : calls) {
    const Call& call = measured.call;
    if (call.collective != collective || where_of(measured) != where) continue;
    Sum& sum = sums[call.bytes()][measured.algorithm];
    sum.logarithms += std::log(measured.microseconds);
    ++sum.terms;
    kinds[call.bytes()].insert({call.type, call.op, measured.in_place});
  }
  Curve curve;
  for (const auto& [bytes, of_size] : sums)
    for (const auto& [name, sum] : of_size)
      if (sum.terms == static_cast<int>(kinds[bytes].size()))
        curve[bytes][name] = std::exp(sum.logarithms / sum.terms);
  return curve;
}

/// Rounds to an eighth of the next lower power of two, because borders are not known more exactly.
std::size_t rounded(double bytes) {
  const auto step = std::size_t{1} << std::max(std::ilogb(bytes) - 3, 0);
  return static_cast<std::size_t>(std::llround(bytes / static_cast<double>(step))) * step;
}

/// The size from which on `second` is faster, if it is faster at `high` and not at `low`. If the
/// two were not measured at both sizes, the middle.
std::size_t border(const Curve& curve, std::size_t low, std::size_t high, const std::string& first,
                   const std::string& second) {
  // The lead of `second` over `first`, as a logarithm.
  const auto lead = [&](std::size_t bytes) -> std::optional<double> {
    const Costs& times = curve.at(bytes);
    const auto a = times.find(first), b = times.find(second);
    return a == times.end() || b == times.end() ? std::nullopt
                                                : std::optional(std::log(a->second / b->second));
  };
  const auto at_low = lead(low), at_high = lead(high);
  double part = 0.5;
  if (at_low && at_high && *at_high > *at_low)
    part = std::clamp(-*at_low / (*at_high - *at_low), 0.0, 1.0);
  const auto from = static_cast<double>(std::max<std::size_t>(low, 1));
  return std::clamp(rounded(from * std::pow(static_cast<double>(high) / from, part)), low, high);
}

Spans fastest(const Curve& curve, double noise) {
  Spans spans;
  std::size_t last = 0;
  for (const auto& [bytes, times] : curve) {
    const auto best =
        std::min_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto same = spans.empty() ? times.end() : times.find(spans.back().algorithm);
    if (spans.empty()) {
      spans.push_back({0, best->first});
    } else if (same == times.end() || same->second > (1 + noise) * best->second) {
      const std::size_t from = border(curve, last, bytes, spans.back().algorithm, best->first);
      if (from == spans.back().from)
        spans.back().algorithm = best->first;  // its predecessor was never clearly faster
      else spans.push_back({from, best->first});
    }
    last = bytes;
  }
  return spans;
}

void add_rules(std::vector<std::string>& rules, const Spans& spans, std::string_view where) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::string to = i + 1 < spans.size() ? format_bytes(spans[i + 1].from) : "";
    rules.push_back(fmt::format("{}-{}{}{}={}", format_bytes(spans[i].from), to,
                                where.empty() ? "" : " ", where, spans[i].algorithm));
  }
}

/// Rules for ordinary memory and for calls in place come first, if they differ from those for all.
std::vector<std::string> rules_of(std::span<const MeasuredCall> calls, Collective collective,
                                  double noise) {
  const auto of = [&](unsigned where) {
    return fastest(curve_of(calls, collective, where), noise);
  };
  const Spans in = of(Where::in_place), out = of(Where::out_of_place),
              ordinary = of(Where::ordinary);
  std::vector<std::string> rules;
  if (ordinary != out) add_rules(rules, ordinary, "ordinary");
  if (in != out) add_rules(rules, in, "in");
  add_rules(rules, out, in.empty() || in == out ? "" : "out");
  return rules;
}

}  // namespace

std::string measured_rules(std::span<const MeasuredCall> calls, double noise) {
  std::string text;
  for (int c = 0; c < collective_count; ++c) {
    const auto collective = static_cast<Collective>(c);
    const std::vector<std::string> rules = rules_of(calls, collective, noise);
    if (!rules.empty())
      text += fmt::format("{}: {}\n", name_of(collective), fmt::join(rules, "; "));
  }
  return text;
}

}  // namespace plait
