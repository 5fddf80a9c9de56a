#include "bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "algorithms/contract/collectives.hpp"

namespace plait::bench {
namespace {

/// Four significant digits; no fraction from 1000 on.
std::string microseconds(double us) {
  return fmt::format("{:.{}f}", us, us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0);
}
std::string bandwidth(double gb_per_s) {
  return fmt::format("{:.{}f}", gb_per_s, gb_per_s < 1 ? 3 : gb_per_s < 100 ? 2 : 1);
}
std::string bandwidth(const Result& result, double gb_per_s) {
  return result.moves_data() ? bandwidth(gb_per_s) : "-";
}
/// "out", or "out+4" of buffers that begin 4 bytes behind an aligned address.
std::string place(bool in_place, std::size_t offset) {
  const char* const where = in_place ? "in" : "out";
  return offset == 0 ? where : fmt::format("{}+{}", where, offset);
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:.1f}", *value) : "-";
}
std::string_view operation(Collective collective, ReduceOp op) {
  return facts_of(collective).reduces ? name_of(op) : "-";
}
std::string_view type_of(Collective collective, DataType type) {
  return collective == Collective::barrier ? "-" : name_of(type);
}
std::string wrong(const Result& result) {
  return result.wrong ? std::to_string(*result.wrong) : "N/A";
}
std::string full_name(const Result& result) {
  return result.chosen.empty() ? result.name : fmt::format("{} ({})", result.name, result.chosen);
}

constexpr const char* columns =
    "{:<14} {:>12} {:>12} {:>11} {:>10}  {:<28} {:<10} {:>6} {:>10} {:>8} {:>8} {:>6} {:>7}";
/// Behind them, with --statistics.
constexpr const char* statistics_columns = " {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}";

/// Results that compete: the same call in the same place.
struct Race {
  Collective collective;
  DataType type;
  ReduceOp op;
  std::size_t bytes;
  bool in_place;
  std::size_t offset;
  bool operator==(const Race&) const = default;
};
Race race_of(const Result& result) {
  return {result.call.collective, result.call.type, result.call.op,
          result.bytes(),         result.in_place,  result.offset};
}

struct Winners {
  const Result* algorithm = nullptr;  // one of Plait's
  const Result* selected = nullptr;   // "default"
  const Result* peer = nullptr;
};

void improve(const Result*& best, const Result& result) {
  if (!best || result.time_us() < best->time_us()) best = &result;
}

Winners winners(const std::vector<Result>& results, const Race& race) {
  Winners best;
  std::vector<std::string> named;
  for (const Result& result : results) {
    if (race_of(result) != race) continue;
    improve(result.name.starts_with("peer:") ? best.peer
            : result.name == "default"       ? best.selected
                                             : best.algorithm,
            result);
    named.push_back(result.name);
  }
  // The selection's choice counts as an algorithm if it was not measured under its own name.
  if (best.selected && std::find(named.begin(), named.end(), best.selected->chosen) == named.end())
    improve(best.algorithm, *best.selected);
  return best;
}

constexpr const char* summary_columns =
    "{:<14} {:>12} {:>11} {:>10} {:>6}  {:<24} {:<10} {:>10} {:>8}  {:>10}  {:<22} {:>10} {:>8}\n";

void print_race(std::FILE* out, const Race& race, const Winners& best) {
  const Result* fastest = best.algorithm;
  const auto time_of = [](const Result* result) {
    return result ? microseconds(result->time_us()) : "-";
  };
  const std::string ratio = best.peer && fastest
                                ? fmt::format("{:.2f}x", best.peer->time_us() / fastest->time_us())
                                : "-";
  fmt::print(out, summary_columns, name_of(race.collective), race.bytes,
             type_of(race.collective, race.type), operation(race.collective, race.op),
             place(race.in_place, race.offset), fastest ? full_name(*fastest) : "-",
             fastest ? name_of(fastest->memory) : "-", time_of(fastest),
             fastest ? bandwidth(*fastest, fastest->busbw()) : "-", time_of(best.selected),
             best.peer ? best.peer->name : "-", time_of(best.peer), ratio);
}

void print_ceilings(std::FILE* out, const Ceilings& ceilings) {
  const auto or_none = [](std::optional<double> value, std::string (*text)(double)) {
    return value ? text(*value) : std::string("-");
  };
  if (ceilings.barrier_us)
    fmt::print(out, "# ceilings: push {} GB/s, pull {} GB/s, flag {} us, barrier {} us: {}\n",
               or_none(ceilings.push_gbs, bandwidth), or_none(ceilings.pull_gbs, bandwidth),
               or_none(ceilings.flag_us, microseconds), microseconds(*ceilings.barrier_us),
               ceilings.how);
  else fmt::print(out, "# ceilings: {}\n", ceilings.how);
}

}  // namespace

