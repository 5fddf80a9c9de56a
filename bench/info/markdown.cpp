#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/output.hpp"
#include "communicator/selection/selection.hpp"
#include "core/environment.hpp"

namespace plait::info {
namespace {

std::vector<const Algorithm*> own_algorithms() {
  std::vector<const Algorithm*> result;
  for (const auto& algorithm : Registry::instance().all())
    if (Registry::instance().file_of(*algorithm).empty()) result.push_back(algorithm.get());
  return result;
}

std::string table(std::string_view name, const std::vector<std::string_view>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string text = fmt::format("<!-- table: {} -->\n| {} |\n|", name, fmt::join(columns, " | "));
  for (std::size_t i = 0; i < columns.size(); ++i) text += " --- |";
  for (const auto& row : rows) text += fmt::format("\n| {} |", fmt::join(row, " | "));
  return text + "\n";
}

/// What the table of algorithms says about an algorithm and a collective.
struct Facts {
  std::string memory, needs{};
  std::vector<std::string> scratch{};
  std::string shares{}, nodes{};
  friend bool operator==(const Facts&, const Facts&) = default;
};

/// The types and operations that an algorithm does not serve. `refuses(change)` asks the algorithm
/// about its best call with a change; `best`: the type of that call.
template <class Refuses>
std::vector<std::string> gaps_of(const Refuses& refuses, DataType best) {
  std::vector<std::string> gaps;
  // The types behind these are made of them (`in_words`), or they are rare.
  constexpr auto common_types = static_cast<int>(DataType::boolean);
  std::vector<std::string> integers, floats;
  for (int number = 0; number < common_types; ++number) {
    const auto type = static_cast<DataType>(number);
    if (refuses([&](Topology&, Call& call) { call.type = type; }))
      (is_float(type) ? floats : integers).push_back(fmt::format("no {}", name_of(type)));
  }
  constexpr auto all_integers = static_cast<std::size_t>(DataType::f16);  // they come first
  const std::size_t served = common_types - integers.size() - floats.size();
  if (integers.size() == all_integers) integers = {"floats"};
  if (served == 1) {
    gaps.emplace_back(name_of(best));
  } else {
    for (const auto* types : {&integers, &floats})
      gaps.insert(gaps.end(), types->begin(), types->end());
  }
  std::vector<std::string> ops;
  for (const ReduceOp op : {ReduceOp::prod, ReduceOp::min, ReduceOp::max})
    if (refuses([&](Topology&, Call& call) { call.op = op; }))
      ops.push_back(fmt::format("no {}", name_of(op)));
  if (ops.size() == 3) ops = {"sums"};
  gaps.insert(gaps.end(), ops.begin(), ops.end());
  return gaps;
}

Facts facts_about(const Algorithm& algorithm) {
  Topology able = gpus(4);
  able.peer_reads = true;  // true for CPUs alone; so each algorithm has a machine that serves it
  Call best{.collective = algorithm.collective(),
            .count = 1024,
            .symmetric = true,
            .parts = parts_of(algorithm.collective(), able.ranks)};
  const bool only_nodes = !algorithm.supports(best, able) && algorithm.spans_nodes();
  if (only_nodes) able.nodes = able.rails = able.node_ranks = 2;
  const auto refuses = [&](const auto& change) {
    Topology topology = able;
    Call call = best;
    change(topology, call);
    return !algorithm.supports(call, topology);
  };
  std::vector<std::string> needs;
  const auto need = [&](std::string what, const auto& change) {
    if (refuses(change)) needs.push_back(std::move(what));
  };
  if (!only_nodes)
    need("two ranks", [](Topology& topology, Call& call) { topology.ranks = call.parts = 1; });
  need("peer access", [](Topology& topology, Call&) { topology.peer_access = false; });
  need("lines", [](Topology& topology, Call&) { topology.line_threads = 0; });
  need("peer reads", [](Topology& topology, Call&) { topology.peer_reads = false; });
  need("whole packs", [](Topology&, Call& call) { call.count = 1; });
  need("equal nodes", [](Topology& topology, Call&) {
    topology.rails = 1;
    topology.node_ranks = 3;
  });
  for (std::string& gap : gaps_of(refuses, best.type)) needs.push_back(std::move(gap));

  const bool any = !refuses([](Topology&, Call& call) { call.symmetric = false; });
  Facts facts{.memory = any ? "any" : "symmetric"};
  if (refuses([](Topology&, Call& call) { call.in_place = true; }))
    facts.memory += ", out of place";
  facts.needs = fmt::format("{}", fmt::join(needs, ", "));
  const SharedResources shared = algorithm.shared(able);
  if (algorithm.resources(able).scratch_bytes != 0) facts.scratch.emplace_back("own");
  if (shared.resources.scratch_bytes != 0)
    facts.scratch.emplace_back(shared.name == algorithm.name() ? "own" : shared.name);
  facts.shares = algorithm.batches(able) ? "yes" : "";
  if (algorithm.spans_nodes()) facts.nodes = only_nodes ? "only" : "yes";
  return facts;
}

/// The rare types that the algorithm reduces: all, or those up to a size.
std::string rare_types_of(const Algorithm& algorithm) {
  if (!facts_of(algorithm.collective()).reduces) return "";
  Topology topology = gpus(4);
  topology.peer_reads = true;
  const auto serves = [&](DataType type, ReduceOp op) {
    return static_cast<bool>(algorithm.supports({.collective = algorithm.collective(),
                                                 .type = type,
                                                 .op = op,
                                                 .count = 1024,
                                                 .symmetric = true,
                                                 .parts = parts_of(algorithm.collective(), 4)},
                                                topology));
  };
  std::vector<std::string_view> served;
  std::size_t largest = 0, smallest_refused = std::numeric_limits<std::size_t>::max();
  for (const auto& [type, op] : rare_types()) {
    if (serves(type, op)) {
      served.push_back(name_of(type));
      largest = std::max(largest, size_of(type));
    } else {
      smallest_refused = std::min(smallest_refused, size_of(type));
    }
  }
  if (served.empty()) return "";
  if (served.size() == rare_types().size()) return "yes";
  return largest < smallest_refused ? fmt::format("up to {} bytes", largest)
                                    : fmt::format("{}", fmt::join(served, ", "));
}

/// Whether a call on so many ranks keeps that order.
bool keeps(SumOrder order, const Algorithm& algorithm, int ranks) {
  const Call call{.collective = algorithm.collective(),
                  .count = 1024,
                  .symmetric = true,
                  .in_place = true,
                  .parts = parts_of(algorithm.collective(), ranks)};
  if (!facts_of(call.collective).reduces) return false;
  if (order == SumOrder::ranks) return algorithm.reduces_in_rank_order(call, gpus(ranks));
  return !is_scan(call.collective) && algorithm.reduces_in_tree(call, gpus(ranks));
}
std::string ordered_calls(const Algorithm& algorithm) {
  if (keeps(SumOrder::ranks, algorithm, 4)) return "yes";
  return keeps(SumOrder::ranks, algorithm, 2) ? "two ranks" : "";
}
std::string tree_calls(const Algorithm& algorithm) {
  if (keeps(SumOrder::tree, algorithm, 3)) return "yes";
  return keeps(SumOrder::tree, algorithm, 4) ? "powers of two" : "";
}

/// The tables of algorithms.
constexpr std::array<std::string_view, 5> groups = {"all-reduce", "other collectives", "messages",
                                                    "between nodes", "barriers"};
std::size_t group_of(Collective collective, const Facts& facts) {
  if (facts.nodes == "only") return 3;
  if (collective == Collective::barrier) return 4;
  if (collective == Collective::send_recv) return 2;
  return collective == Collective::all_reduce ? 0 : 1;
}

/// Collectives for which an algorithm has the same facts share a row of a table.
struct Row {
  const Algorithm* algorithm;
  Facts facts;
  std::size_t group;
  std::vector<std::string_view> collectives{};
  std::vector<std::string> ordered{}, tree{}, rare{};  // of each collective
};

std::vector<Row> rows_of_algorithms() {
  std::vector<Row> rows;
  for (const Algorithm* algorithm : own_algorithms()) {
    const Facts facts = facts_about(*algorithm);
    const std::size_t group = group_of(algorithm->collective(), facts);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
      return other.algorithm->name() == algorithm->name() && other.group == group &&
             other.facts == facts;
    });
    if (row == rows.end()) row = rows.insert(row, {algorithm, facts, group});
    row->collectives.push_back(name_of(algorithm->collective()));
    row->ordered.push_back(ordered_calls(*algorithm));
    row->tree.push_back(tree_calls(*algorithm));
    row->rare.push_back(rare_types_of(*algorithm));
  }
  return rows;
}

