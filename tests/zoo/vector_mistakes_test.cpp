// Calls with a count per rank or per neighbour that are refused, or differ between ranks: one
// sentence, nothing enqueued, and the communicator works on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Counts = std::vector<std::size_t>;

/// Rank r has a block of r + 1 elements. Blocks lie one behind the other.
class VectorMistakes : public ForRanks {
 protected:
  struct Side {
    Communicator& comm;
    Arena& arena;
    int self = comm.rank(), ranks = comm.size();
    std::size_t n = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(self) + 1,
                all = n * (n + 1) / 2;
    Counts counts = Counts(n), begins = Counts(n), ones = Counts(n, 1), zeros = Counts(n),
           large = Counts(n, ~std::size_t{0} / 2), longer = Counts(n + 1, 1);

    Side(Communicator& c, Arena& a) : comm(c), arena(a) {
      std::iota(counts.begin(), counts.end(), std::size_t{1});
      std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
      for (DeviceArray* array : {&arena.send, &arena.recv}) array->place(0, 4096);
      arena.recv.upload({});
    }
    float* from() const { return static_cast<float*>(arena.send.device()); }
    float* to() const { return static_cast<float*>(arena.recv.device()); }
    std::span<const float> sent(std::size_t size) const { return {from(), size}; }
    std::span<float> received(std::size_t size) const { return {to(), size}; }

    /// Alone and in a group.
    void refuses(const std::string& what, const std::string& why, const std::function<void()>& call,
                 ErrorCode code = ErrorCode::invalid_argument) const {
      const std::string who = fmt::format("{}: rank {}: ", what, self);
      expect_throws(code, call, who, why);
      expect_throws(code, in_a_group(call), who, why, "nothing of the group was enqueued");
    }
  };