void print_header(std::FILE* out, const Machine& machine, const Options& options) {
  fmt::print(out, "# plait {} on {}, {}\n", machine.version, machine.hostname, machine.date);
  for (const std::string& rank : machine.ranks) fmt::print(out, "# {}\n", rank);
  if (machine.processes < static_cast<int>(machine.ranks.size()))
    fmt::print(out, "# ranks in {} {}\n", machine.processes,
               machine.processes == 1 ? "process" : "processes");
  fmt::print(out, "# MPI: {}{}\n", machine.mpi_version,
             machine.nccl_version.empty() ? "" : "; NCCL: " + machine.nccl_version);
  if (machine.link.gb_per_s > 0)
    fmt::print(out, "# link: {} GB/s: {}\n", bandwidth(machine.link.gb_per_s), machine.link.how);
  else fmt::print(out, "# link: {}\n", machine.link.how);
  print_ceilings(out, machine.ceilings);
  fmt::print(out,
             "# timing {}, median of {} of the slowest rank; GB = 1e9 bytes; busbw = algbw "
             "* 2(n-1)/n for all_reduce, * 1 for broadcast, "
             "reduce and send_recv, * (n-1)/n for others; %ceil: busbw in percent of the greatest "
             "bandwidth above\n#\n",
             name_of(options.timing),
             samples_of(options.timing) == "calls"
                 ? fmt::format("single calls in {} repeats", options.repeats)
                 : fmt::format("{} repeats", options.repeats));
  fmt::print(out, columns, "collective", "size", "count", "type", "redop", "algorithm", "memory",
             "in/out", "time", "algbw", "busbw", "%ceil", "#wrong");
  if (options.statistics)
    fmt::print(out, statistics_columns, "mean", "stddev", "p5", "p95", "p99", "samples");
  fmt::print(out, "\n");
  fmt::print(out, columns, "", "(B)", "(elements)", "", "", "", "", "place", "(us)", "(GB/s)",
             "(GB/s)", "", "");
  if (options.statistics)
    fmt::print(out, statistics_columns, "(us)", "(us)", "(us)", "(us)", "(us)",
               fmt::format("({})", samples_of(options.timing)));
  fmt::print(out, "\n");
  std::fflush(out);
}

void print_result(std::FILE* out, const Result& result, const Ceilings& ceilings, bool statistics) {
  fmt::print(out, columns, name_of(result.call.collective), result.bytes(), result.call.count,
             type_of(result.call.collective, result.call.type),
             operation(result.call.collective, result.call.op), full_name(result),
             name_of(result.memory), place(result.in_place, result.offset),
             microseconds(result.time_us()), bandwidth(result, result.algbw()),
             bandwidth(result, result.busbw()), percent(result.percent_of(ceilings)),
             wrong(result));
  if (statistics) {
    const Times& times = result.times;
    fmt::print(out, statistics_columns, microseconds(times.mean()), microseconds(times.deviation()),
               microseconds(times.quantile(0.05)), microseconds(times.quantile(0.95)),
               microseconds(times.quantile(0.99)), times.size());
  }
  fmt::print(out, "\n");
  std::fflush(out);
}

void print_gap(std::FILE* out) { fmt::print(out, "\n"); }

void print_summary(std::FILE* out, const std::vector<Result>& results) {
  fmt::print(out,
             "# Fastest algorithm for each size; \"default\" is what the selection takes; "
             "\"peer/us\" above 1 means that Plait is faster\n");
  fmt::print(out, summary_columns, "collective", "size(B)", "type", "redop", "in/out", "fastest",
             "memory", "time(us)", "busbw", "default", "best peer", "time(us)", "peer/us");
  std::vector<Race> done;
  for (const Result& result : results) {
    const Race race = race_of(result);
    if (std::find(done.begin(), done.end(), race) != done.end()) continue;
    done.push_back(race);
    print_race(out, race, winners(results, race));
  }
  const bool checked = std::any_of(results.begin(), results.end(),
                                   [](const Result& result) { return result.wrong.has_value(); });
  if (checked)
    fmt::print(out, "# wrong elements: {}{}\n", total_wrong(results),
               total_wrong(results) ? "  <-- FAILED" : "");
  else fmt::print(out, "# results were not checked\n");
}

std::size_t total_wrong(const std::vector<Result>& results) {
  return std::accumulate(
      results.begin(), results.end(), std::size_t{0},
      [](std::size_t sum, const Result& result) { return sum + result.wrong.value_or(0); });
}

}  // namespace plait::bench