/// Without the columns in which all rows are alike: the text around the table says that.
std::string table_of_group(std::size_t group, const std::vector<Row>& rows) {
  std::vector<std::string_view> columns{"algorithm", "collectives", "memory", "needs", "how"};
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows)
    if (row.group == group)
      cells.push_back({fmt::format("`{}`", row.algorithm->name()),
                       fmt::format("{}", fmt::join(row.collectives, ", ")), row.facts.memory,
                       row.facts.needs, std::string(row.algorithm->summary())});
  for (std::ptrdiff_t i = std::ssize(columns) - 1; i > 0; --i) {
    const auto is_first = [&](const auto& row) {
      return row[static_cast<std::size_t>(i)] == cells[0][static_cast<std::size_t>(i)];
    };
    if (!std::all_of(cells.begin(), cells.end(), is_first)) continue;
    columns.erase(columns.begin() + i);
    for (auto& row : cells) row.erase(row.begin() + i);
  }
  return table(fmt::format("algorithms: {}", groups[group]), columns, cells);
}

/// Each further fact, with the algorithms of which it is true.
std::string table_of_facts(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> cells;
  const auto add = [&](std::string_view what, const auto& words_of) {
    std::map<std::string, std::set<std::string_view>> names;  // "yes" comes first
    for (const Row& row : rows)
      for (const std::string& word : words_of(row))
        if (!word.empty()) names[word == "yes" ? "" : ": " + word].insert(row.algorithm->name());
    for (const auto& [word, all] : names)
      cells.push_back(
          {fmt::format("{}{}", what, word), fmt::format("`{}`", fmt::join(all, "`, `"))});
  };
  using Words = std::vector<std::string>;
  add("scratch", [](const Row& row) { return row.facts.scratch; });
  add("in groups", [](const Row& row) { return Words{row.facts.shares}; });
  add("several nodes", [](const Row& row) { return Words{row.facts.nodes == "yes" ? "yes" : ""}; });
  add("rank order", [](const Row& row) { return row.ordered; });
  add("tree", [](const Row& row) { return row.tree; });
  add("rare types", [](const Row& row) { return row.rare; });
  return table("facts", {"fact", "algorithms"}, cells);
}

