// plait-info: lists what this build and this machine offer. Needs neither MPI's launcher nor a GPU.
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bench/command_line.hpp"
#include "bench/info/catalog.hpp"
#include "bench/info/output.hpp"
#include "bench/info/ranks.hpp"
#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace {

using namespace plait;
using namespace plait::info;

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
  fmt::print("{}", catalog_json(backends, algorithms, ranks, counted));
}

}  // namespace

int main(int argc, char** argv) {
  const plait::StandardFdsTaken taken;
  bool json = false, tables = false, statistics = false, shared = false, world = false;
  std::string results, calls, why;
  int ranks = 0, processors = 0;
  using Flag = plait::bench::Flag;
  const plait::bench::CommandLine line{
      "plait-info",
      "Lists Plait's backends, devices and algorithms",
      {Flag{"--json", &json, "Print JSON"},
       Flag{"--markdown", &tables, "Print the tables of algorithms that the documentation shows"}
           .not_beside({"--json"}),
       Flag{"--why", &why,
            "Print what the algorithm of this name does here, and why it serves no more"}
           .not_beside({"--json", "--markdown"}),
       Flag{"--statistics", &statistics,
            "Run a small job with as many ranks, and print what its communicator has counted"},
       Flag{"--world", &world,
            "Started by torchrun, srun or, on one machine, mpirun: print the device, the node and "
            "the rail of each rank"}
           .not_beside({"--json", "--markdown", "--statistics"}),
       Flag{"--ranks", &ranks,
            "Number of ranks to ask the algorithms about (default: the number of GPUs, at least 2; "
            "with --statistics on GPUs also 1)"}
           .within(1, 1024),
       Flag{"--costs", &results,
            "Print, as JSON, what the estimates for the calls in this file of results are made of, "
            "for tools/fit_model.py"}
           .not_beside({"--json", "--markdown", "--statistics", "--ranks"}),
       Flag{"--shared", &shared, "With --costs: all ranks were on one GPU"}.beside("--costs"),
       Flag{"--processors", &processors,
            "With --costs: those of the machine on which CPU ranks took turns"}
           .within(1, 1 << 20)
           .beside("--costs"),
       Flag{"--estimates", &calls,
            "Print, as JSON, the estimates for the calls in this file, of ranks on several nodes, "
            "for tools/scaling_model.py"}
           .not_beside({"--json", "--markdown", "--statistics", "--ranks", "--costs"})}};
  try {
    const std::string answer = plait::bench::parse(line, {argv + 1, argv + argc});
    if (!answer.empty()) fmt::print("{}", answer);
    else if (!results.empty()) fmt::print("{}", costs(results, shared, processors));
    else if (!calls.empty()) fmt::print("{}", estimates(calls));
    else if (world) fmt::print("{}", describe_world());
    else if (tables) fmt::print("{}", markdown());
    else run(ranks, json, statistics, why);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error(ErrorCode::backend, "can't write to standard output");
  } catch (const std::exception& error) {
    fmt::print(stderr, "plait-info: {}\n", error.what());
    return 2;
  }
  return 0;
}
