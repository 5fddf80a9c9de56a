// A rank whose stream does not come to a call: all ranks name that one, in every algorithm.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

/// The beginning of a report.
std::string first_words(const std::optional<Error>& error) {
  if (!error) return "no error";
  const std::string text = error->what();
  return std::string(name_of(error->code())) + ": " + text.substr(0, text.find(':'));
}

/// All ranks make the call, but one's stream does not come to it: so the board has equal calls, and
/// who waits for whom tells. All ranks name that one, however far they are from it. In collectives
/// where not all wait for all, another rank is held up than could do without.
void hold_up(const Subject& subject, int ranks, int victim) {
  const bool from_root =
      subject.collective == Collective::broadcast || subject.collective == Collective::scatter;
  const int root = from_root ? victim : (victim + 1) % ranks;
  std::atomic<int> reported = 0;
  run_ranks(
      ranks,
      [&](Communicator& comm, int rank) {
        constexpr std::size_t most = 4096;  // elements of all blocks
        DeviceArray send(comm, most * sizeof(int)), recv(comm, most * sizeof(int));
        for (DeviceArray* array : {&send, &recv}) array->place(0, most * sizeof(int));
        const Call call{.collective = subject.collective,
                        .type = DataType::f32,
                        .op = ReduceOp::sum,
                        .count = most / 8,
                        .root = root};
        std::promise<void> open;
        comm.bootstrap().barrier();
        if (rank == victim)
          backend_of(comm).host_call(nullptr,
                                     [opened = open.get_future().share()] { opened.wait(); });
        comm.enqueue(call, send.device(), recv.device(), {}, {.algorithm = subject.algorithm});
        const std::string expected = fmt::format("timeout: rank {} has not come so far", victim);
        const std::string where =
            fmt::format("{} by {}, {} ranks, rank {}", name_of(subject.collective),
                        subject.algorithm, ranks, rank);
        // A root may have done its part.
        const auto error = rank == victim || rank == root ? heard(comm, patience)
                                                          : error_of([&] { comm.synchronize(); });
        EXPECT_EQ(first_words(error ? error : heard(comm, patience)), expected)
            << where << ": " << (error ? error->what() : "");
        for (++reported; reported < ranks;) std::this_thread::sleep_for(1ms);
        open.set_value();
      },
      [] {
        CommunicatorOptions options;
        options.timeout = under_tsan ? 10s : 2s;  // creating it is under the same deadline
        return options;
      }());
}

struct HeldUp {
  Subject subject;
  int ranks, victim;
};

/// Several at once: their ranks sleep most of the time.
void hold_up(const std::vector<HeldUp>& cases) {
  std::atomic<std::size_t> next = 0;
  on_threads(target() == BackendKind::host ? 16 : 1, [&](int) {
    for (std::size_t i; (i = next++) < cases.size();)
      if (why_not(cases[i].ranks).empty())
        hold_up(cases[i].subject, cases[i].ranks, cases[i].victim);
  });
}

/// Ranks wait for others that wait themselves.
TEST(HeldUp, IsNamedByAllInChainsTreesAndRings) {
  std::vector<HeldUp> cases;
  for (const char* name : {"ring", "tree", "halving_doubling", "recursive_doubling"}) {
    for (int victim = 0; victim < 4; ++victim) cases.push_back({name, 4, victim});
    for (const int ranks : {3, 5, 8}) cases.push_back({name, ranks, ranks / 2});
  }
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (int victim = 0; victim < 4; ++victim) cases.push_back({{collective, "chain"}, 4, victim});
  hold_up(cases);
}

TEST(HeldUp, IsNamedByAllWithEveryAlgorithm) {
  std::vector<HeldUp> cases;
  const auto add = [&](const Subject& subject) {
    cases.push_back({subject, 4, static_cast<int>(cases.size() % 4)});
  };
  for (const std::string& name : all_reduce_algorithms()) add(name);
  for (const Subject& subject : other_algorithms())
    if (subject.collective != Collective::send_recv) add(subject);
  hold_up(cases);
}

}  // namespace
}  // namespace plait::test
