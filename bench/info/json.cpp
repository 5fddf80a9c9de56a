#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/output.hpp"
#include "communicator/resources/setup.hpp"
#include "communicator/selection/selection.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait::info {
namespace {

using Json = nlohmann::ordered_json;

// --- the catalogue

Json to_json(const BackendFacts& facts) {
  Json devices = Json::array();
  for (const DeviceInfo& device : facts.devices)
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", device.name},
                       {"architecture", device.architecture},
                       {"id", device.id},
                       {"units", device.facts.units},
                       {"memory_bytes", device.memory},
                       {"model",
                        {{"launch_us", device.facts.launch_us},
                         {"hop_us", device.facts.hop_us},
                         {"link_gbs", device.facts.link_bandwidth / 1e3}}}});
  return {{"name", name_of(facts.kind)},
          {"built", facts.built},
          {"devices", devices},
          {"links", facts.links},  // of each device to each, empty if unknown
          {"ring", ring_order(facts.links)},
          {"why_no_device", facts.why_none}};
}

Json to_json(const Coverage& coverage) {
  Json served = Json::object(), refused = Json::object();
  for (const auto& [type, ops] : coverage.served)
    for (const ReduceOp op : ops) served[std::string(name_of(type))].push_back(name_of(op));
  for (const auto* const refusals : {&coverage.refused, &coverage.refused_rare})
    for (const auto& [reason, calls] : *refusals)
      for (const std::string& call : calls) refused[reason].push_back(call);
  return {{"serves", served}, {"refuses", refused}};
}

Json to_json(const AlgorithmFacts& facts) {
  return {{"name", facts.name},
          {"collective", name_of(facts.collective)},
          {"summary", facts.summary},
          {"plugin", facts.file},
          {"symmetric", to_json(facts.symmetric)},
          {"ordinary", to_json(facts.ordinary)}};
}

Json to_json(const Statistics& statistics) {
  const auto work = [](const Statistics::Work& kind) {
    return Json{{"launches", kind.launches}, {"items", kind.items}};
  };
  return {{"calls", statistics.calls},
          {"launches", statistics.launches},
          {"groups", statistics.groups},
          {"batched", statistics.batched},
          {"work_in_arguments", work(statistics.in_arguments)},
          {"work_in_fifo", work(statistics.in_fifo)},
          {"work_persistent", work(statistics.persistent)},
          {"fifo_bytes", statistics.fifo_bytes},
          {"fifo_bytes_in_use", statistics.fifo_bytes_in_use},
          {"fifo_waits", statistics.fifo_waits},
          {"scratch_bytes", statistics.scratch_bytes},
          {"scratch_bytes_committed", statistics.scratch_bytes_committed}};
}

// --- estimates and what they are made of

/// A number of the link model, by its name.
struct Fact {
  std::string_view name;
  double DeviceFacts::*field;
  bool bandwidth;
};
constexpr std::array link_facts{Fact{"launch_us", &DeviceFacts::launch_us, false},
                                Fact{"hop_us", &DeviceFacts::hop_us, false},
                                Fact{"signal_us", &DeviceFacts::signal_us, false},
                                Fact{"copy_us", &DeviceFacts::copy_us, false},
                                Fact{"link_bandwidth", &DeviceFacts::link_bandwidth, true},
                                Fact{"push_bandwidth", &DeviceFacts::push_bandwidth, true},
                                Fact{"packet_bandwidth", &DeviceFacts::packet_bandwidth, true},
                                Fact{"copy_bandwidth", &DeviceFacts::copy_bandwidth, true}};

/// Returns body(document). Throws Error if the file can't be read or is not as the body expects;
/// `otherwise` says what it is then.
template <class Body>
std::string with_json_file(const std::string& file, std::string_view otherwise, Body body) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("can't read {}: {}", in_quotes(file), std::strerror(errno)));
  try {
    return body(nlohmann::ordered_json::parse(stream));
  } catch (const nlohmann::ordered_json::exception& error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is {}: {}", in_quotes(file), otherwise, error.what()));
  }
}

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

std::string catalog_json(const std::vector<BackendFacts>& backends,
                         const std::vector<AlgorithmFacts>& algorithms, int ranks,
                         const std::optional<Statistics>& counted) {
  Json document = {{"version", PLAIT_VERSION},
                   {"ranks", ranks},
                   {"backends", Json::array()},
                   {"algorithms", Json::array()}};
  for (const BackendFacts& facts : backends) document["backends"].push_back(to_json(facts));
  for (const AlgorithmFacts& facts : algorithms) document["algorithms"].push_back(to_json(facts));
  if (counted) document["statistics"] = to_json(*counted);
  return document.dump(1) + "\n";
}

std::string costs(const std::string& file, bool shared, int processors) {
  return with_json_file(file, "no file of results", [&](const Json& document) {
    return costs_of_results(document, shared, processors).dump() + "\n";
  });
}

std::string estimates(const std::string& file) {
  return with_json_file(file, "no file of calls", [](const Json& document) {
    Json rows = Json::array();
    for (const Json& call : document.at("calls")) rows.push_back(estimates_of_call(call, document));
    return rows.dump() + "\n";
  });
}

}  // namespace plait::info
