// Errors of collectives on views that do not fit: to each other, to the ranks, or in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <utility>
#include <vector>

#include "by_name.hpp"
#include "errors.hpp"

namespace plait::test {
namespace {

/// One of each kind of mistake, in each collective, in each form. Every rank is the root.
TEST(Errors, OfEveryCollective) {
  const std::size_t n = ranks();
  const int self = comm().rank();
  const Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> nowhere(
      nullptr, 4 * n);
  const Matrix all("all", 4 * n, 6);
  const auto strided = Kokkos::subview(all, Kokkos::ALL, 1);
  const Vector whole("whole", 8 * n + 8);
  const auto part = [&](std::size_t begin, std::size_t size) {
    return Kokkos::subview(whole, std::make_pair(begin, begin + size));
  };
  for_each_collective([&]<Collective collective>() {
    constexpr kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(collective);
    const bool alike = blocks.many_sent == blocks.many_received;
    const std::string rank_said = from(std::string(name_of(collective)).c_str());
    const std::size_t sent = blocks.many_sent ? 4 * n : 4,
                      received = blocks.many_received ? 4 * n : 4;
    const auto refused = [&](const auto& src, const auto& dst, const std::string& why) {
      for (const bool with_space : {false, true})
        EXPECT_THAT(error_of([&] { Functions<collective>::call(with_space, self, src, dst); }),
                    testing::AllOf(testing::StartsWith(rank_said), HasSubstr(why)));
    };
    const auto refused_in_place = [&](const auto& view, const std::string& why) {
      if constexpr (has_form_in_place<collective>()) {
        for (const bool with_space : {false, true})
          EXPECT_THAT(error_of([&] { Functions<collective>::call(with_space, self, view); }),
                      testing::AllOf(testing::StartsWith(rank_said), HasSubstr(why)));
      }
    };
    const std::string unlike =
        alike ? "differ in their extents" : "once for each of " + std::to_string(n) + " ranks";
    for (const bool of_src : {false, true})
      refused(Matrix("src", sent + (of_src ? 1 : 0), 3),
              Matrix("dst", received + (of_src ? 0 : 1), 3), unlike);
    refused(Matrix("src", sent, 3), Matrix("dst", received, 2), unlike);
    const std::string gaps = " is not contiguous; Plait does not pack, so copy it into a view that";
    refused(strided, Vector("dst", received), "src \"all\" (" + std::to_string(4 * n) + ")" + gaps);
    refused(Vector("src", sent), strided, "dst \"all\" (" + std::to_string(4 * n) + ")" + gaps);
    refused_in_place(strided, "view \"all\" (" + std::to_string(4 * n) + ")" + gaps);
    refused(nowhere, part(0, received), "src without a label (");
    refused(part(0, sent), nowhere, "dst without a label (");
    refused_in_place(nowhere, "view without a label (" + std::to_string(4 * n) + ") has no memory");
    // One element from where it would be in place.
    const std::size_t mine = alike ? 0 : 4 * rank(), off = mine + 1;
    if (blocks.many_received && !alike)
      refused(part(off, sent), part(0, received), " overlap; pass");
    else refused(part(0, sent), part(off, received), " overlap; pass");
    if (blocks.many_sent && blocks.many_received && n > 1) {
      refused(part(0, sent + 1), part(4 * n + 1, received + 1), "can't be cut into");
    }
    if ((blocks.many_sent || blocks.many_received) && n > 1)
      refused_in_place(part(0, 4 * n + 1), "can't be cut into " + std::to_string(n) + " blocks");
  });
}

TEST(Errors, Blocks) {
  const std::size_t n = ranks();
  const std::string all = std::to_string(n);
  const Matrix a("a", 4, 3), b("b", 4 * n + 1, 3), c("c", 4 * n, 2);
  const Kokkos::View<double***, Right, Kokkos::HostSpace> d("d", n + 1, 4, 3), e("e", n, 3, 4);
  EXPECT_EQ(error_of([&] { kokkos::all_gather(comm(), a, b); }),
            from("all_gather") + "dst \"b\" (" + std::to_string(4 * n + 1) +
                " x 3) is not src \"a\" (4 x 3) once for each of " + all +
                " ranks along its slowest extent");
  EXPECT_THAT(error_of([&] { kokkos::all_gather(comm(), a, c); }), HasSubstr("dst \"c\""));
  EXPECT_THAT(error_of([&] { kokkos::all_gather(comm(), a, d); }), HasSubstr("dst \"d\""));
  EXPECT_THAT(error_of([&] { kokkos::all_gather(comm(), a, e); }), HasSubstr("dst \"e\""));
  if (n == 1) return;
  const std::string cut = "\"b\" (" + std::to_string(4 * n + 1) + " x 3) can't be cut into " + all +
                          " blocks along its slowest extent";
  EXPECT_EQ(error_of([&] { kokkos::all_to_all(comm(), b); }), from("all_to_all") + "view " + cut);
  EXPECT_EQ(error_of([&] { kokkos::all_to_all(comm(), b, Matrix("f", 4 * n + 1, 3)); }),
            from("all_to_all") + "src " + cut);
}

TEST(Errors, NotContiguous) {
  const Matrix all("all", 4, 6);
  const auto corner = Kokkos::subview(all, std::make_pair(0, 2), std::make_pair(0, 2));
  const std::string why = " is not contiguous; Plait does not pack, so copy it into a view that is";
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(comm(), corner, Matrix("dst", 2, 2), ReduceOp::sum); }),
      from("all_reduce") + "src \"all\" (2 x 2)" + why);
  // As large as its span by chance.
  const Kokkos::View<double*, Kokkos::HostSpace> memory("memory", 25);
  const Kokkos::View<double**, Kokkos::LayoutStride, Kokkos::HostSpace> overlapping(
      memory.data(), Kokkos::LayoutStride(4, 4, 4, 4));
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), overlapping, ReduceOp::sum); }),
            from("all_reduce") + "view without a label (4 x 4)" + why);
  const Kokkos::View<double***, Right, Kokkos::HostSpace> deep("deep", 3, 4, 6);
  const auto rows =
      Kokkos::subview(deep, std::make_pair(0, 1), std::make_pair(0, 2), std::make_pair(1, 6));
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), rows, ReduceOp::sum); }),
            from("all_reduce") + "view \"deep\" (1 x 2 x 5)" + why);
}

