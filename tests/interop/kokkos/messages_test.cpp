// The results of messages, from kernel to kernel, in groups, and with a count for each peer.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <utility>
#include <vector>

#include "values.hpp"

namespace plait::test {
namespace {

TEST(Messages, AreElementsAsTheyLieInMemory) {
  const Kokkos::View<int**, Left, Kokkos::HostSpace> matrix("matrix", 2, 3);
  const Kokkos::View<int**, Kokkos::LayoutStride, Kokkos::HostSpace> like_left = matrix;
  const Kokkos::View<int*, Right, Kokkos::HostSpace> vector("vector", 6);
  number(matrix);
  kokkos::send_recv(comm(), like_left, next(), vector, previous());
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(vector(2 * j + i), 100 * previous() + 10 * i + j) << i << ", " << j;
}

TEST(Messages, PeersAndCountsMayDiffer) {
  const auto length = [](int to) { return 3 + 4 * static_cast<std::size_t>(to); };
  const Kokkos::View<long*, Kokkos::HostSpace> src("src", length(next())),
      dst("dst", length(comm().rank()));
  fill(src);
  kokkos::send_recv(comm(), src, next(), dst, previous());
  expect(dst, "send_recv", of(static_cast<std::size_t>(previous())));
}

/// Kernels on both sides: what one writes is sent, and what was received the next one reads.
TEST(Messages, PingPongBetweenEvenAndOddRanks) {
  const Exec exec;
  const int peer = comm().rank() ^ 1;
  if (peer >= comm().size()) return;  // the last of an odd number has none
  constexpr int count = 30000;
  constexpr long rounds = 10;
  const Kokkos::View<long*, Kokkos::HostSpace> ball("ball", count);
  const auto hit = [&] {
    Kokkos::parallel_for(Kokkos::RangePolicy<Exec>(exec, 0, count),
                         [=](int i) { ball(i) += i + 1; });
  };
  for (long round = 0; round < rounds; ++round) {
    if (rank() % 2 == 0) {
      hit();
      kokkos::send(exec, comm(), constant(ball), peer);
      Kokkos::deep_copy(ball, -1);
      kokkos::recv(exec, comm(), ball, peer);
    } else {
      kokkos::recv(comm(), ball, peer);
      hit();
      kokkos::send(comm(), ball, peer);
    }
  }
  exec.fence();
  for (int i = 0; i < count; ++i) ASSERT_EQ(ball(i), 2 * rounds * (i + 1)) << i;
}

/// To and from every rank, the own one too.
TEST(Messages, OwnMessagesInAGroup) {
  const Exec exec;
  std::vector<Kokkos::View<float*, Kokkos::HostSpace>> sent, received;
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    sent.emplace_back("for " + std::to_string(peer), 20 + peer);
    received.emplace_back("from " + std::to_string(peer), 20 + rank());
    for (std::size_t i = 0; i < sent[peer].size(); ++i)
      sent[peer](i) = static_cast<float>(element(rank(), i + 7 * peer));
  }
  {
    const Group group;
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      kokkos::send(exec, comm(), sent[peer], static_cast<int>(peer));
      kokkos::recv(exec, comm(), received[peer], static_cast<int>(peer));
    }
    for (const auto& view : received) EXPECT_EQ(view(19), 0.0f) << "nothing runs before the end";
  }
  kokkos::synchronize(exec, comm());
  for (std::size_t peer = 0; peer < ranks(); ++peer)
    expect(received[peer], "recv", [peer](std::size_t i) { return element(peer, i + 7 * rank()); });
}

TEST(Messages, OfNoElementsAreNotSent) {
  const Kokkos::View<double**, Left, Kokkos::HostSpace> none("none", 0, 3);
  kokkos::send(comm(), none, next());
  kokkos::recv(comm(), Kokkos::View<double*, Kokkos::HostSpace>(), previous());
  kokkos::send_recv(comm(), none, next(), none, previous());
}

/// Along a line of ranks, whose ends have one neighbour.
TEST(Messages, WithoutAPeer) {
  using Host = Kokkos::View<long*, Kokkos::HostSpace>;
  const Host src("src", 20), dst("dst", 20), none;
  const bool first = rank() == 0, last = rank() + 1 == ranks();
  fill(src);
  kokkos::send_recv(comm(), last ? none : src, last ? proc_null : next(), first ? none : dst,
                    first ? proc_null : previous());
  if (first) kokkos::send_recv(comm(), src, proc_null, src, proc_null);  // one view may be both
  kokkos::send(comm(), src, proc_null);
  kokkos::recv(comm(), src, proc_null);
  expect(src, "src", own());
  if (!first) expect(dst, "send_recv", of(static_cast<std::size_t>(previous())));
}

