// What ranks hear of other nodes.
#include "communicator/fault/board.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bootstrap/nodes.hpp"
#include "support/pretend_nodes.hpp"

namespace plait::test {
namespace {

using News = std::vector<std::byte>;

/// Each rank of the other node tells one rank here of its calls, and all ranks here of its end.
/// The two may be threads of one process, and the news of the end may arrive first.
TEST(Board, ThreadsHearOfAnotherNodeApart) {
  const std::vector<int> nodes{0, 0, 1, 1};
  auto bootstraps = make_thread_bootstraps(4);
  News first, second, end;  // of rank 2
  on_threads(4, [&](int rank) {
    const auto own = static_cast<std::size_t>(rank);
    PretendNodes bootstrap(std::move(bootstraps[own]), nodes);
    const Nodes placed(bootstrap);
    Board board(bootstrap, placed);
    const auto publish = [&](std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t call = from; call <= to; ++call)
        board.publish(call, Signature::of({.count = call}, 1, {}));
    };
    publish(1, 20);
    if (rank == 2) first = board.call_news();
    publish(21, 36);
    if (rank == 2) {
      second = board.call_news();
      board.announce(Board::State::left);
      end = board.news();
    }
    bootstrap.barrier();
    if (rank == 0) board.hear(2, first);
    bootstrap.barrier();
    if (rank == 1) board.hear(2, end);
    bootstrap.barrier();
    if (rank == 0) {
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.state(2), Board::State::working);
      EXPECT_EQ(board.calls(2), 20u);
      board.hear(2, second);
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.calls(2), 36u);
    }
    if (rank == 1) {
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.state(2), Board::State::left);
      EXPECT_EQ(board.calls(2), 36u);
    }
    bootstrap.barrier();
  });
}

}  // namespace
}  // namespace plait::test