TEST(Errors, OrderOfElements) {
  const Kokkos::View<double**, Left, Kokkos::HostSpace> left("left", 4, 3);
  const Kokkos::View<double**, Kokkos::LayoutStride, Kokkos::HostSpace> like_left = left;
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(comm(), like_left, Matrix("dst", 4, 3), ReduceOp::sum); }),
      from("all_reduce") +
          "src \"left\" (4 x 3) and dst \"dst\" (4 x 3) differ in the order of their elements");
  const Matrix flat("flat", 1, 7);  // one column or row is in either order
  const Kokkos::View<double**, Kokkos::LayoutStride, Kokkos::HostSpace> like_right = flat;
  kokkos::all_reduce(comm(), like_right,
                     Kokkos::View<double**, Left, Kokkos::HostSpace>("dst", 1, 7), ReduceOp::sum);
}

TEST(Errors, Overlap) {
  const std::size_t n = ranks();
  const Vector all("all", 4 * n + 4);
  const auto part = [&](std::size_t begin, std::size_t size) {
    return Kokkos::subview(all, std::make_pair(begin, begin + size));
  };
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(comm(), part(0, 4), part(2, 4), ReduceOp::sum); }),
      from("all_reduce") +
          "src \"all\" (4) and dst \"all\" (4) overlap; pass disjoint views, or in place the same");
  const std::string mine = "block " + std::to_string(rank());
  EXPECT_THAT(
      error_of([&] { kokkos::all_gather(comm(), part(4 * rank() + 1, 4), part(0, 4 * n)); }),
      HasSubstr("or in place " + mine + " of dst as src"));
  EXPECT_THAT(error_of([&] {
                kokkos::reduce_scatter(comm(), part(0, 4 * n), part(4 * rank() + 1, 4),
                                       ReduceOp::sum);
              }),
              HasSubstr("or in place " + mine + " of src as dst"));
  kokkos::all_reduce(comm(), part(0, 4), part(4, 4), ReduceOp::sum);  // side by side
}

