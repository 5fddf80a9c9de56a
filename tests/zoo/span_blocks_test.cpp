// Calls with a count per rank or per neighbour, as they take spans: the type and the extents come
// from these, and no block may reach beyond them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
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
class SpanBlocks : public testing::TestWithParam<int> {
 protected:
  struct Side {
    Communicator& comm;
    Arena& arena;
    std::size_t n, self, all;
    Counts counts, begins;

    Side(Communicator& c, Arena& a)
        : comm(c),
          arena(a),
          n(static_cast<std::size_t>(c.size())),
          self(static_cast<std::size_t>(c.rank())),
          all(n * (n + 1) / 2),
          counts(n),
          begins(n) {
      std::iota(counts.begin(), counts.end(), std::size_t{1});
      std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), std::size_t{0});
    }
    Communicator::BlocksOf blocks() const { return {counts, begins}; }
    std::span<const int> send(const std::vector<int>& values) const {
      arena.send.place(0, values.size() * sizeof(int));
      std::memcpy(arena.send.image(), values.data(), values.size() * sizeof(int));
      arena.send.upload({});
      comm.synchronize();
      return {static_cast<const int*>(arena.send.device()), values.size()};
    }
    std::span<int> recv(std::size_t count) const {
      arena.recv.place(0, count * sizeof(int));
      std::memset(arena.recv.image(), 0, count * sizeof(int));
      arena.recv.upload({});
      comm.synchronize();
      return {static_cast<int*>(arena.recv.device()), count};
    }
    void expect(const std::vector<int>& wanted) const {
      arena.recv.download({});
      comm.synchronize();
      std::vector<int> got(wanted.size());
      std::memcpy(got.data(), arena.recv.image(), got.size() * sizeof(int));
      EXPECT_EQ(got, wanted);
      EXPECT_EQ(arena.recv.damage(), "");
    }
    /// What each rank has in its block: its number, once more for each element.
    std::vector<int> gathered() const {
      std::vector<int> all_blocks;
      for (std::size_t rank = 0; rank < n; ++rank)
        all_blocks.insert(all_blocks.end(), rank + 1, static_cast<int>(rank) + 1);
      return all_blocks;
    }
    std::vector<int> own() const { return std::vector<int>(self + 1, static_cast<int>(self) + 1); }
  };

  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
  static void run(const std::function<void(const Side&)>& body) {
    RankGroup::cached(GetParam()).run([&](Communicator& comm, Arena& arena) {
      body(Side(comm, arena));
      comm.synchronize();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, SpanBlocks, testing::Values(1, 2, 3),
                         [](const auto& test) { return "n" + std::to_string(test.param); });

TEST_P(SpanBlocks, AllToAll) {
  run([](const Side& of) {
    // To each rank as many elements as this rank's number and one; so from rank r, r + 1.
    const Counts sent(of.n, of.self + 1);
    Counts begins(of.n);
    std::exclusive_scan(sent.begin(), sent.end(), begins.begin(), std::size_t{0});
    const auto from =
        of.send(std::vector<int>(of.n * (of.self + 1), static_cast<int>(of.self) + 1));
    of.comm.all_to_all_v(from, {sent, begins}, of.recv(of.all), of.blocks());
    of.expect(of.gathered());
  });
}

TEST_P(SpanBlocks, Gathers) {
  run([](const Side& of) {
    of.comm.all_gather_v(of.send(of.own()), of.recv(of.all), of.blocks());
    of.expect(of.gathered());
    const int root = of.comm.size() - 1;
    const bool is_root = of.comm.rank() == root;
    // Only the root has blocks and memory for them.
    const auto to = of.recv(is_root ? of.all : 0);
    of.comm.gather_v(of.send(of.own()), to, is_root ? of.blocks() : Communicator::BlocksOf{}, root);
    if (is_root) of.expect(of.gathered());
  });
}

TEST_P(SpanBlocks, Scatter) {
  run([](const Side& of) {
    const bool is_root = of.comm.rank() == 0;
    const auto from = of.send(is_root ? of.gathered() : std::vector<int>());
    of.comm.scatter_v(from, is_root ? of.blocks() : Communicator::BlocksOf{}, of.recv(of.self + 1),
                      0);
    of.expect(of.own());
  });
}

TEST_P(SpanBlocks, ReduceScatter) {
  run([](const Side& of) {
    std::vector<int> sum = of.own();
    for (int& element : sum) element *= of.comm.size();
    of.comm.reduce_scatter_v(of.send(of.gathered()), of.counts, of.recv(of.self + 1),
                             ReduceOp::sum);
    of.expect(sum);
  });
}

TEST_P(SpanBlocks, Neighbors) {
  run([](const Side& of) {
    const int n = of.comm.size(), self = of.comm.rank(), before = (self + n - 1) % n;
    const std::array to{(self + 1) % n, proc_null}, from{before, proc_null};
    const Counts sent{of.self + 1, 1000}, received{static_cast<std::size_t>(before) + 1, 1000};
    const Counts begins{0, 1000};  // of no rank: not looked at
    of.comm.neighbor_all_to_all_v(of.send(of.own()), {to, sent, begins}, of.recv(received[0]),
                                  {from, received, begins});
    of.expect(std::vector<int>(received[0], before + 1));
  });
}

TEST_P(SpanBlocks, BlocksBeyondTheSpanAreRefused) {
  run([](const Side& of) {
    const std::string rank = fmt::format("rank {}: ", of.self);
    const auto refused = [&](std::string_view what, const std::string& why, const auto& call) {
      const auto sentence = AllOf(HasSubstr(fmt::format("{}: {}", what, rank)), HasSubstr(why));
      expect_error(error_of(call), ErrorCode::invalid_argument, sentence);
      expect_error(error_of([&] {
                     const Group group;
                     call();
                   }),
                   ErrorCode::invalid_argument, sentence);
    };
    const auto from = of.send(of.gathered());
    const auto to = of.recv(of.all);
    const auto few = to.first(of.all - 1);
    const auto few_sent = from.first(of.all - 1);
    const std::string last =
        fmt::format("{} elements, and the block of rank {} is {} from element {} on", of.all - 1,
                    of.n - 1, of.n, of.all - of.n);
    refused("all_to_all_v", "send has " + last,
            [&] { of.comm.all_to_all_v(few_sent, of.blocks(), to, of.blocks()); });
    refused("all_to_all_v", "recv has " + last,
            [&] { of.comm.all_to_all_v(from, of.blocks(), few, of.blocks()); });
    refused("all_gather_v", "recv has " + last,
            [&] { of.comm.all_gather_v(from.first(of.self + 1), few, of.blocks()); });
    const int self = of.comm.rank();
    refused("gather_v", "recv has " + last,
            [&] { of.comm.gather_v(from.first(of.self + 1), few, of.blocks(), self); });
    refused("scatter_v", "send has " + last,
            [&] { of.comm.scatter_v(few_sent, of.blocks(), to.first(of.self + 1), self); });
    refused("reduce_scatter_v",
            fmt::format("send has {} elements, and the counts add up to {}", of.all - 1, of.all),
            [&] {
              of.comm.reduce_scatter_v(few_sent, of.counts, to.first(of.self + 1), ReduceOp::sum);
            });
    refused("reduce_scatter_v",
            fmt::format("recv has {} elements, and the count of rank {} is {}", of.self, of.self,
                        of.self + 1),
            [&] { of.comm.reduce_scatter_v(from, of.counts, to.first(of.self), ReduceOp::sum); });
    const std::array next{(self + 1) % of.comm.size()},
        before{(self + of.comm.size() - 1) % of.comm.size()};
    const Counts one{1}, front{0}, end{of.all}, far{~std::size_t{0}};
    refused("neighbor_all_to_all_v",
            fmt::format("send has {} elements, and the block of rank {} is 1 from element {} on",
                        of.all, next[0], of.all),
            [&] {
              of.comm.neighbor_all_to_all_v(from, {next, one, end}, to, {before, one, front});
            });
    refused("neighbor_all_to_all_v", fmt::format("recv has {} elements", of.all), [&] {
      of.comm.neighbor_all_to_all_v(from, {next, one, front}, to, {before, far, front});
    });
    // Lists of wrong lengths are the call's own affair.
    const Counts longer(of.n + 1, 0);
    refused("all_gather_v", fmt::format("{} recv counts, with {} ranks", of.n + 1, of.n), [&] {
      of.comm.all_gather_v(from.first(1), to, {longer, longer});
    });
    refused("reduce_scatter_v", fmt::format("{} counts, with {} ranks", of.n + 1, of.n),
            [&] { of.comm.reduce_scatter_v(from, longer, to.first(1), ReduceOp::sum); });
    of.comm.barrier();
  });
}

}  // namespace
}  // namespace plait::test
