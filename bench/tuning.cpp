#include "bench/tuning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_rules.hpp"

namespace plait::bench {
namespace {

constexpr double noise = 0.01;

std::vector<MeasuredCall> measured_calls(const std::vector<Result>& results) {
  std::vector<MeasuredCall> calls;
  for (const Result& result : results) {
    if (Registry::instance().find(result.name, result.call.collective) == nullptr)
      continue;  // "default", a peer, a policy
    // Rules are for sizes, and know no alignment.
    if (!result.moves_data() || result.offset != 0) continue;
    calls.push_back({.call = result.call,
                     .in_place = result.in_place,
                     .algorithm = result.name,
                     .microseconds = result.time_us()});
    calls.back().call.symmetric = result.memory == Memory::symmetric;
  }
  return calls;
}

}  // namespace

std::string tuning_rules(const std::vector<Result>& results, const Machine& machine) {
  const std::set<std::string> devices(machine.devices.begin(), machine.devices.end());
  return fmt::format("# plait {}, {}, {}\n# {}\n[{} {} on {}]\n{}", machine.version,
                     fmt::join(devices, ", "), machine.date, machine.command_line,
                     machine.ranks.size(), machine.ranks.size() == 1 ? "rank" : "ranks",
                     machine.architecture, measured_rules(measured_calls(results), noise));
}

}  // namespace plait::bench
