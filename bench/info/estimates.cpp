#include "bench/info/estimates.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/json_file.hpp"
#include "bench/info/machines.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::info {
namespace {

using Json = nlohmann::ordered_json;

void set_fact(Topology& topology, const std::string& name, double value) {
  for (const Fact& fact : link_facts)
    if (fact.name == name) {
      topology.*fact.field = value;
      return;
    }
  if (name == "latency_us") topology.network.latency_us = value;
  else if (name == "message_us") topology.network.message_us = value;
  else if (name == "bandwidth") topology.network.bandwidth = value;
  else
    throw Error(ErrorCode::invalid_argument, fmt::format("there is no fact {}", in_quotes(name)));
}

Json estimates_of_call(const Json& wanted, const Json& document) {
  const int nodes = wanted.at("nodes"), per_node = wanted.at("ranks_per_node");
  Topology topology =
      document.at("gpus").get<bool>() ? gpus(nodes * per_node) : cpus(nodes * per_node);
  topology.nodes = nodes;
  topology.rails = topology.node_ranks = per_node;
  topology.scratch_limit = document.at("scratch_bytes");
  for (const auto& [name, value] : document.at("facts").items()) set_fact(topology, name, value);
  const auto collective = parse_collective(wanted.at("collective").get<std::string>());
  Call call{.collective = collective,
            .type = DataType::f32,
            .parts = parts_of(collective, topology.ranks)};
  call.count = count_within(call, wanted.at("bytes"));
  Json row = Json::object();
  for (const auto& algorithm : Registry::instance().all()) {
    if (algorithm->collective() != collective || !can_serve(*algorithm, call, topology)) continue;
    const double estimate = algorithm->estimate(call, topology);
    if (std::isfinite(estimate)) row[std::string(algorithm->name())] = estimate;
  }
  return row;
}

}  // namespace

std::string estimates(const std::string& file) {
  return with_json_file(file, "no file of calls", [](const Json& document) {
    Json rows = Json::array();
    for (const Json& call : document.at("calls")) rows.push_back(estimates_of_call(call, document));
    return rows.dump() + "\n";
  });
}

}  // namespace plait::info
