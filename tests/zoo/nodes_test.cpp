// Ranks as threads that believe to be on several nodes: kernels, proxies and sockets in one
// process, so that ThreadSanitizer sees them all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "support/covering.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/pretend_nodes.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/quantized_sum.hpp"

namespace plait::test {
namespace {

class SeveralNodes : public testing::TestWithParam<Sizes> {
 protected:
  void run(const std::function<void(Communicator&, Arena&)>& body) {
    PLAIT_SKIP_UNLESS_RANKS_FIT(static_cast<int>(nodes_.size()));
    run_on_nodes(nodes_, {}, std::size_t{8} << 20, body);
  }
  const std::vector<int> nodes_ = nodes_of(GetParam());  // of each rank
};

/// Large enough for chunks that don't travel in frames, and for several of them.
constexpr std::size_t many = under_tsan ? 100'003 : 200'003;

/// Settings; devices; memory and wishes for a transport; addresses; the end.
TEST_P(SeveralNodes, MeetFiveTimesForACommunicator) {
  const int ranks = static_cast<int>(nodes_.size());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    CommunicatorOptions options = test_options();
    if (target() != BackendKind::host) options.device = rank;
    auto own = std::make_unique<PretendNodes>(std::move(bootstraps[static_cast<std::size_t>(rank)]),
                                              nodes_);
    const PretendNodes& counted = *own;
    const Communicator comm = Communicator::create(std::move(own), options);
    EXPECT_LE(counted.exchanges(), target() == BackendKind::host ? 5 : 10);
  });
}

TEST_P(SeveralNodes, EveryAlgorithmGivesExactResults) {
  run([](Communicator& comm, Arena& arena) {
    for (const Subject& subject : all_algorithms())
      for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, many})
        for (const bool in_place : {false, true}) {
          // The largest messages take most of the time. mpi_zoo_test has them in place.
          if (in_place && count == many) continue;
          if (!check(comm, arena,
                     subject.of({.type = DataType::i32, .count = count, .in_place = in_place})))
            return;
        }
  });
}

TEST_P(SeveralNodes, CallsFollowOneAnother) {
  run([](Communicator& comm, Arena& arena) {
    for (const char* const algorithm :
         {"rails", "leaders", "rails_oneshot", "rails_ring", "rails_tree", "rails_doubling",
          "leaders_doubling", "ring", "stream"})
      check_repeated_in_place(comm, arena, 1000, under_tsan ? 30 : 100, {.algorithm = algorithm});
  });
}

TEST_P(SeveralNodes, GraphsAreReplayed) {
  run([](Communicator& comm, Arena& arena) {
    const Stream stream = comm.create_stream();  // GPUs capture no default stream
    for (const char* algorithm :
         {"rails", "leaders", "rails_ring", "rails_tree", "leaders_doubling", "tree"})
      check(comm, arena,
            {.algorithm = algorithm, .type = DataType::i64, .count = 5000, .way = Way::captured},
            stream);
  });
}

/// Frames and chunks of all sizes.
TEST_P(SeveralNodes, GiveExactResultsWithChecksums) {
  const ScopedEnvironment checksums("PLAIT_NET_CHECK", "crc32c");
  run([](Communicator& comm, Arena& arena) {
    EXPECT_THAT(comm.describe(), testing::HasSubstr(" with CRC-32C"));
    for (const Subject& subject :
         {Subject("leaders_doubling"), Subject("rails"), Subject("ring"),
          Subject(Collective::all_to_all, "direct_push"), Subject(Collective::broadcast, "chain")})
      for (const std::size_t count : {std::size_t{100}, many})
        check(comm, arena, subject.of({.type = DataType::i32, .count = count}));
  });
}

TEST(NodesWithoutMpi, CanNotTakeItForMessages) {
  const ScopedEnvironment mpi("PLAIT_NET", "mpi");
  with_bootstraps(2, [](std::unique_ptr<Bootstrap> bootstrap, int) {
    auto nodes = std::make_unique<PretendNodes>(std::move(bootstrap), std::vector<int>{0, 1});
    expect_throws(
        ErrorCode::unsupported, [&] { Communicator::create(std::move(nodes), test_options()); },
        "PLAIT_NET=mpi: this program has not loaded libplait-mpi");
  });
}

/// A root is ahead of those that wait for it by as many calls as there are slots.
TEST_P(SeveralNodes, LeadersRunAhead) {
  run([](Communicator& comm, Arena&) {
    std::vector<Subject> subjects;
    for (const Collective collective : direct_collectives)
      subjects.emplace_back(collective, "leaders");
    if (!is_served(comm, subjects.front().of({}))) return;  // nodes of equal size
    check_calls_in_a_row(comm, subjects, under_tsan ? 100 : 1000);
  });
}

TEST_P(SeveralNodes, BarriersWaitForAll) {
  run([](Communicator& comm, Arena&) {
    for (int i = 0; i < 50; ++i) comm.barrier();
    comm.synchronize();
  });
}

/// Also of ranks of one node, which then count as nodes.
class QuantizedSums : public SeveralNodes {};

