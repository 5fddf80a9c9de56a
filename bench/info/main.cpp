// plait-info: lists what this build and this machine offer. Needs neither MPI's launcher nor a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bench/info/catalog.hpp"
#include "bench/info/costs.hpp"
#include "bench/info/estimates.hpp"
#include "bench/info/listing.hpp"
#include "bench/info/markdown.hpp"
#include "bench/info/sample.hpp"
#include "bench/info/world.hpp"
#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace {

using namespace plait;
using namespace plait::info;
using Json = nlohmann::ordered_json;

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

void print_statistics(BackendKind backend, int ranks, const Statistics& statistics) {
  const auto work = [](const char* name, const Statistics::Work& kind, const char* where) {
    fmt::print("  {:<14} {:>6} launches {:>6} messages  {}\n", name, kind.launches, kind.items,
               where);
  };
  fmt::print(
      "\nstatistics of rank 0 of {} on {}, after 10 calls alone, groups of 20 and 500, and a "
      "captured group of 500\n",
      ranks, name_of(backend));
  fmt::print("  {:<14} {:>6}, {} of them in {} groups shared {}\n", "calls", statistics.calls,
             statistics.batched, statistics.groups, "launches with others");
  fmt::print("  {:<14} {:>6}\n", "launches", statistics.launches);
  work("in arguments", statistics.in_arguments, "few messages: in the kernel's arguments");
  work("in the FIFO", statistics.in_fifo, "many messages");
  work("persistent", statistics.persistent, "many messages, captured: kept for replays");
  fmt::print("  {:<14} {:>6}, of which {} bytes were in use; {} launches had to wait\n", "FIFO",
             format_bytes(statistics.fifo_bytes), statistics.fifo_bytes_in_use,
             statistics.fifo_waits);
  fmt::print("  {:<14} {:>6}, of which {} bytes are committed\n", "scratch",
             format_bytes(statistics.scratch_bytes), statistics.scratch_bytes_committed);
}

void run(int ranks, bool json, bool statistics, const std::string& why) {
  const auto backends = list_backends();
  const BackendFacts& chosen = chosen_of(backends);
  const int devices = static_cast<int>(chosen.devices.size());
  // A sample runs, and no GPU takes two ranks. Algorithms are also asked about more ranks.
  if (ranks == 0)
    ranks = chosen.kind != BackendKind::host && statistics ? devices : std::max(2, devices);
  const Topology topology = topology_of(chosen, ranks);
  const auto algorithms = list_algorithms(topology);
  if (!why.empty()) return print_why(algorithms, why);
  std::optional<Statistics> counted;
  if (statistics) counted = run_sample(topology.backend, ranks);
  if (!json) {
    print_listing(backends, topology, algorithms);
    if (counted) print_statistics(topology.backend, ranks, *counted);
    return;
  }
  Json document = {{"version", PLAIT_VERSION},
                   {"ranks", ranks},
                   {"backends", Json::array()},
                   {"algorithms", Json::array()}};
  for (const BackendFacts& facts : backends) document["backends"].push_back(to_json(facts));
  for (const AlgorithmFacts& facts : algorithms) document["algorithms"].push_back(to_json(facts));
  if (counted) document["statistics"] = to_json(*counted);
  fmt::print("{}\n", document.dump(1));
}

}  // namespace

int main(int argc, char** argv) {
  const plait::StandardFdsTaken taken;
  CLI::App app("Lists Plait's backends, devices and algorithms", "plait-info");
  bool json = false, tables = false, statistics = false, shared = false, world = false;
  std::string results, calls, why;
  int ranks = 0, processors = 0;
  app.add_flag("--json", json, "Print JSON");
  app.add_flag("--markdown", tables, "Print the tables of algorithms that the documentation shows")
      ->excludes("--json");
  app.add_option("--why", why,
                 "Print what the algorithm of this name does here, and why it serves no more")
      ->excludes("--json", "--markdown");
  app.add_flag("--statistics", statistics,
               "Run a small job with as many ranks, and print what its communicator has counted");
  app.add_flag("--world", world,
               "Started by torchrun, srun or, on one machine, mpirun: print the device, the node "
               "and the rail of "
               "each rank")
      ->excludes("--json", "--markdown", "--statistics");
  app.add_option(
         "--ranks", ranks,
         "Number of ranks to ask the algorithms about (default: the number of GPUs, at least 2; "
         "with --statistics on GPUs also 1)")
      ->check(CLI::Range(1, 1024));
  CLI::Option* costs_of =
      app.add_option("--costs", results,
                     "Print, as JSON, what the estimates for the calls in this file of results are "
                     "made of, for tools/fit_model.py")
          ->excludes("--json", "--markdown", "--statistics", "--ranks");
  app.add_flag("--shared", shared, "With --costs: all ranks were on one GPU")->needs(costs_of);
  app.add_option("--processors", processors,
                 "With --costs: those of the machine on which CPU ranks took turns")
      ->needs(costs_of)
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--estimates", calls,
                 "Print, as JSON, the estimates for the calls in this file, of ranks on several "
                 "nodes, for tools/scaling_model.py")
      ->excludes("--json", "--markdown", "--statistics", "--ranks", "--costs");
  app.set_version_flag("--version", "plait " PLAIT_VERSION);
  try {
    app.parse(argc, argv);
    if (!results.empty()) fmt::print("{}", costs(results, shared, processors));
    else if (!calls.empty()) fmt::print("{}", estimates(calls));
    else if (world) fmt::print("{}", describe_world());
    else if (tables) fmt::print("{}", markdown());
    else run(ranks, json, statistics, why);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error(ErrorCode::backend, "can't write to standard output");
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::ExtrasError&) {  // its text has the words in reverse order
    fmt::print(stderr, "plait-info: not expected: {}\n", fmt::join(app.remaining(), " "));
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plait-info: {}\n", error.what());
    return 2;
  }
  return 0;
}
