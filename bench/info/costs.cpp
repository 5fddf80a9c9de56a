#include "bench/info/costs.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/catalog.hpp"
#include "bench/info/json_file.hpp"
#include "bench/info/machines.hpp"
#include "communicator/setup.hpp"
#include "plait/error.hpp"

namespace plait::info {
namespace {

using Json = nlohmann::ordered_json;

/// Ranks that share the bandwidth.
double share_of(const Fact& fact, const Topology& topology) {
  return fact.bandwidth ? topology.ranks_per_device : 1;
}

Json costs_of(const Algorithm& algorithm, const Call& call, Topology topology) {
  for (const Fact& fact : link_facts)
    topology.*fact.field = fact.bandwidth ? std::numeric_limits<double>::infinity() : 0;
  const double constant = algorithm.estimate(call, topology);
  Json costs = {{"constant", constant}};
  for (const Fact& fact : link_facts) {
    Topology one = topology;
    one.*fact.field = 1;
    costs[fact.name] = (algorithm.estimate(call, one) - constant) * share_of(fact, topology);
  }
  return costs;
}

Topology machine(const Json& machine, bool shared) {
  const int ranks = machine.at("ranks");
  if (parse_backend(machine.at("backend").get<std::string>()) != BackendKind::host) {
    Topology topology = gpus(ranks);
    if (shared) {
      share_bandwidth(topology, ranks);
      topology.units /= static_cast<unsigned>(ranks);
      topology.line_threads = 0;
    }
    return topology;
  }
  for (const BackendFacts& backend : list_backends()) {
    if (backend.kind != BackendKind::host) continue;
    Topology topology = topology_of(backend, ranks);
    topology.peer_reads = true;  // if they could not, there are no such results
    return topology;
  }
  throw Error(ErrorCode::unsupported, "this build has no host target");
}

Json costs_of_results(const Json& document, bool shared) {
  const Topology topology = machine(document.at("machine"), shared);
  Json model = Json::object(), results = Json::array();
  for (const Fact& fact : link_facts)
    model[fact.name] = topology.*fact.field * share_of(fact, topology);
  for (const Json& result : document.at("results")) {
    const auto collective = parse_collective(result.at("collective").get<std::string>());
    const Algorithm* algorithm =
        Registry::instance().find(result.at("name").get<std::string>(), collective);
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
    row["costs"] = costs_of(*algorithm, call, topology);
    results.push_back(row);
  }
  return {{"facts", model}, {"results", results}};
}

}  // namespace

std::string costs(const std::string& file, bool shared) {
  return with_json_file(file, "no file of results", [&](const Json& document) {
    return costs_of_results(document, shared).dump() + "\n";
  });
}

}  // namespace plait::info
