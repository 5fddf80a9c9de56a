// The algorithms that the tests try: those that the target can run.
#include <array>
#include <cstdio>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "core/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

/// Says, once per algorithm and process, that no test tries it: tools/check_skips.py reads this.
/// With the target, because tests of the host's build have stand-ins for GPUs.
void report_left_out(const Algorithm& algorithm, const std::string& reason) {
  static std::mutex mutex;
  static std::set<const Algorithm*> reported;
  const std::lock_guard lock(mutex);
  if (reported.insert(&algorithm).second)
    std::fprintf(stderr, "LEFT OUT: %s.by.%s: %s: %s\n",
                 std::string(name_of(algorithm.collective())).c_str(),
                 std::string(algorithm.name()).c_str(), std::string(name_of(target())).c_str(),
                 reason.c_str());
}

/// Whether the processes of this test may be on several nodes: tests/support/as_nodes.sh, or
/// tools/nodes.sh, has said which node this one is on.
bool spans_nodes() { return environment("PLAIT_NODE").has_value(); }

/// Whether the target can run the algorithm at all, on several nodes if the test has them.
/// Algorithms for one node only, and for several only, have their tests there. Those that are not
/// exact have tests of their own (nodes_test).
bool can_run(const Algorithm& algorithm) {
  if (algorithm.is_lossy()) return false;
  // On another thread, because opening a device makes it the thread's current one, and a rank may
  // ask in the middle of its work.
  static const DeviceFacts facts =
      std::async(std::launch::async, [] {
        const auto backend = open_backend(target(), 0);
        if (environment_integer("PLAIT_DISABLE_P2P", 0, 0, 1) == 1) backend->use_host_memory();
        backend->meet(std::array{backend->process_facts()});  // of what one process alone can know
        return backend->info().facts;
      }).get();
  Topology topology{facts};
  topology.backend = target();
  topology.ranks = 2;
  Call easiest;
  easiest.collective = algorithm.collective();
  easiest.count = 16;  // some want blocks that are whole packs, of any type
  easiest.symmetric = true;
  easiest.parts = parts_of(easiest.collective, topology.ranks);
  Topology apart = topology;
  apart.nodes = 2;
  if (spans_nodes()) return static_cast<bool>(can_serve(algorithm, easiest, apart));
  const Support support = can_serve(algorithm, easiest, topology);
  if (!support && !can_serve(algorithm, easiest, apart))
    report_left_out(algorithm, support.reason());
  return static_cast<bool>(support);
}

}  // namespace

std::vector<std::string> all_reduce_algorithms() {
  std::vector<std::string> names;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() == Collective::all_reduce && can_run(*algorithm))
      names.emplace_back(algorithm->name());
  return names;
}

std::vector<Subject> other_algorithms() {
  std::vector<Subject> subjects;
  for (const auto& algorithm : Registry::instance().all())
    if (algorithm->collective() != Collective::all_reduce &&
        algorithm->collective() != Collective::barrier && can_run(*algorithm))
      subjects.emplace_back(algorithm->collective(), std::string(algorithm->name()));
  return subjects;
}

std::vector<Subject> all_reduces() {
  const std::vector<std::string> names = all_reduce_algorithms();
  return {names.begin(), names.end()};
}

std::vector<Subject> all_algorithms() {
  std::vector<Subject> all = all_reduces();
  for (const Subject& other : other_algorithms()) all.push_back(other);
  return all;
}

std::vector<Subject> chosen_ones() {
  std::vector<Subject> all;
  for (int c = 0; c < collective_count; ++c)
    if (const auto collective = static_cast<Collective>(c); collective != Collective::barrier)
      all.emplace_back(collective, "");
  return all;
}

}  // namespace plait::test
