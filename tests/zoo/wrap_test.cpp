// Epochs and counters near 2^32: every algorithm once more under another name, with memory that has
// seen four billion calls.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "communicator/resources/algorithm_memory.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_algorithm.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

/// The memory that a rank's call was granted, for the thread that asked for it.
thread_local Grant seen, seen_shared;
thread_local bool only_look = false;

/// For all algorithms and their twins, and not more: each test makes its communicators anew.
constexpr std::size_t scratch_megabytes = 64;

/// Another algorithm's twin with memory of its own. Also a user's algorithm, registered by its
/// application.
class Aged final : public ForwardingAlgorithm {
 public:
  explicit Aged(const Algorithm& of)
      : ForwardingAlgorithm(fmt::format("aged_{}", of.name()), std::string(of.name()),
                            of.collective()),
        family_(fmt::format("aged_{}", of.family())) {}
  StaticName family() const override { return StaticName::lasting(family_); }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    look(context);
    if (!only_look) ForwardingAlgorithm::enqueue(call, buffers, shape, context);
  }
  /// The two ends of a message that goes round.
  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const override {
    look(context);
    std::vector<BatchedCall> originals(calls.begin(), calls.end());
    for (BatchedCall& call : originals) call.algorithm = &original();
    if (!only_look) original().enqueue_batch(originals, context);
  }

 private:
  void look(const LaunchContext& context) const {
    seen = context.grant();
    const bool shares = !original().shared(context.topology()).name.empty();
    seen_shared = shares ? context.shared() : Grant{};
  }

  std::string family_;
};

/// Does not ask for the memory that oneshot_ll shares.
struct Careless final : ForwardingAlgorithm {
  Careless() : ForwardingAlgorithm("careless", "oneshot_ll") {}
  SharedResources shared(const Topology&) const override { return {}; }
};

/// The originals, of several collectives that share their memory one; registers their twins first.
std::vector<Subject> aged() {
  static const std::vector<Subject> subjects = [] {
    std::vector<Subject> originals = all_reduces();
    for (const Subject& subject : other_algorithms())
      if ((subject.collective == Collective::reduce && subject.algorithm != "pull") ||
          subject.collective == Collective::send_recv ||
          (subject.collective == Collective::broadcast && subject.algorithm == "direct_put"))
        originals.push_back(subject);
    for (const Subject& subject : originals)
      Registry::instance().add(std::make_unique<Aged>(
          *Registry::instance().find(subject.algorithm, subject.collective)));
    return originals;
  }();
  return subjects;
}

class Wrap : public testing::TestWithParam<std::tuple<Subject, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const Subject& original() const { return std::get<0>(GetParam()); }
  Subject twin() const { return {original().collective, "aged_" + original().algorithm}; }
  int ranks() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Wrap,
                         testing::Combine(testing::ValuesIn(aged()), testing::Values(2, 3)),
                         TestName());

TEST(SharedMemory, OfAnAlgorithmThatDidNotAskForIt) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  static const AlgorithmRegistration<Careless> careless;
  run_ranks(2, [](Communicator& comm, int) {
    Arena arena(comm);
    void* const data = arena.symmetric_send.device();
    const auto error = error_of([&] {
      comm.all_reduce(data, data, 100, DataType::i32, ReduceOp::sum, {}, {.algorithm = "careless"});
    });
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->what(),
                HasSubstr("the algorithm uses shared memory that its shared() did not ask for"));
  });
}

/// Sets every counter and signal of the algorithm as if `age` steps had been made. Collective.
void make_old(Communicator& comm, Arena& arena, const Subject& twin, std::uint32_t age) {
  comm.bootstrap().barrier();  // no peer's earlier kernel still writes a signal here
  arena.symmetric_send.place(0, 64);
  arena.symmetric_recv.place(0, 64);
  only_look = true;
  comm.enqueue({.collective = twin.collective, .type = DataType::f32, .count = 1},
               arena.symmetric_send.device(), arena.symmetric_recv.device(), {},
               {.algorithm = twin.algorithm});
  only_look = false;
  Topology topology{backend_of(comm).info().facts};
  topology.backend = comm.backend_kind();
  topology.ranks = comm.size();
  std::vector<const Algorithm*> all;
  for (const auto& each : Registry::instance().all()) all.push_back(each.get());
  topology.scratch_limit = scratch_within(scratch_megabytes << 20, topology, all);
  const Algorithm& algorithm = *Registry::instance().find(twin.algorithm, twin.collective);
  const Resources own = algorithm.resources(topology),
                  shared = algorithm.shared(topology).resources;
  Backend& backend = backend_of(comm);
  const std::size_t words = std::max({own.counters, own.signals, shared.counters, shared.signals});
  auto* old =
      static_cast<std::uint32_t*>(backend.allocate_pinned(words * sizeof(std::uint32_t) + 1));
  std::fill_n(old, words, age);
  const auto set = [&](const Resources& resources, const Grant& grant) {
    if (resources.signals != 0)
      backend.copy(grant.signals.own, old, resources.signals * sizeof(std::uint32_t), nullptr);
    backend.synchronize(nullptr);
    // Beside its epoch, a LanesState has a word that says that nothing is on its way.
    if (algorithm.shared(topology).name.starts_with("lanes of"))
      for (std::size_t i = 1; i < resources.counters; i += 2) old[i] = 0;
    if (resources.counters != 0)
      backend.copy(grant.counters, old, resources.counters * sizeof(std::uint32_t), nullptr);
  };
  set(own, seen);
  set(shared, seen_shared);
  backend.synchronize(nullptr);
  comm.bootstrap().barrier();
  backend.deallocate_pinned(old);
}

TEST_P(Wrap, NothingHappensAtTwoToThe32OrThe31) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", fmt::format("{}M", scratch_megabytes));
  RankGroup(ranks()).run([&](Communicator& comm, Arena& arena) {
    for (const std::uint32_t end : {0u, 0x80000000u}) {
      make_old(comm, arena, twin(), end - 64u);
      for (std::uint64_t i = 0; i < 120; ++i)
        check(comm, arena,
              twin().of({.type = end == 0 ? DataType::f32 : DataType::bf16,
                         .count = 50 + 31 * i,
                         .in_place = i % 2 == 0,
                         .symmetric = true,
                         .root = static_cast<int>(i % static_cast<unsigned>(comm.size())),
                         .blocks = static_cast<unsigned>(1 + i % 2),
                         .seed = i}));
    }
  });
}

}  // namespace
}  // namespace plait::test
