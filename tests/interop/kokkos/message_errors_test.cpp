// Errors of messages: their views, their peers, and the blocks of `all_to_all_v`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"

namespace plait::test {
namespace {

TEST(Errors, OfMessages) {
  const Matrix all("all", 4, 6);
  const auto column = Kokkos::subview(all, Kokkos::ALL, 1);
  const Vector x("x", 5);
  const int self = comm().rank();
  const std::string why = " is not contiguous; Plait does not pack, so copy it into a view that is";
  EXPECT_EQ(error_of([&] { kokkos::send(comm(), column, self); }),
            from("send") + "src \"all\" (4)" + why);
  EXPECT_EQ(error_of([&] { kokkos::recv(comm(), column, self); }),
            from("recv") + "dst \"all\" (4)" + why);
  EXPECT_EQ(error_of([&] { kokkos::send_recv(comm(), x, self, column, self); }),
            from("send_recv") + "dst \"all\" (4)" + why);
  EXPECT_EQ(error_of([&] { kokkos::send_recv(comm(), column, self, x, self); }),
            from("send_recv") + "src \"all\" (4)" + why);

  const Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> nowhere(
      nullptr, 5);
  EXPECT_EQ(error_of([&] { kokkos::send(comm(), nowhere, self); }),
            from("send") + "src without a label (5) has no memory");
  EXPECT_EQ(error_of([&] { kokkos::recv(comm(), nowhere, self); }),
            from("recv") + "dst without a label (5) has no memory");

  const auto part = [&](std::size_t begin, std::size_t size) {
    return Kokkos::subview(x, std::make_pair(begin, begin + size));
  };
  const std::string overlap =
      from("send_recv") + "src \"x\" (3) and dst \"x\" (3) overlap; pass disjoint views";
  EXPECT_EQ(
      error_of([&] { kokkos::send_recv(comm(), part(0, 3), next(), part(2, 3), previous()); }),
      overlap);
  EXPECT_EQ(
      error_of([&] { kokkos::send_recv(comm(), part(2, 3), next(), part(0, 3), previous()); }),
      overlap);
  EXPECT_EQ(
      error_of([&] { kokkos::send_recv(comm(), part(0, 3), next(), part(0, 3), previous()); }),
      overlap);
  kokkos::send_recv(comm(), part(0, 2), next(), part(2, 2), previous());  // side by side
}

TEST(Errors, PeersOfMessages) {
  const Vector x("x", 5), y("y", 4);
  const int self = comm().rank();
  const std::string none = "peer " + std::to_string(ranks()) + " is none of the ranks 0 to " +
                           std::to_string(ranks() - 1);
  EXPECT_EQ(error_of([&] { kokkos::send(comm(), x, comm().size()); }), from("send") + none);
  EXPECT_EQ(error_of([&] { kokkos::recv(comm(), x, comm().size()); }), from("recv") + none);
  EXPECT_EQ(error_of([&] { kokkos::send_recv(comm(), x, self, y, comm().size()); }),
            from("send_recv") + none);
  EXPECT_THAT(error_of([&] { kokkos::send_recv(comm(), x, -1, y, self); }),
              HasSubstr("peer -1 is none of the ranks"));
  EXPECT_THAT(error_of([&] { kokkos::send(comm(), x, self); }),
              HasSubstr("sends to itself: 1 messages, and receives 0"));
  EXPECT_THAT(error_of([&] { kokkos::send_recv(comm(), x, self, y, self); }),
              HasSubstr("5 f64 elements, and receives 4 f64"));
}

TEST(Errors, OfAllToAllV) {
  const std::size_t n = ranks(), far = ~std::size_t{0};
  const Vector x("x", 4 * n), y("y", 4 * n);
  const std::vector<std::size_t> counts(n, 4);
  std::vector<std::size_t> displacements(n);
  for (std::size_t peer = 0; peer < n; ++peer) displacements[peer] = 4 * peer;
  const Communicator::BlocksOf good{counts, displacements};
  const auto changed = [](std::vector<std::size_t> values, std::size_t last) {
    values.back() = last;
    return values;
  };
  const auto short_of = [&](const std::string& view, std::size_t at, std::size_t count) {
    return from("all_to_all_v") + view + " rank " + std::to_string(n - 1) + " begins at " +
           std::to_string(at) + ", with a count of " + std::to_string(count);
  };
  const std::string extent = std::to_string(4 * n), before = std::to_string(4 * n - 1);
  const std::string src = "src \"x\" (" + extent + ") is too short: the block for";
  const std::string dst = "dst \"y\" (" + extent + ") is too short: the block from";
  // Counts of the last block, and where it begins.
  const std::vector<std::pair<std::size_t, std::size_t>> wrong{
      {5, 4 * n - 4}, {far, 4 * n - 4}, {4, 4 * n - 3}, {4, 4 * n + 1}, {4, far}, {4, far - 3}};
  for (const auto& [count, at] : wrong) {
    const auto more = changed(counts, count), further = changed(displacements, at);
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, {more, further}, y, good);
              }),
              short_of(src, at, count));
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, good, y, {more, further});
              }),
              short_of(dst, at, count));
  }
  const Vector less = Kokkos::subview(y, std::make_pair(std::size_t{0}, 4 * n - 1));
  EXPECT_EQ(error_of([&] { kokkos::all_to_all_v(comm(), x, good, less, good); }),
            short_of("dst \"y\" (" + before + ") is too short: the block from", 4 * n - 4, 4));
  const auto even = Kokkos::subview(Matrix("matrix", 4 * n, 2), Kokkos::ALL, 0);
  EXPECT_THAT(error_of([&] { kokkos::all_to_all_v(comm(), even, good, y, good); }),
              HasSubstr("src \"matrix\" (" + extent + ") is not contig"));
  EXPECT_THAT(error_of([&] { kokkos::all_to_all_v(comm(), x, good, even, good); }),
              HasSubstr("dst \"matrix\" (" + extent + ") is not contig"));

  const std::vector<std::size_t> too_many(n + 1);
  const std::string sizes =
      std::to_string(n + 1) + " recv displacements, with " + std::to_string(n) + " ranks";
  EXPECT_EQ(error_of([&] {
              kokkos::all_to_all_v(comm(), x, good, y, {counts, too_many});
            }),
            from("all_to_all_v") + sizes);
  EXPECT_THAT(error_of([&] { kokkos::all_to_all_v(comm(), x, good, x, good); }),
              HasSubstr("use the same memory"));
  kokkos::all_to_all_v(comm(), x, good, y, good);  // nothing is wrong with these
  const std::vector<std::size_t> nothing(n), anywhere(n, 1000);
  kokkos::all_to_all_v(comm(), x, {nothing, anywhere}, y,
                       {nothing, anywhere});  // nor with what is not there
}

