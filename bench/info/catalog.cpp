#include "bench/info/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "algorithms/contract/collectives.hpp"
#include "communicator/resources/setup.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait::info {
namespace {

constexpr std::size_t example_bytes = std::size_t{1} << 20;

Coverage coverage(const Algorithm& algorithm, const Topology& topology, bool symmetric) {
  Coverage result;
  const auto ask = [&](DataType type, ReduceOp op) {
    Call call;
    call.collective = algorithm.collective();
    call.type = type;
    call.op = op;
    call.count = example_bytes / size_of(type);
    call.symmetric = symmetric;
    const bool rare = is_rare(in_words(call));
    if (const Support support = algorithm.supports(call, topology)) {
      result.served[type].push_back(op);
      if (rare && std::find(result.rare.begin(), result.rare.end(), type) == result.rare.end())
        result.rare.push_back(type);
    } else {
      (rare ? result.refused_rare : result.refused)[support.reason()].push_back(
          fmt::format("{} {}", name_of(type), name_of(op)));
    }
  };
  for (int type = 0; type < data_type_count; ++type)
    for (int op = 0; op < reduce_op_count; ++op)
      if (is_reduced(static_cast<DataType>(type), static_cast<ReduceOp>(op)) &&
          !(static_cast<ReduceOp>(op) == ReduceOp::avg && is_scan(algorithm.collective())))
        ask(static_cast<DataType>(type), static_cast<ReduceOp>(op));
  return result;
}

/// Of two devices or more, if all links are known.
LinkMatrix links_of(const BackendFacts& facts) {
  LinkMatrix links;
  std::vector<std::string> ids;
  for (const DeviceInfo& device : facts.devices) ids.push_back(device.id);
  for (const DeviceInfo& device : facts.devices) {
    links.push_back(open_backend(facts.kind, device.ordinal)->links_to(ids));
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] != device.id && links.back()[i] < 0) return {};
  }
  return links.size() > 1 ? links : LinkMatrix();
}

}  // namespace

std::vector<BackendFacts> list_backends() {
  std::vector<BackendFacts> result;
  for (const BackendKind kind : {BackendKind::host, BackendKind::cuda, BackendKind::hip}) {
    BackendFacts facts{
        .kind = kind, .built = is_built(kind), .devices = {}, .why_none = {}, .links = {}};
    for (int ordinal = 0; ordinal < device_count(kind); ++ordinal) {
      try {
        facts.devices.push_back(open_backend(kind, ordinal)->info());
      } catch (const Error& error) {
        facts.why_none = fmt::format("device {}: {}", ordinal, error.what());
      }
    }
    if (facts.devices.empty() && facts.why_none.empty()) facts.why_none = why_no_device(kind);
    if (kind != BackendKind::host) facts.links = links_of(facts);
    result.push_back(std::move(facts));
  }
  return result;
}

const BackendFacts& chosen_of(const std::vector<BackendFacts>& backends) {
  const auto name = environment("PLAIT_BACKEND");
  const auto wanted = name ? std::optional(parse_backend(*name)) : std::nullopt;
  const BackendFacts* best = &backends.front();  // the host comes first
  for (const BackendFacts& facts : backends)
    if (wanted ? facts.kind == *wanted : facts.kind != BackendKind::host && !facts.devices.empty())
      best = &facts;
  if (best->devices.empty())
    throw Error(ErrorCode::unsupported, fmt::format("PLAIT_BACKEND={}: {}", *name, best->why_none));
  return *best;
}

Topology topology_of(const BackendFacts& backend, int ranks) {
  const DeviceInfo& device = backend.devices.front();
  Topology topology{device.facts};
  topology.backend = backend.kind;
  topology.ranks = ranks;
  topology.architecture = device.architecture;
  topology.scratch_limit = environment_bytes("PLAIT_SCRATCH_BYTES", default_scratch(topology));
  return topology;
}

std::vector<std::pair<DataType, ReduceOp>> rare_types() {
  std::vector<std::pair<DataType, ReduceOp>> result;
  for (int i = 0; i < data_type_count; ++i)
    for (int j = 0; j < reduce_op_count; ++j) {
      const auto type = static_cast<DataType>(i);
      const auto op = static_cast<ReduceOp>(j);
      if (!is_reduced(type, op) || !is_rare(in_words(Call{.type = type, .op = op, .count = 1})))
        continue;
      result.emplace_back(type, op);
      break;
    }
  return result;
}

std::vector<AlgorithmFacts> list_algorithms(const Topology& topology) {
  std::vector<AlgorithmFacts> result;
  for (const auto& algorithm : Registry::instance().all())
    result.push_back({.name = std::string(algorithm->name()),
                      .summary = std::string(algorithm->summary()),
                      .file = Registry::instance().file_of(*algorithm),
                      .collective = algorithm->collective(),
                      .symmetric = coverage(*algorithm, topology, true),
                      .ordinary = coverage(*algorithm, topology, false)});
  return result;
}

Topology gpus(int ranks) {
  Topology topology;
  topology.backend = BackendKind::cuda;
  topology.architecture = "sm_90";
  topology.ranks = ranks;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.units = 132;
  topology.block_threads = topology.max_block_threads = 512;
  topology.peer_access = topology.indexed_arguments = true;
  topology.line_threads = 8;
  topology.launch_us = 1.0;
  topology.hop_us = 1.2;
  topology.signal_us = 3.8;
  topology.link_bandwidth = 337e3;
  topology.push_bandwidth = 361e3;
  topology.packet_bandwidth = 283e3;
  topology.copy_us = 7.5;
  topology.copy_bandwidth = 362e3;
  return topology;
}

Topology cpus(int ranks) {
  Topology topology;
  topology.architecture = "x86_64";
  topology.ranks = ranks;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.max_block_threads = 64;
  topology.indexed_arguments = topology.peer_reads = true;
  topology.line_threads = 1;
  return topology;
}

}  // namespace plait::info
