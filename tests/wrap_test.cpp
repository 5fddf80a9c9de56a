// Epochs and counters near 2^32: every algorithm once more under another name, with memory that has seen four billion calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

/// What a rank's call was granted, for the thread that asked for it.
thread_local Grant seen, seen_shared;
thread_local bool only_look = false;

/// Another algorithm's twin with memory of its own. Also a user's algorithm, registered by its application.
class Aged final : public Algorithm {
 public:
  explicit Aged(const Algorithm& original) : original_(original), name_(fmt::format("aged_{}", original.name())) {}
  std::string_view name() const override { return name_; }
  Collective collective() const override { return original_.collective(); }
  std::string_view summary() const override { return original_.summary(); }
  Support supports(const Call& call, const Topology& topology) const override { return original_.supports(call, topology); }
  Resources resources(const Topology& topology) const override { return original_.resources(topology); }
  SharedResources shared(const Topology& topology) const override { return original_.shared(topology); }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override { return original_.shapes(call, topology); }
  double estimate(const Call&, const Topology&) const override { return 1e9; }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    seen = context.grant();
    seen_shared = context.shared();
    if (!only_look) original_.enqueue(call, buffers, shape, context);
  }

 private:
  const Algorithm& original_;
  std::string name_;
};

/// The names of the originals; registers their twins first.
std::vector<std::string> aged() {
  static const std::vector<std::string> names = [] {
    auto originals = all_reduce_algorithms();
    for (const std::string& name : originals) Registry::instance().add(std::make_unique<Aged>(*Registry::instance().find(name)));
    return originals;
  }();
  return names;
}

class Wrap : public testing::TestWithParam<std::tuple<std::string, int>> {};
INSTANTIATE_TEST_SUITE_P(All, Wrap, testing::Combine(testing::ValuesIn(aged()), testing::Values(1, 2, 3, 4, 5)),
                         [](const auto& test) { return fmt::format("{}_n{}", std::get<0>(test.param), std::get<1>(test.param)); });

/// Sets every counter and signal of the algorithm as if `age` steps had been made. Collective.
void make_old(Communicator& comm, Arena& arena, const std::string& name, std::uint32_t age) {
  arena.symmetric_send.place(0, 64);
  only_look = true;
  comm.all_reduce(arena.symmetric_send.device(), arena.symmetric_send.device(), 1, DataType::u8, ReduceOp::sum, {}, {.algorithm = name});
  only_look = false;
  Topology topology;
  topology.backend = comm.backend_kind();
  topology.ranks = comm.size();
  topology.scratch_limit = std::size_t{512} << 20;
  const Algorithm& algorithm = *Registry::instance().find(name);
  const Resources own = algorithm.resources(topology), shared = algorithm.shared(topology).resources;
  Backend& backend = comm.backend();
  const std::size_t words = std::max({own.counters, own.signals, shared.counters, shared.signals});
  auto* old = static_cast<std::uint32_t*>(backend.allocate_pinned(words * sizeof(std::uint32_t) + 1));
  std::fill_n(old, words, age);
  const auto set = [&](const Resources& resources, const Grant& grant) {
    if (resources.counters != 0) backend.copy(grant.counters, old, resources.counters * sizeof(std::uint32_t), nullptr);
    if (resources.signals != 0) backend.copy(grant.signals.own, old, resources.signals * sizeof(std::uint32_t), nullptr);
  };
  set(own, seen);
  set(shared, seen_shared);
  backend.synchronize(nullptr);
  comm.bootstrap().barrier();
  backend.deallocate_pinned(old);
}

TEST_P(Wrap, NothingHappensAtTwoToThe32) {
  const auto& [original, ranks] = GetParam();
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const std::string name = "aged_" + original;
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "512M");
  RankGroup group(ranks);
  group.run([&](Communicator& comm, Arena& arena) {
    make_old(comm, arena, name, 0u - 64u);
    for (std::uint64_t i = 0; i < 120; ++i)
      check(comm, arena,
            {.algorithm = name,
             .type = DataType::i32,
             .count = 50 + 31 * i,
             .in_place = i % 2 == 0,
             .symmetric = true,
             .blocks = static_cast<unsigned>(1 + i % 2),
             .seed = i});
  });
}

TEST_P(Wrap, NothingHappensAtTwoToThe31) {
  const auto& [original, ranks] = GetParam();
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const std::string name = "aged_" + original;
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "512M");
  RankGroup group(ranks);
  group.run([&](Communicator& comm, Arena& arena) {
    make_old(comm, arena, name, 0x80000000u - 64u);
    for (std::uint64_t i = 0; i < 120; ++i)
      check(comm, arena, {.algorithm = name, .type = DataType::bf16, .count = 50 + 31 * i, .symmetric = true, .seed = i});
  });
}

}  // namespace
}  // namespace plait::test
