#include "bench/info/costs.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/catalog.hpp"
#include "bench/info/json_file.hpp"
#include "bench/info/machines.hpp"
#include "communicator/selection/selection.hpp"
#include "communicator/setup.hpp"
#include "plait/error.hpp"

namespace plait::info {
namespace {

using Json = nlohmann::ordered_json;

struct Machine {
  Topology topology;
  DeviceFacts whole;  // the link model before the ranks share a device
};

/// By how much an estimate counts a number of `Machine::whole` more often than its share.
double share_of(const Fact& fact, const Machine& machine) {
  const double whole = machine.whole.*fact.field, share = machine.topology.*fact.field;
  return fact.bandwidth ? whole / share : share / whole;
}

Json costs_of(const Algorithm& algorithm, const Call& call, const Machine& machine) {
  Topology topology = machine.topology;
  for (const Fact& fact : link_facts)
    topology.*fact.field = fact.bandwidth ? std::numeric_limits<double>::infinity() : 0;
  const double constant = algorithm.estimate(call, topology);
  const EstimateFactors factors = Selector::factors(algorithm, topology);
  Json costs = {{"constant", constant * factors.fixed}};
  for (const Fact& fact : link_facts) {
    Topology one = topology;
    one.*fact.field = 1;
    costs[fact.name] = (algorithm.estimate(call, one) - constant) * share_of(fact, machine) *
                       (fact.bandwidth ? factors.bytes : factors.fixed);
  }
  return costs;
}

Machine read_machine(const Json& machine, bool shared, int processors) {
  const int ranks = machine.at("ranks");
  if (parse_backend(machine.at("backend").get<std::string>()) != BackendKind::host) {
    Topology topology = gpus(ranks);
    if (shared) {
      share_bandwidth(topology, ranks);
      topology.units /= static_cast<unsigned>(ranks);
      topology.line_threads = 0;
    }
    DeviceFacts whole = topology;
    for (const Fact& fact : link_facts)
      if (fact.bandwidth) whole.*fact.field *= topology.ranks_per_device;
    return {topology, whole};
  }
  for (const BackendFacts& backend : list_backends()) {
    if (backend.kind != BackendKind::host) continue;
    Topology topology = topology_of(backend, ranks);
    topology.peer_reads = true;  // if they could not, there are no such results
    const DeviceFacts whole = topology;
    if (processors != 0) take_turns(topology, static_cast<double>(ranks) / processors);
    return {topology, whole};
  }
  throw Error(ErrorCode::unsupported, "this build has no host target");
}

Json costs_of_results(const Json& document, bool shared, int processors) {
  const Machine machine = read_machine(document.at("machine"), shared, processors);
  const Topology& topology = machine.topology;
  Json model = Json::object(), results = Json::array();
  for (const Fact& fact : link_facts) model[fact.name] = machine.whole.*fact.field;
  for (const Json& result : document.at("results")) {
    const auto collective = parse_collective(result.at("collective").get<std::string>());
    const auto name = result.at("name").get<std::string>();
    const Algorithm* algorithm = Registry::instance().find(
        name == "default" ? result.value("chosen", std::string()) : name, collective);
    if (algorithm == nullptr) continue;                  // of a peer, or no longer there
    if (result.value("offset_bytes", 0) != 0) continue;  // estimates know no alignment
    Call call{.collective = collective,
              .type = parse_data_type(result.at("type").get<std::string>()),
              .symmetric = result.at("memory") == "symmetric",
              .parts = parts_of(collective, topology.ranks)};
    call.count = count_within(call, result.at("bytes"));
    call.in_place = call.symmetric && result.at("in_place").get<bool>();
    if (!algorithm->supports(call, topology) || !std::isfinite(algorithm->estimate(call, topology)))
      continue;
    Json row = result;
    const EstimateFactors factors = Selector::factors(*algorithm, topology);
    row["algorithm"] = algorithm->name();
    row["costs"] = costs_of(*algorithm, call, machine);
    row["factors"] = {{"fixed", factors.fixed}, {"bytes", factors.bytes}};
    results.push_back(row);
  }
  return {{"facts", model}, {"results", results}};
}

}  // namespace

std::string costs(const std::string& file, bool shared, int processors) {
  return with_json_file(file, "no file of results", [&](const Json& document) {
    return costs_of_results(document, shared, processors).dump() + "\n";
  });
}

}  // namespace plait::info