TEST(Errors, OfBlocksOfAllRanks) {
  const std::size_t n = ranks();
  const int root = comm().rank();  // each rank refuses alone
  const Vector x("x", 4), all("all", 4 * n - 1);
  const std::vector<std::size_t> counts(n, 4);
  std::vector<std::size_t> displacements(n);
  for (std::size_t peer = 0; peer < n; ++peer) displacements[peer] = 4 * peer;
  const Communicator::BlocksOf blocks{counts, displacements};
  const std::string last = std::to_string(n - 1) + " begins at " + std::to_string(4 * n - 4) +
                           ", with a count of 4",
                    extent =
                        " \"all\" (" + std::to_string(4 * n - 1) + ") is too short: the block ";
  EXPECT_EQ(error_of([&] { kokkos::all_gather_v(comm(), x, all, blocks); }),
            from("all_gather_v") + "dst" + extent + "from rank " + last);
  EXPECT_EQ(error_of([&] { kokkos::gather_v(comm(), x, all, blocks, root); }),
            from("gather_v") + "dst" + extent + "from rank " + last);
  EXPECT_EQ(error_of([&] { kokkos::scatter_v(comm(), all, blocks, x, root); }),
            from("scatter_v") + "src" + extent + "for rank " + last);
  const std::vector<int> peers{proc_null, root};
  const std::vector<std::size_t> two{400, 3}, at{0, 2};
  EXPECT_EQ(error_of([&] {
              kokkos::neighbor_all_to_all_v(comm(), x, {peers, two, at}, all, {});
            }),
            from("neighbor_all_to_all_v") + "src \"x\" (4) is too short: the block for rank " +
                std::to_string(root) + " begins at 2, with a count of 3");
  EXPECT_THAT(error_of([&] { kokkos::gather_v(comm(), x, all, {}, comm().size()); }),
              HasSubstr("none of the ranks"));
}

}  // namespace
}  // namespace plait::test