/// The number of elements that rank `a` sends to `b`: none for some pairs.
std::size_t uneven(std::size_t a, std::size_t b) { return (3 * a + 5 * b) % 4 * 11; }

TEST(Messages, OfAllToAllVMayBeUneven) {
  const Displaced sent([](std::size_t peer) { return uneven(rank(), peer); });
  const Displaced received([](std::size_t peer) { return uneven(peer, rank()); });
  const Kokkos::View<double*, Right, Kokkos::HostSpace> src("src", sent.end),
      dst("dst", received.end + 1);
  fill(src);
  const auto check = [&](const char* what) {
    std::vector<unsigned> expected(dst.size());  // 0 between the blocks, and behind
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      const Displaced of_peer([peer](std::size_t to) { return uneven(peer, to); });
      for (std::size_t i = 0; i < received.counts[peer]; ++i)
        expected[received.displacements[peer] + i] =
            element(peer, of_peer.displacements[rank()] + i);
    }
    expect(dst, what, [&](std::size_t i) { return expected[i]; });
    Kokkos::deep_copy(dst, 0.0);
  };
  kokkos::all_to_all_v(Exec(), comm(), constant(src), sent.blocks(), dst, received.blocks());
  check("all_to_all_v");
  {
    const Group group;
    Displaced passed = sent;
    kokkos::all_to_all_v(comm(), src, {passed.counts, passed.displacements}, dst,
                         received.blocks());
    passed.counts.assign(ranks(), 999);  // was read
  }
  kokkos::synchronize(Exec(), comm());
  check("all_to_all_v in a group");
  expect(src, "src", own());
}

/// Each rank's block of a length of its own: none for some.
TEST(Messages, OfBlocksOfAllRanks) {
  using Host = Kokkos::View<double*, Kokkos::HostSpace>;
  const Displaced layout([](std::size_t peer) { return peer % 3 * 40; });
  const std::size_t own = layout.counts[rank()], at = layout.displacements[rank()];
  const Host src("src", own), dst("dst", own), all("all", layout.end);
  const int root = comm().size() - 1;
  const bool is_root = comm().rank() == root;
  fill(src);
  const auto check = [&](const char* what) {
    std::vector<unsigned> expected(all.size());  // 0 between the blocks
    for (std::size_t peer = 0; peer < ranks(); ++peer)
      for (std::size_t i = 0; i < layout.counts[peer]; ++i)
        expected[layout.displacements[peer] + i] = element(peer, i);
    expect(all, what, [&](std::size_t i) { return expected[i]; });
  };
  const auto only_own = [&] {
    Kokkos::deep_copy(all, 0.0);
    for (std::size_t i = 0; i < own; ++i) all(at + i) = src(i);
    return Kokkos::subview(all, std::pair(at, at + own));
  };
  kokkos::all_gather_v(comm(), constant(src), all, layout.blocks());
  check("all_gather_v");
  kokkos::all_gather_v(Exec(), comm(), only_own(), all, layout.blocks());
  check("all_gather_v in place");
  Kokkos::deep_copy(all, 0.0);
  kokkos::gather_v(comm(), src, is_root ? all : Host(), layout.blocks(), root);
  if (is_root) check("gather_v");
  if (is_root) kokkos::gather_v(comm(), only_own(), all, layout.blocks(), root);
  else kokkos::gather_v(comm(), src, Host(), {}, root);
  if (is_root) check("gather_v in place");
  kokkos::scatter_v(comm(), is_root ? all : Host(), layout.blocks(), dst, root);
  expect(dst, "scatter_v", plait::test::own());
  if (is_root) check("what scatter_v sends");
}

/// A ring of cells with halos; left and right may be one rank, or this one.
TEST(Messages, OfNeighbors) {
  const Kokkos::View<int*, Kokkos::HostSpace> cells("cells", 8);
  for (int i = 2; i < 6; ++i) cells(i) = 10 * comm().rank() + i;
  const std::vector<int> to{previous(), proc_null, next()}, from{next(), proc_null, previous()};
  const std::vector<std::size_t> counts{2, 99, 2}, edges{2, 99, 4}, halos{6, 99, 0};
  kokkos::neighbor_all_to_all_v(comm(), cells, {to, counts, edges}, cells, {from, counts, halos});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cells(i), 10 * previous() + 4 + i);
    EXPECT_EQ(cells(2 + i), 10 * comm().rank() + 2 + i);
    EXPECT_EQ(cells(6 + i), 10 * next() + 2 + i);
  }
}

}  // namespace
}  // namespace plait::test