  static void run(const std::function<void(const Side&)>& body) {
    ForRanks::run([&](Communicator& comm, Arena& arena) {
      body(Side(comm, arena));
      arena.recv.download({});
      comm.synchronize();
      EXPECT_TRUE(arena.recv.untouched()) << "something was enqueued";
      comm.barrier();
      comm.synchronize();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, VectorMistakes, testing::Values(1, 2, 3, 8), TestName());

constexpr auto f32 = DataType::f32;

TEST_P(VectorMistakes, OfAllGather) {
  run([](const Side& of) {
    const auto refuses = [&](const std::string& why, const void* from, std::size_t count, void* to,
                             const Counts& counts, const Counts& begins, DataType type = f32) {
      of.refuses("all_gather_v", why, [&] {
        of.comm.all_gather_v(from, count, to, {counts, begins}, type);
      });
    };
    void *const from = of.from(), *const to = of.to();
    const std::string lists = fmt::format("with {} ranks", of.n);
    refuses(fmt::format("{} recv counts, {}", of.n + 1, lists), from, 1, to, of.longer, of.begins);
    refuses(fmt::format("{} recv displacements, {}", of.n + 1, lists), from, 1, to, of.ones,
            of.longer);
    refuses("its block has 2 elements, and its block of recv has 1", from, 2, to, of.ones,
            of.begins);
    refuses("overflows", from, 1, to, of.ones, of.large);
    refuses("overflows", from, of.large[0], to, of.large, of.begins);
    refuses("send is null, with count 1", nullptr, 1, to, of.ones, of.begins);
    refuses("recv is null, with count 1", from, 1, nullptr, of.ones, of.begins);
    refuses("is null", nullptr, 1, nullptr, of.ones, of.begins);
    refuses("99 is no data type", from, 1, to, of.ones, of.begins, static_cast<DataType>(99));
    if (of.ranks > 1)
      expect_invalid(
          [&] {
            of.comm.all_gather_v(from, 1, to, {of.ones, of.zeros}, f32);
          },
          fmt::format("all_gather_v: rank {}: the block from", of.self), "use the same memory");
  });
}

TEST_P(VectorMistakes, OfRootsAndNeighbors) {
  run([](const Side& of) {
    constexpr int root = 0;
    Communicator& comm = of.comm;
    void *const from = of.from(), *const to = of.to();
    for (const bool gathers : {true, false}) {
      const auto refuses = [&](const std::string& why, std::size_t count,
                               const Communicator::BlocksOf& blocks, int at) {
        of.refuses(gathers ? "gather_v" : "scatter_v", why, [&] {
          if (gathers) comm.gather_v(from, count, to, blocks, f32, at);
          else comm.scatter_v(from, blocks, to, count, f32, at);
        });
      };
      const Communicator::BlocksOf ones{of.ones, of.begins};
      refuses(fmt::format("root {} is none of the ranks", of.ranks), 1, ones, of.ranks);
      for (int i = of.self == root ? 3 : 0; i < 4; ++i)  // as many calls as the root's are refused
        refuses("root -1 is none", 1, ones, -1);
      if (of.self != root) continue;
      refuses(gathers ? "0 recv counts" : "0 send counts", 1, {}, root);
      refuses("its block has 3 elements", 3, ones, root);
      refuses("overflows", 1, {of.ones, of.large}, root);
    }
    const Counts twos(of.n, 2);
    if (of.self != root)
      of.refuses("gather_v", "root -1 is none", [&] { comm.gather_v(to, 2, to, {}, f32, -1); });
    else if (of.ranks > 1)
      of.refuses("gather_v", "the block from rank 1 and the root's own, which is in place, overlap",
                 [&] {
                   comm.gather_v(to, 2, to, {twos, of.begins}, f32, root);
                 });
    const auto neighbors = [&](const std::string& why, const std::vector<int>& peers,
                               const Counts& begins) {
      of.refuses("neighbor_all_to_all_v", why, [&] {
        comm.neighbor_all_to_all_v(from, {peers, Counts(peers.size(), 1), begins}, to, {}, f32);
      });
    };
    neighbors("send counts and 1 displacements for 2 peers", {of.self, of.self}, {0});
    neighbors(fmt::format("peer {} is none of the ranks", of.ranks), {of.ranks}, {0});

    // Nothing at all is no message, wherever it would lie.
    comm.all_gather_v(nullptr, 0, nullptr, {of.zeros, of.large}, f32);
    comm.gather_v(nullptr, 0, nullptr, {of.zeros, of.large}, f32, root);
    comm.scatter_v(nullptr, {of.zeros, of.large}, nullptr, 0, f32, root);
    comm.neighbor_all_to_all_v(nullptr, {}, nullptr, {}, f32);
    comm.reduce_scatter_v(nullptr, of.zeros, nullptr, f32, ReduceOp::sum);
    comm.synchronize();
    EXPECT_FALSE(comm.async_error().has_value());
  });
}

TEST_P(VectorMistakes, OfReduceScatter) {
  run([](const Side& of) {
    Counts large(of.n, ~std::size_t{0} / 16), uneven = of.ones;
    large.back() = ~std::size_t{0} / 2;
    uneven.front() = 2;
    const auto refuses = [&](const Counts& counts, const std::string& why, DataType type = f32) {
      of.refuses("reduce_scatter_v", why, [&] {
        of.comm.reduce_scatter_v(of.from(), counts, of.to(), type, ReduceOp::sum);
      });
    };
    refuses(of.longer, fmt::format("{} counts, with {} ranks", of.n + 1, of.n));
    refuses(large, "the counts of f32 overflow");
    refuses(of.ones, "99 is no data type", static_cast<DataType>(99));
    const auto of_bools = [&] {
      of.comm.reduce_scatter_v(of.from(), uneven, of.to(), DataType::boolean, ReduceOp::sum);
    };
    if (of.n > 1)
      of.refuses("reduce", "sum needs numbers, not bool", of_bools, ErrorCode::unsupported);
    const auto blocks = [&] {
      const Group group;
      of.comm.reduce_scatter_v(of.from(), uneven, of.to(), f32, ReduceOp::sum, {},
                               {.blocking = true});
    };
    expect_invalid(blocks,
                   fmt::format("reduce_scatter_v: rank {}: a blocking call in a group", of.self));
  });
}

/// No block may reach beyond a span.
TEST_P(VectorMistakes, OfSpans) {
  run([](const Side& of) {
    Communicator& comm = of.comm;
    const auto all = of.sent(of.all), few = of.sent(of.all - 1), own = of.sent(of.own);
    const auto to_all = of.received(of.all), to_few = of.received(of.all - 1),
               to_own = of.received(of.own);
    const Communicator::BlocksOf blocks{of.counts, of.begins};
    const std::string last =
        fmt::format("{} elements, and the block of rank {} is {} from element {} on", of.all - 1,
                    of.n - 1, of.n, of.all - of.n);
    of.refuses("all_to_all_v", "send has " + last,
               [&] { comm.all_to_all_v(few, blocks, to_all, blocks); });
    of.refuses("all_to_all_v", "recv has " + last,
               [&] { comm.all_to_all_v(all, blocks, to_few, blocks); });
    of.refuses("all_gather_v", "recv has " + last, [&] { comm.all_gather_v(own, to_few, blocks); });
    of.refuses("gather_v", "recv has " + last,
               [&] { comm.gather_v(own, to_few, blocks, of.self); });
    of.refuses("scatter_v", "send has " + last,
               [&] { comm.scatter_v(few, blocks, to_own, of.self); });
    of.refuses("reduce_scatter_v",
               fmt::format("send has {} elements, and the counts add up to {}", few.size(), of.all),
               [&] { comm.reduce_scatter_v(few, of.counts, to_own, ReduceOp::sum); });
    of.refuses(
        "reduce_scatter_v",
        fmt::format("recv has {0} elements, and the count of rank {0} is {1}", of.self, of.own),
        [&] { comm.reduce_scatter_v(all, of.counts, to_own.first(of.own - 1), ReduceOp::sum); });
    const std::array next{(of.self + 1) % of.ranks}, before{(of.self + of.ranks - 1) % of.ranks};
    const Counts one{1}, front{0}, end{of.all}, far{~std::size_t{0}};
    of.refuses("neighbor_all_to_all_v",
               fmt::format("send has {0} elements, and the block of rank {1} is 1 from element {0}",
                           of.all, next[0]),
               [&] {
                 comm.neighbor_all_to_all_v(all, {next, one, end}, to_all, {before, one, front});
               });
    of.refuses("neighbor_all_to_all_v", fmt::format("recv has {} elements", of.all), [&] {
      comm.neighbor_all_to_all_v(all, {next, one, front}, to_all, {before, far, front});
    });
    // Lists of wrong lengths are the call's own affair, and blocks of no rank nobody's.
    of.refuses("all_gather_v", fmt::format("{} recv counts, with {} ranks", of.n + 1, of.n), [&] {
      comm.all_gather_v(own.first(1), to_all, {of.longer, Counts(of.n + 1)});
    });
    of.refuses("reduce_scatter_v", fmt::format("{} counts, with {} ranks", of.n + 1, of.n),
               [&] { comm.reduce_scatter_v(all, of.longer, to_all.first(1), ReduceOp::sum); });
    const std::array nobody{proc_null};
    comm.neighbor_all_to_all_v(all, {nobody, far, front}, to_all, {nobody, far, front});
  });
}

/// The parts of an uneven reduce-scatter are known each by itself, and together they overlap.
TEST(VectorMistakesOfKnownCalls, PartsThatMayNotComeTogether) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  RankGroup(2).run([](Communicator& comm, Arena& arena) {
    auto* const begin = static_cast<float*>(arena.send.device());
    float* const to = begin + 2;  // rank 1's own block, and on rank 0 another's
    for (int round = 0; round < 4; ++round)
      for (int root = 0; root < 2; ++root)
        comm.reduce(begin + 2 * root, to, root == 0 ? 2 : 3, f32, ReduceOp::sum, root);
    comm.synchronize();
    if (comm.rank() == 0)
      expect_invalid(
          [&] {
            comm.reduce_scatter_v(begin, Counts{2, 3}, to, f32, ReduceOp::sum);
          },
          "reduce_scatter_v: rank 0: the block of rank", "use the same memory");
  });
}

/// A rank and the others must agree on its count, also if one of them says 0.
TEST(VectorCallsThatDiffer, InACount) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  for (const int what : {0, 1, 2, 3})
    for (const std::size_t wrong : {std::size_t{0}, std::size_t{7}}) {
      RankGroup group(3, patient());
      group.run([&](Communicator& comm, Arena& arena) {
        const std::size_t mine = comm.rank() == 1 ? wrong : 10;
        std::vector<std::size_t> counts(3, 10), begins{0, 10, 20};
        const std::vector<int> next{(comm.rank() + 1) % 3}, before{(comm.rank() + 2) % 3};
        if (what == 0) counts[1] = mine;
        void* const send = arena.send.device();
        void* const recv = arena.recv.device();
        static_cast<void>(error_of([&] {
          if (what == 0)
            comm.all_gather_v(send, counts[static_cast<std::size_t>(comm.rank())], recv,
                              {counts, begins}, DataType::f32);
          else if (what == 1) comm.gather_v(send, mine, recv, {counts, begins}, DataType::f32, 0);
          else if (what == 2) comm.scatter_v(send, {counts, begins}, recv, mine, DataType::f32, 0);
          else
            comm.neighbor_all_to_all_v(send, {next, {&mine, 1}, {begins.data(), 1}}, recv,
                                       {before, {counts.data(), 1}, {begins.data(), 1}},
                                       DataType::f32);
        }));
        static_cast<void>(error_of([&] { comm.synchronize(); }));
        const auto sides =
            what == 2 ? AllOf(HasSubstr("message 1 from rank 0 to rank 1"),
                              HasSubstr("rank 0 sends 10 f32 elements"),
                              HasSubstr(fmt::format("rank 1 receives {} f32 elements", wrong)))
                      : AllOf(HasSubstr("message 1 from rank 1 to rank"),
                              HasSubstr(fmt::format("rank 1 sends {} f32 elements", wrong)),
                              HasSubstr("receives 10 f32 elements"));
        expect_error(heard(comm), ErrorCode::mismatch, sides);
      });
    }
}

}  // namespace
}  // namespace plait::test
