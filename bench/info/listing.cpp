#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/output.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait::info {
namespace {

void print_links(const BackendFacts& facts) {
  if (facts.links.empty()) return;
  fmt::print("        direct links\n");
  for (std::size_t a = 0; a < facts.links.size(); ++a) {
    fmt::print("          device {:<3}", facts.devices[a].ordinal);
    for (std::size_t b = 0; b < facts.links.size(); ++b)
      fmt::print("{:>4}", a == b ? "-" : std::to_string(facts.links[a][b]));
    fmt::print("\n");
  }
  fmt::print("          the ring's order: {}\n", fmt::join(ring_order(facts.links), ","));
}

void print_backend(const BackendFacts& facts) {
  fmt::print("  {:<5} {}\n", name_of(facts.kind),
             !facts.built            ? "not built"
             : facts.devices.empty() ? "built, no device"
                                     : "built");
  for (const DeviceInfo& device : facts.devices) {
    fmt::print("        device {}: {} ({}), {} units, {:.1f} GiB, id {}\n", device.ordinal,
               device.name, device.architecture, device.facts.units,
               static_cast<double>(device.memory) / (1 << 30), device.id);
    fmt::print(
        "          links as estimates assume them: {:.0f} GB/s out of the device, a flag {:.2f} "
        "us, a call in a graph {:.2f} us more\n",
        device.facts.link_bandwidth / 1e3, device.facts.hop_us, device.facts.launch_us);
  }
  print_links(facts);
  if (facts.built && !facts.why_none.empty()) fmt::print("        {}\n", facts.why_none);
}

/// How many of its types and operations an algorithm serves, from most to least.
enum class Extent { all, most, common, some, none };
std::string_view name_of(Extent extent) {
  constexpr std::array<std::string_view, 5> names = {"all", "most", "common", "some", "none"};
  return names[static_cast<std::size_t>(extent)];
}

Extent extent_of(const Coverage& coverage) {
  if (coverage.nothing()) return Extent::none;
  if (coverage.everything()) return Extent::all;
  if (!coverage.refused.empty()) return Extent::some;
  return coverage.rare.empty() ? Extent::common : Extent::most;
}

/// What a row says of the algorithms of one name, one for each collective.
struct ListedAlgorithm {
  std::string name, file;
  std::vector<std::string_view> collectives;  // those with a call that is served here
  bool any_memory = true;
  Extent extent = Extent::all;  // the least of them
  std::string why_not;          // of a sum of f32, or else of any call
};

std::string reason_of(const Coverage& coverage) {
  for (const auto& [reason, calls] : coverage.refused)
    if (std::find(calls.begin(), calls.end(), "f32 sum") != calls.end()) return reason;
  return coverage.refused.empty() ? "" : coverage.refused.begin()->first;
}

std::vector<ListedAlgorithm> rows_of(const std::vector<AlgorithmFacts>& algorithms) {
  std::vector<ListedAlgorithm> rows;
  for (const AlgorithmFacts& facts : algorithms) {
    if (rows.empty() || rows.back().name != facts.name)
      rows.push_back({.name = facts.name, .file = facts.file, .collectives = {}, .why_not = {}});
    ListedAlgorithm& row = rows.back();
    const Coverage& best = facts.symmetric.nothing() ? facts.ordinary : facts.symmetric;
    if (best.nothing()) {
      row.why_not = reason_of(best);
      continue;
    }
    row.collectives.push_back(name_of(facts.collective));
    row.any_memory &= !facts.ordinary.nothing();
    row.extent = std::max(row.extent, extent_of(best));
  }
  return rows;
}

/// "all_gather broadcast", or "all but barrier".
std::string list_of(const std::vector<std::string_view>& collectives) {
  if (collectives.size() + 3 < collective_count)
    return fmt::format("{}", fmt::join(collectives, " "));
  std::vector<std::string_view> others;
  for (int i = 0; i < collective_count; ++i) {
    const std::string_view name = name_of(static_cast<Collective>(i));
    if (std::find(collectives.begin(), collectives.end(), name) == collectives.end())
      others.push_back(name);
  }
  return fmt::format("all but {}", fmt::join(others, " "));
}

void print_algorithms(const std::vector<AlgorithmFacts>& algorithms) {
  constexpr const char* columns = "  {:<20} {:<10} {:<7} {}\n";
  fmt::print(columns, "name", "memory", "types", "collectives");
  std::map<std::string, std::vector<std::string_view>> absent;
  const std::vector<ListedAlgorithm> rows = rows_of(algorithms);
  for (const ListedAlgorithm& row : rows) {
    if (row.collectives.empty()) absent[row.why_not].push_back(row.name);
    else
      fmt::print(columns, row.name, row.any_memory ? "any" : "symmetric", name_of(row.extent),
                 list_of(row.collectives));
  }
  for (const auto& [reason, names] : absent)
    fmt::print("  not here: {}: {}\n", fmt::join(names, " "), reason);
  for (const ListedAlgorithm& row : rows)
    if (!row.file.empty()) fmt::print("  {} is a plug-in's: {}\n", row.name, row.file);
}

/// "i8 sum, i8 max, u8 sum" as "i8 sum max, u8 sum".
std::string by_type(const std::vector<std::string>& calls) {
  std::string text;
  std::string_view last;
  for (const std::string_view call : calls) {
    const std::size_t space = call.find(' ');
    if (call.substr(0, space) == last) text += call.substr(space);
    else text += fmt::format("{}{}", text.empty() ? "" : ", ", call);
    last = call.substr(0, space);
  }
  return text;
}

void print_coverage(const char* memory, const Coverage& coverage) {
  std::vector<std::string_view> rare;
  if (extent_of(coverage) == Extent::most)
    for (const DataType type : coverage.rare) rare.push_back(plait::name_of(type));
  fmt::print("  {} memory: {}{}{}\n", memory, name_of(extent_of(coverage)),
             rare.empty() ? "" : ": the common types, ", fmt::join(rare, ", "));
  for (const auto& [reason, calls] : coverage.refused)
    fmt::print("    not {}: {}\n",
               coverage.nothing() && coverage.refused.size() == 1 ? "here" : by_type(calls),
               reason);
}

std::string names_of_types() {
  std::string list;
  for (int i = 0; i < data_type_count; ++i)
    list += fmt::format("{}{}", i ? " " : "", name_of(static_cast<DataType>(i)));
  return list;
}

/// Operations that are for the same types share a line.
void print_operations() {
  fmt::print("operations\n");
  std::vector<std::pair<std::string_view, std::string>> lines;
  for (int i = 0; i < reduce_op_count; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    const auto line = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& other) { return other.first == needs(op); });
    if (line == lines.end()) lines.emplace_back(needs(op), name_of(op));
    else line->second += fmt::format(" {}", name_of(op));
  }
  for (const auto& [elements, ops] : lines) fmt::print("  {:<16} for {}\n", ops, elements);
}