TEST_P(QuantizedSums, KeepTheirBound) {
  run([this](Communicator& comm, Arena& arena) {
    check_quantized(comm, arena, nodes_, under_tsan ? 9001 : 40'003);
  });
}

TEST_P(QuantizedSums, OfWhatIsNoNumber) {
  run([this](Communicator& comm, Arena& arena) {
    constexpr std::size_t count = 5000, where = 2500;
    constexpr float largest = std::numeric_limits<float>::max();
    for (const char* const algorithm : quantized)
      for (const float special :
           {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
            largest, 1e30f, 1e-38f}) {
        const QuantizedSum sum(
            comm, arena, partial_sums(nodes_), count, ReduceOp::sum, algorithm, false,
            [&](int rank, std::size_t i) { return i == where && rank == 0 ? special : 0.0f; });
        sum.expect_same_bits();
        const std::string name = algorithm;
        for (std::size_t i = 0; i < count; ++i) {
          const float x = sum.result()[i];
          const bool is_near = i + 127 >= where && i <= where + 127;
          if (i == where && special == 1e-38f) {
            EXPECT_LE(x, special * 1.01f);
          } else if (i == where && name == "quantized_f16" && !std::isnan(special)) {
            EXPECT_EQ(x, std::numeric_limits<float>::infinity());
          } else if (i == where && special == largest && name == "quantized_bf16") {
            EXPECT_GE(x, special);
          } else if (i == where && std::isfinite(special)) {
            EXPECT_NEAR(x, special, special / 100);
          } else if (i == where && std::isinf(special) && name == "quantized_bf16") {
            EXPECT_EQ(x, special);
          } else if (i == where) {
            EXPECT_TRUE(std::isnan(x)) << name << " makes " << special << " to " << x;
          } else if (!is_near || name != "quantized_int8" || std::isfinite(special)) {
            EXPECT_EQ(x, 0) << name << ": element " << i << " of a sum with " << special;
          }
        }
      }
  });
}

const auto several =
    testing::Values(Sizes{1, 1}, Sizes{2, 2}, Sizes{2, 1}, Sizes{1, 1, 1, 1}, Sizes{1, 3});
INSTANTIATE_TEST_SUITE_P(All, SeveralNodes, several, name_of_sizes);
INSTANTIATE_TEST_SUITE_P(All, QuantizedSums, several, name_of_sizes);
INSTANTIATE_TEST_SUITE_P(OneNode, QuantizedSums,
                         testing::Values(Sizes{1}, Sizes{2}, Sizes{3}, Sizes{4}, Sizes{8}),
                         name_of_sizes);

/// Rings, trees and hypercubes along the rails, of each size that threads can be had for.
class ManyNodes : public SeveralNodes {
 protected:
  static constexpr const char* algorithms[] = {"rails_ring", "rails_tree", "rails_doubling",
                                               "leaders_doubling"};
};

TEST_P(ManyNodes, GiveExactResults) {
  run([](Communicator& comm, Arena& arena) {
    constexpr std::size_t counts[] = {1, 7, 100, 3000};
    constexpr DataType types[] = {DataType::u8, DataType::bf16, DataType::f64};
    for (const Subject subject : algorithms) {
      for (const Levels& levels : covering({std::size(counts), std::size(types), 2, 2},
                                           static_cast<unsigned>(comm.size())))
        if (!check(comm, arena,
                   subject.of({.type = types[levels[1]],
                               .op = levels[2] == 0 ? ReduceOp::sum : ReduceOp::avg,
                               .count = counts[levels[0]],
                               .in_place = levels[3] == 1})))
          return;
      for (const bool in_place : {false, true})
        check(comm, arena,
              subject.of({.type = DataType::i32, .count = many, .in_place = in_place}));
    }
  });
}

TEST_P(ManyNodes, CallsFollowOneAnother) {
  run([](Communicator& comm, Arena& arena) {
    const Stream stream = comm.create_stream();
    for (const char* const algorithm : algorithms) {
      check_repeated_in_place(comm, arena, 20'011, under_tsan ? 10 : 30, {.algorithm = algorithm});
      check(comm, arena,
            {.algorithm = algorithm, .type = DataType::i64, .count = 5000, .way = Way::captured},
            stream);
    }
  });
}

/// Also where the order of two terms shows: `min` and `max` of 0 and -0, and NaN.
TEST_P(ManyNodes, AllRanksGetTheSameBits) {
  run([](Communicator& comm, Arena& arena) {
    constexpr std::size_t count = 1000;
    for (const char* const algorithm : algorithms)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
        const auto term = [&](std::size_t i) {
          const std::uint64_t h = hash(i * 64 + static_cast<unsigned>(comm.rank()));
          return i % 3 == 0   ? (h % 2 == 0 ? 0.0f : -0.0f)
                 : h % 7 == 0 ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(h % 1000) / 999;
        };
        arena.send.put<float>(count, term, {}, 1);  // of no alignment but that of floats
        arena.recv.place(4, count * sizeof(float));
        arena.recv.upload({});
        comm.all_reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, op, {},
                        {.algorithm = algorithm});
        arena.recv.download({});
        comm.synchronize();
        EXPECT_TRUE(same_on_all_ranks(comm, arena.recv.image(), count * sizeof(float)))
            << algorithm << ", " << name_of(op);
      }
  });
}

std::vector<Sizes> many_nodes() {
  if (under_tsan) return {{2, 2, 2}, {2, 1, 3}, {1, 1, 1, 1, 1}};
  return {{1, 1},       {1, 1, 1},   {1, 1, 1, 1, 1}, {2, 2, 2}, {2, 1, 3}, {1, 1, 1, 1, 1, 1, 1},
          {2, 2, 2, 2}, Sizes(8, 1), {2, 2, 2, 2, 2}};
}
INSTANTIATE_TEST_SUITE_P(All, ManyNodes, testing::ValuesIn(many_nodes()), name_of_sizes);

}  // namespace
}  // namespace plait::test
