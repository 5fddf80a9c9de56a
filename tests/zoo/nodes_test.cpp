// Ranks as threads that believe to be on several nodes: kernels, proxies and sockets in one
// process, so that ThreadSanitizer sees them all.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/pretend_nodes.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

/// The number of ranks on each node.
using Sizes = std::vector<int>;

class SeveralNodes : public testing::TestWithParam<Sizes> {
 protected:
  void run(const std::function<void(Communicator&, Arena&)>& body) {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < GetParam().size(); ++node)
      nodes.insert(nodes.end(), static_cast<std::size_t>(GetParam()[node]), static_cast<int>(node));
    const int ranks = static_cast<int>(nodes.size());
    PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
    auto bootstraps = make_thread_bootstraps(ranks);
    on_threads(ranks, [&](int rank) {
      auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
      bootstrap->set_timeout(patience);
      Communicator comm = Communicator::create(
          std::make_unique<PretendNodes>(std::move(bootstrap), nodes), test_options());
      Arena arena(comm, std::size_t{8} << 20);
      body(comm, arena);
    });
  }
};

std::vector<Subject> subjects() {
  std::vector<Subject> all = other_algorithms();
  for (const std::string& name : all_reduce_algorithms()) all.emplace_back(name);
  return all;
}

/// Large enough for chunks that don't travel in frames, and for several of them.
constexpr std::size_t many = under_tsan ? 100'003 : 400'003;

TEST_P(SeveralNodes, EveryAlgorithmGivesExactResults) {
  run([](Communicator& comm, Arena& arena) {
    for (const Subject& subject : subjects())
      for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, many})
        for (const bool in_place : {false, true})
          if (!check(comm, arena,
                     subject.of({.type = DataType::i32, .count = count, .in_place = in_place})))
            return;
  });
}

TEST_P(SeveralNodes, CallsFollowOneAnother) {
  run([](Communicator& comm, Arena& arena) {
    for (const char* const algorithm : {"rails", "leaders", "ring", "stream"})
      check_repeated_in_place(comm, arena, 1000, under_tsan ? 30 : 100, {.algorithm = algorithm});
  });
}

TEST_P(SeveralNodes, GraphsAreReplayed) {
  run([](Communicator& comm, Arena& arena) {
    for (const char* algorithm : {"rails", "leaders", "tree"})
      check(comm, arena,
            {.algorithm = algorithm, .type = DataType::i64, .count = 5000, .way = Way::captured});
  });
}

TEST(NodesWithoutMpi, CanNotTakeItForMessages) {
  const ScopedEnvironment mpi("PLAIT_NET", "mpi");
  auto bootstraps = make_thread_bootstraps(2);
  on_threads(2, [&](int rank) {
    auto nodes = std::make_unique<PretendNodes>(
        std::move(bootstraps[static_cast<std::size_t>(rank)]), std::vector<int>{0, 1});
    expect_error(error_of([&] { Communicator::create(std::move(nodes), test_options()); }),
                 ErrorCode::unsupported,
                 testing::HasSubstr("PLAIT_NET=mpi: this program has not loaded libplait-mpi"));
  });
}

TEST_P(SeveralNodes, BarriersWaitForAll) {
  run([](Communicator& comm, Arena&) {
    for (int i = 0; i < 50; ++i) comm.barrier();
    comm.synchronize();
  });
}

INSTANTIATE_TEST_SUITE_P(All, SeveralNodes,
                         testing::Values(Sizes{1, 1}, Sizes{2, 2}, Sizes{2, 1}, Sizes{1, 1, 1, 1},
                                         Sizes{1, 3}),
                         [](const auto& instance) {
                           std::string name;
                           for (const int size : instance.param) name += "x" + std::to_string(size);
                           return "nodes" + name;
                         });

}  // namespace
}  // namespace plait::test
