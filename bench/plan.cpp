#include "bench/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "bench/contender.hpp"
#include "core/environment.hpp"

namespace plait::bench {
namespace {

BackendKind likely_backend(const Options& options) {
  if (options.backend) return *options.backend;
  if (const auto name = environment("PLAIT_BACKEND")) return parse_backend(*name);
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip})
    if (device_count(kind) > 0) return kind;
  return BackendKind::host;
}

std::size_t contenders(const Options& options, Collective collective, BackendKind backend) {
  const auto algorithms = static_cast<std::size_t>(
      std::count_if(options.algorithms.begin(), options.algorithms.end(),
                    [&](const std::string& name) { return may_serve(name, collective); }));
  const bool counted = measures_counted(options) && find_counted(collective) != nullptr;
  std::size_t peers = 0;  // of NCCL with ordinary and with symmetric memory
  for (const std::string& peer : options.peers)
    peers += peer == "mpi" ? (counted ? 2 : 1) : backend == BackendKind::host ? 0 : 2;
  // A barrier has no buffers.
  return algorithms * (collective == Collective::barrier ? 1 : options.memories.size()) + peers;
}

}  // namespace

std::string plan_of(const Options& options) {
  const BackendKind backend = likely_backend(options);
  const auto bytes = sizes(options, backend);
  std::vector<std::pair<Call, std::size_t>> runs;  // a call stands for its collective and type
  for (const Call& call : operations(options)) {
    const auto places = static_cast<std::size_t>(
        std::count_if(options.in_place.begin(), options.in_place.end(),
                      [&](bool in_place) { return !in_place || has_in_place(call.collective); }));
    const bool is_barrier = call.collective == Collective::barrier;
    const std::size_t at_most = contenders(options, call.collective, backend) * places *
                                (is_barrier ? 1 : bytes.size() * options.offsets.size()) *
                                options.grouped.size();
    const bool another_op = !runs.empty() && runs.back().first.collective == call.collective &&
                            runs.back().first.type == call.type;
    if (another_op) runs.back().second += at_most;
    else runs.emplace_back(call, at_most);
  }
  std::vector<std::string> texts;
  for (const auto& [call, at_most] : runs)
    texts.push_back(fmt::format(R"({{"collective":"{}","type":"{}","at_most":{}}})",
                                name_of(call.collective), name_of(call.type), at_most));
  return fmt::format(
      R"({{"backend":"{}","bytes":[{}],"iterations":{},"warm_up":{},"repeats":{},"runs":[{}]}})"
      "\n",
      name_of(backend), fmt::join(bytes, ","), options.iterations, options.warm_up, options.repeats,
      fmt::join(texts, ","));
}

}  // namespace plait::bench