/// Blocks with a count per rank: rank r's has r + 1 elements.
TEST(Errors, CountsOfReduceScatterV) {
  const std::size_t n = ranks(), own = rank() + 1, total = n * (n + 1) / 2;
  const std::size_t begin = rank() * (rank() + 1) / 2;
  const Vector memory("memory", total + n + 1), dst("dst", own);
  const auto part = [&](std::size_t first, std::size_t size) {
    return Kokkos::subview(memory, std::make_pair(first, first + size));
  };
  const auto src = part(0, total);
  std::vector<std::size_t> counts(n);
  for (std::size_t r = 0; r < n; ++r) counts[r] = r + 1;
  const auto refused = [&](const auto& sent, const std::vector<std::size_t>& passed,
                           const auto& received, const std::string& why) {
    EXPECT_EQ(
        error_of([&] { kokkos::reduce_scatter_v(comm(), sent, passed, received, ReduceOp::sum); }),
        from("reduce_scatter_v") + why);
    EXPECT_THAT(error_of([&] {
                  const Group group;
                  error_of([&] {
                    kokkos::reduce_scatter_v(Exec(), comm(), sent, passed, received, ReduceOp::sum);
                  });
                }),
                HasSubstr(why + "; nothing of the group was enqueued"));
  };
  const auto in_words = [](std::size_t number) { return std::to_string(number); };
  const std::string sum = " elements, and the counts add up to ";
  for (const std::size_t size : {total - 1, total + 1})
    refused(
        part(0, size), counts, dst,
        "src \"memory\" (" + in_words(size) + ") has " + in_words(size) + sum + in_words(total));
  for (const std::size_t size : {own - 1, own + 1})
    refused(src, counts, Vector("dst", size),
            "dst \"dst\" (" + in_words(size) + ") has " + in_words(size) +
                " elements, and the count of rank " + in_words(rank()) + " is " + in_words(own));
  std::vector<std::size_t> other = counts;
  other.front() = ~std::size_t{0};  // the sum would overflow
  refused(src, other, dst,
          "src \"memory\" (" + in_words(total) + ") has " + in_words(total) + sum +
              in_words(other.front()));
  other.assign(n + 1, 0);
  refused(src, other, dst, in_words(n + 1) + " counts, with " + in_words(n) + " ranks");
  refused(src, {}, dst, "0 counts, with " + in_words(n) + " ranks");
  const auto overlaps = [&](const auto& received) {
    refused(src, counts, received,
            "src \"memory\" (" + in_words(total) + ") and dst \"memory\" (" + in_words(own) +
                ") overlap; pass disjoint views, or in place block " + in_words(rank()) +
                " of src as dst");
  };
  if (n > 1) {  // as many on each rank
    overlaps(part(begin != 0 ? begin - 1 : begin + 1, own));
    overlaps(part(begin + 1 < total ? begin + 1 : begin - 1, own));
  }
  const auto column = Kokkos::subview(Matrix("matrix", 4, 2), Kokkos::ALL, 0);
  EXPECT_THAT(
      error_of([&] { kokkos::reduce_scatter_v(comm(), column, counts, dst, ReduceOp::sum); }),
      HasSubstr("src \"matrix\" (4) is not contiguous"));
  kokkos::reduce_scatter_v(comm(), src, counts, part(total, own), ReduceOp::sum);  // side by side
  kokkos::reduce_scatter_v(comm(), src, counts, part(begin, own), ReduceOp::sum);  // in place
}

TEST(Errors, NoMemory) {
  EXPECT_EQ(error_of([&] {
              kokkos::all_reduce(comm(), Kokkos::View<double, Kokkos::HostSpace>(), ReduceOp::sum);
            }),
            from("all_reduce") + "view without a label (scalar) has no memory");
}

TEST(Errors, ProductOfExtents) {
  using Deep =
      Kokkos::View<double***, Right, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  double x = 0;
  const std::size_t many = std::size_t{1} << 31;  // Kokkos 3.4 keeps 32 bits of an extent
  const Deep none(&x, many, many, 4);
  const std::string why =
      "without a label (2147483648 x 2147483648 x 4) has extents whose product overflows";
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), none, ReduceOp::sum); }),
            from("all_reduce") + "view " + why);
  EXPECT_EQ(error_of([&] { kokkos::all_to_all(comm(), none, none); }),
            from("all_to_all") + "src " + why);
  EXPECT_EQ(error_of([&] { kokkos::send(comm(), none, comm().rank()); }),
            from("send") + "src " + why);
  kokkos::all_reduce(comm(), Deep(&x, many, many, 0),
                     ReduceOp::sum);  // nothing, in whatever order it is counted
}

}  // namespace
}  // namespace plait::test
