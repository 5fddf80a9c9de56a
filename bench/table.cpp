#include "bench/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "algorithms/contract/collectives.hpp"
#include "core/environment.hpp"

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

/// "all_reduce f32 sum"; behind it what differs from a call out of place in symmetric memory.
std::string text_of(const Race& race) {
  std::string text(name_of(race.collective));
  if (race.collective != Collective::barrier) text += fmt::format(" {}", name_of(race.type));
  if (facts_of(race.collective).reduces) text += fmt::format(" {}", name_of(race.op));
  if (race.in_place || race.offset != 0) text += ", " + place(race.in_place, race.offset);
  if (race.memory != Memory::symmetric) text += fmt::format(", {}", name_of(race.memory));
  return text;
}

/// The width of the widest `text_of`.
std::size_t text_width(const Options& options) {
  std::size_t width = 0;
  for (const Call& call : operations(options))
    for (const bool in_place : options.in_place)
      for (const std::size_t offset : options.offsets)
        for (const Memory memory : options.memories)
          width = std::max(width, text_of({.collective = call.collective,
                                           .type = call.type,
                                           .op = call.op,
                                           .in_place = in_place,
                                           .offset = offset,
                                           .memory = memory})
                                      .size());
  return width;
}

constexpr const char* row_columns =
    "{:<{}} {:>6} {:>10}  {:<18} {:>7} {:>10}  {:<18} {:>9} {:>7}\n";

bool is_peer(const Result& result) { return result.name.starts_with("peer:"); }

/// Whether the result takes part in the race. A program may choose NCCL's ordinary buffers where
/// Plait's are symmetric, too.
bool races(const Result& result, const Race& race) {
  Race own = race_of(result);
  if (is_peer(result) && own.memory == Memory::ordinary) own.memory = race.memory;
  return own == race;
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
  const Result* one_sided = nullptr;  // it does less: no rank waits for what a get reads
  std::vector<std::string_view> named;
  for (const Result& result : results) {
    if (!races(result, race)) continue;
    improve(is_peer(result)             ? best.peer
            : result.name == "default"  ? best.selected
            : is_one_sided(result.name) ? one_sided
                                        : best.algorithm,
            result);
    named.emplace_back(result.name);
  }
  // The selection's choice counts as an algorithm if it was not measured under its own name.
  if (best.selected && std::find(named.begin(), named.end(), best.selected->chosen) == named.end())
    improve(best.algorithm, *best.selected);
  if (best.algorithm == nullptr) best.algorithm = one_sided;
  return best;
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

/// The elements of all results of a call.
std::size_t elements_of(const Result& result) {
  const Call& call = result.call;
  if (!result.moves_data()) return 0;
  const bool at_root =
      call.collective == Collective::reduce || call.collective == Collective::gather;
  return recv_bytes(call) / size_of(call.type) * static_cast<unsigned>(at_root ? 1 : result.ranks);
}

/// "1.23 million"; as it is below a hundred thousand.
std::string in_words(std::size_t number) {
  const auto exact = static_cast<double>(number);
  if (number < 100'000) return std::to_string(number);
  return exact < 1e9 ? fmt::format("{:.3g} million", exact / 1e6)
                     : fmt::format("{:.3g} billion", exact / 1e9);
}

std::string peer_of(const Machine& machine) { return machine.backend == "host" ? "MPI" : "NCCL"; }

/// Names of devices, each with its number if there are several.
std::string names_of(std::vector<std::string> devices) {
  std::sort(devices.begin(), devices.end());
  std::string text;
  for (auto from = devices.begin(), to = from; from != devices.end(); from = to) {
    to = std::upper_bound(from, devices.end(), *from);
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", to - from, *from);
  }
  return text;
}

void print_table_header(std::FILE* out, const Machine& machine, const Options& options) {
  if (machine.processes < static_cast<int>(machine.ranks.size()))
    fmt::print(out, "# ranks in {} {}\n", machine.processes,
               machine.processes == 1 ? "process" : "processes");
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

}  // namespace

Race race_of(const Result& result) {
  return {result.call.collective, result.call.type, result.call.op, result.bytes(),
          result.in_place,        result.offset,    result.memory};
}

void print_header(std::FILE* out, const Machine& machine, const Options& options) {
  fmt::print(out, "# plait {} on {}, {}: {} on {} ({}); MPI: {}{}\n", machine.version,
             machine.hostname, machine.date,
             machine.ranks.size() == 1 ? "1 rank" : fmt::format("{} ranks", machine.ranks.size()),
             names_of(machine.devices), machine.architecture, machine.mpi_version,
             machine.nccl_version.empty() ? "" : "; NCCL: " + machine.nccl_version);
  if (options.table || machine.nodes > 1)
    for (const std::string& rank : machine.ranks) fmt::print(out, "# {}\n", rank);
  if (options.table) return print_table_header(out, machine, options);
  fmt::print(out,
             "# {}: us, the median of {} repeats; GB/s: busbw; ratio: {}'s time over Plait's; "
             "--table has all rows\n",
             name_of(options.timing), options.repeats, peer_of(machine));
  print_row_names(out, machine, options);
}

void print_row_names(std::FILE* out, const Machine& machine, const Options& options) {
  fmt::print(out, row_columns, "# call", text_width(options), "size", "default us", "by", "GB/s",
             "best us", "by", fmt::format("{} us", peer_of(machine)), "ratio");
  std::fflush(out);
}

void print_row(std::FILE* out, const Race& race, const std::vector<Result>& results,
               const Options& options) {
  const Winners best = winners(results, race);
  const Result* const own = best.selected ? best.selected : best.algorithm;
  if (!own && !best.peer) return;
  const bool same = best.algorithm == best.selected;
  const auto time_of = [](const Result* result) {
    return result ? microseconds(result->time_us()) : "-";
  };
  fmt::print(
      out, row_columns, text_of(race), text_width(options),
      own && !own->moves_data() ? "-" : format_bytes(race.bytes), time_of(best.selected),
      best.selected ? best.selected->chosen : "-", own ? bandwidth(*own, own->busbw()) : "-",
      same ? "-" : time_of(best.algorithm), same ? "-" : full_name(*best.algorithm),
      time_of(best.peer),
      own && best.peer ? fmt::format("{:.2f}x", best.peer->time_us() / own->time_us()) : "-");
  for (const Result& result : results)
    if (races(result, race) && result.wrong.value_or(0) != 0)
      fmt::print(out, "  WRONG: {} elements of {}\n", *result.wrong, full_name(result));
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

void print_verdict(std::FILE* out, const std::vector<Result>& results) {
  std::size_t checked = 0;
  for (const Result& result : results)
    if (result.wrong) checked += elements_of(result);
  const std::size_t wrong = total_wrong(results);
  if (std::any_of(results.begin(), results.end(),
                  [](const Result& result) { return result.wrong.has_value(); }))
    fmt::print(out, "# checked: {} elements, {} wrong{}\n", in_words(checked), wrong,
               wrong ? "  <-- FAILED" : "");
  else fmt::print(out, "# results were not checked\n");
}

std::size_t total_wrong(const std::vector<Result>& results) {
  return std::accumulate(
      results.begin(), results.end(), std::size_t{0},
      [](std::size_t sum, const Result& result) { return sum + result.wrong.value_or(0); });
}

}  // namespace plait::bench