std::string names_of_rare_types() {
  std::vector<std::string> names;
  for (const auto& [type, op] : rare_types())
    names.push_back(is_complex(type) ? fmt::format("{} ({})", name_of(type), name_of(op))
                                     : std::string(name_of(type)));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void print_listing(const std::vector<BackendFacts>& backends, const Topology& topology,
                   const std::vector<AlgorithmFacts>& algorithms) {
  fmt::print("plait {}\n\nbackends\n", PLAIT_VERSION);
  for (const BackendFacts& facts : backends) print_backend(facts);
  fmt::print("\ntypes\n  {}\n\n", names_of_types());
  print_operations();
  fmt::print("\nalgorithms, for {} ranks on {}{}{}, scratch {}\n", topology.ranks,
             name_of(topology.backend), topology.architecture.empty() ? "" : ", ",
             topology.architecture, format_bytes(topology.scratch_limit));
  print_algorithms(algorithms);
  fmt::print("  common types: all but {}\n", names_of_rare_types());
  fmt::print("  plait-info --why NAME: what an algorithm does, and why it serves no more\n");
}

void print_why(const std::vector<AlgorithmFacts>& algorithms, const std::string& name) {
  bool found = false;
  for (const AlgorithmFacts& facts : algorithms) {
    if (facts.name != name) continue;
    found = true;
    fmt::print("{} for {}: {}\n", facts.name, name_of(facts.collective), facts.summary);
    if (facts.collective == Collective::barrier) continue;
    const bool same = facts.symmetric.served == facts.ordinary.served &&
                      facts.symmetric.refused == facts.ordinary.refused;
    print_coverage(same ? "any" : "symmetric", facts.symmetric);
    if (!same) print_coverage("ordinary", facts.ordinary);
  }
  if (!found)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--why {}: there is no algorithm of that name", in_quotes(name)));
}

}  // namespace plait::info
