// Estimates, and by what they are corrected on machines that the formulas were not made for.
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "communicator/selection/selection.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

/// The factors on one kind of machine.
class FactorTable {
 public:
  /// `row`: NAME=FIXED,BYTES.
  void add(Collective collective, std::string_view row) {
    const auto equals = row.find('='), comma = row.find(',');
    const EstimateFactors factors{
        parse_number<double>(row.substr(equals + 1, comma - equals - 1)).value(),
        parse_number<double>(row.substr(comma + 1)).value()};
    rows_[{collective, row.substr(0, equals)}] = factors;
    Logarithms& sums = sums_[collective];
    ++sums.rows;
    sums.fixed += std::log(factors.fixed);
    sums.bytes += std::log(factors.bytes);
  }
  EstimateFactors find(const Algorithm& algorithm) const {
    for (const std::string_view name : {algorithm.name(), algorithm.family()})
      if (const auto row = rows_.find({algorithm.collective(), name}); row != rows_.end())
        return row->second;
    const auto found = sums_.find(algorithm.collective());
    if (found == sums_.end()) return {};
    const auto& [rows, fixed, bytes] = found->second;
    return {std::exp(fixed / rows), std::exp(bytes / rows)};
  }

 private:
  struct Logarithms {
    int rows = 0;
    double fixed = 0, bytes = 0;
  };
  std::map<std::pair<Collective, std::string_view>, EstimateFactors> rows_;
  std::map<Collective, Logarithms> sums_;
};

/// By the words in brackets above each table. The text is the library's own, so it has no mistakes.
std::map<std::string_view, FactorTable> read_tables(std::string_view text) {
  std::map<std::string_view, FactorTable> tables;
  FactorTable* table = nullptr;
  Collective collective{};
  for (const std::string_view line : lines_of(text)) {
    if (line.starts_with('[')) {
      table = &tables[line.substr(1, line.size() - 2)];
      continue;
    }
    for (const std::string_view word : words(line)) {
      if (word.ends_with(':')) collective = parse_collective(word.substr(0, word.size() - 1));
      else table->add(collective, word);
    }
  }
  return tables;
}

/// The words in brackets; empty: the formulas hold as they are.
std::string_view table_for(const Topology& topology) {
  if (topology.nodes > 1 || topology.ranks == 1) return {};
  const int sharing = topology.ranks_per_device;
  if (topology.backend == BackendKind::host)
    return sharing == 1 ? "CPU ranks with a processor each" : "CPU ranks in turns";
  if (sharing == 1) return {};
  return sharing == 2 ? "2 ranks on one GPU" : "3 or more ranks on one GPU";
}

}  // namespace

EstimateFactors Selector::factors(const Algorithm& algorithm, const Topology& topology) {
  static const auto tables = read_tables(builtin_factors_text);
  const auto table = tables.find(table_for(topology));
  return table == tables.end() ? EstimateFactors{} : table->second.find(algorithm);
}

double Selector::estimate(const Algorithm& algorithm, const Call& call, const Topology& topology) {
  const double us = algorithm.estimate(call, topology);
  const EstimateFactors corrected = factors(algorithm, topology);
  if ((corrected.fixed == 1 && corrected.bytes == 1) || std::isinf(us)) return us;
  Topology unlimited = topology;
  unlimited.link_bandwidth = unlimited.push_bandwidth = unlimited.packet_bandwidth =
      unlimited.copy_bandwidth = std::numeric_limits<double>::infinity();
  const double fixed = algorithm.estimate(call, unlimited);
  return corrected.fixed * fixed + corrected.bytes * (us - fixed);
}

}  // namespace plait