/// One table per group, and one of facts.
std::string tables_of_algorithms() {
  const std::vector<Row> rows = rows_of_algorithms();
  std::string text;
  for (std::size_t group = 0; group < groups.size(); ++group)
    text += table_of_group(group, rows) + "\n";
  return text + table_of_facts(rows);
}

constexpr std::size_t kilobyte = 1024;
std::string size_name(std::size_t bytes) {
  return bytes % kilobyte == 0 ? format_bytes(bytes) : fmt::format("{}", bytes);
}

/// The choices for one collective and kind of memory, from the smallest message to the largest:
/// "`oneshot_ll`, 48K: `ring`" is ring from 48 KB on.
std::string choices(const Selector& selector, Call call) {
  const auto ranks = static_cast<std::size_t>(selector.topology().ranks);
  call.parts = parts_of(call.collective, selector.topology().ranks);
  call.type = DataType::f8e4m3;
  // Sizes are multiples of a whole pack per rank, so no algorithm refuses one for its size.
  const std::size_t unit = 64 * ranks;
  const auto chosen = [&](std::size_t units) {
    call.count = units * unit / static_cast<unsigned>(call.parts);
    return selector.choose(call, {}).algorithm->name();
  };
  std::size_t at = 1;
  std::string_view last = chosen(at);
  std::string text = fmt::format("`{}`", last);
  const std::size_t end = (std::size_t{16} << 30) / unit;
  while (at < end) {
    std::size_t next =
        at + std::max<std::size_t>(at / 16, 1);  // no rule ends within so short a step
    if (chosen(next) == last) {
      at = next;
      continue;
    }
    while (next - at > 1) {
      const std::size_t middle = at + (next - at) / 2;
      (chosen(middle) == last ? at : next) = middle;
    }
    at = next;
    last = chosen(at);
    text += fmt::format(", {}: `{}`", size_name(at * unit), last);
  }
  return text;
}

/// One row per collective.
std::string table_of_choices(std::string_view name, const Topology& topology,
                             const std::vector<bool>& kinds_of_memory) {
  const Selector selector(topology, own_algorithms());
  std::vector<std::string_view> columns{"collective"};
  for (const bool symmetric : kinds_of_memory)
    columns.emplace_back(symmetric ? "symmetric memory" : "ordinary memory");
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (collective == Collective::barrier) continue;
    std::vector<std::string> row{std::string(name_of(collective))};
    for (const bool symmetric : kinds_of_memory)
      row.push_back(choices(selector, {.collective = collective, .symmetric = symmetric}));
    rows.push_back(std::move(row));
  }
  return table(name, columns, rows);
}

}  // namespace

std::string markdown() {
  const std::vector<bool> both{true, false}, ordinary{false};
  return tables_of_algorithms() + "\n" + table_of_choices("choices on 2 GPUs", gpus(2), both) +
         "\n" + table_of_choices("choices on 4 GPUs", gpus(4), both) + "\n" +
         table_of_choices("choices on 2 CPU ranks", cpus(2), ordinary) + "\n" +
         table_of_choices("choices on 4 CPU ranks", cpus(4), ordinary);
}

}  // namespace plait::info
