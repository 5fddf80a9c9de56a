// plait-bench: times collectives. Each process is one rank and runs this, or with --devices each of
// its threads; rank 0 prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "bench/contender.hpp"
#include "bench/files.hpp"
#include "bench/options.hpp"
#include "bench/peers/mpi.hpp"
#include "bench/peers/nccl_library.hpp"
#include "bench/program.hpp"
#include "bench/session.hpp"
#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"
#include "plait/error.hpp"

namespace plait::bench {
namespace {

constexpr const char* program = "plait-bench";

/// Creates and destroys a communicator of all ranks `options.creations` times, and prints the times
/// of the slowest rank, in microseconds, as JSON: from the bootstrap, which `make_world` makes, to
/// the communicator. The first time includes what a process does once. Collective.
void measure_creation(Bootstrap& world, const Options& options,
                      const std::function<std::unique_ptr<Bootstrap>()>& make_world) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < options.creations; ++i) {
    world.barrier();
    const auto start = Clock::now();
    const Communicator comm = Communicator::create(make_world(), {.backend = options.backend});
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    const std::vector<double> all = world.all_gather(time.count());
    times.push_back(*std::max_element(all.begin(), all.end()));
  }
  if (world.rank() != 0) return;
  const std::string text = creations_text(world, options.command_line, times);
  if (options.json.empty()) fmt::print("{}", text);
  else write_text(options.json, text);
}

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

/// What a run would measure, in a line: `{"backend", "bytes": [...], "iterations", "warm_up",
/// "repeats", "runs": [{"collective", "type", "at_most"}, ...]}`. These are the sizes, how each is
/// timed, and the number of measurements for each collective and type. Fewer are made if calls turn
/// out not to be served. Makes no communicator.
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

/// Makes another bootstrap of the ranks of this one. Collective.
using MakeWorld = std::function<std::unique_ptr<Bootstrap>(Bootstrap&)>;

int run_rank(std::unique_ptr<Bootstrap> world, const Options& options,
             const MakeWorld& make_world) {
  if (options.creations > 0) {
    measure_creation(*world, options, [&] { return make_world(*world); });
    return ok;
  }
  Session session(std::move(world), options);
  return session.run() == 0 ? ok : wrong_results;
}

/// A thread per rank, each of which does what a process does otherwise.
int run_devices(const Options& options, const Bootstrap& processes, const MpiSession& mpi) {
  if (processes.size() > 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--devices {}: all ranks live in one process, but {} were started",
                            options.devices, processes.size()));
  NcclLibrary::turn_multicast_off();  // before there are threads
  std::vector<std::future<int>> codes;
  for (auto& world : make_thread_bootstraps(options.devices))
    codes.push_back(std::async(std::launch::async, [&, own = std::move(world)]() mutable {
      return exit_code(program, mpi, own->rank(), [&] {
        return run_rank(std::move(own), options,
                        [](Bootstrap& ranks) { return ranks.split(0, ranks.rank()); });
      });
    }));
  int worst = ok;
  for (auto& code : codes) worst = std::max(worst, code.get());
  return worst;
}

int run(int argc, char** argv, const MpiSession& mpi, std::unique_ptr<Bootstrap> world) {
  Options options;
  std::string wrong;
  try {
    options = parse_options(argc, argv);
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (!are_right(*world, program, wrong)) return bad_request;
  const std::string answer = options.dry_run ? plan_of(options) : options.answer;
  if (!answer.empty()) {
    if (world->rank() == 0) std::fputs(answer.c_str(), stdout);
    return ok;
  }
  if (options.devices > 0) return run_devices(options, *world, mpi);
  return run_rank(std::move(world), options, [&](Bootstrap&) { return mpi.make_world(); });
}

}  // namespace
}  // namespace plait::bench

int main(int argc, char** argv) {
  using namespace plait::bench;
  const plait::StandardFdsTaken taken;
  const MpiSession mpi(argc, argv);
  return run_program(program, mpi, [&](std::unique_ptr<plait::Bootstrap> world) {
    return run(argc, argv, mpi, std::move(world));
  });
}
