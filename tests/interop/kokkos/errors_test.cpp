// Errors of calls on Kokkos views with bad arguments, and what profilers see of calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <plait/collective_table.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <chrono>
#include <functional>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "world.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

using Matrix = Kokkos::View<double**, Right, Kokkos::HostSpace>;
using Vector = Kokkos::View<double*, Right, Kokkos::HostSpace>;

/// The error that a call throws.
template <class F>
std::string error_of(F&& call) {
  const auto calls = comm().statistics().calls;
  std::string text = "no error";
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    text = error.what();
  }
  EXPECT_EQ(comm().statistics().calls, calls) << "something was enqueued";
  return text;
}

std::string from(const char* collective) {
  return std::string(collective) + ": rank " + std::to_string(rank()) + ": ";
}

/// Those of the table, which take `src` and `dst`.
#define PLAIT_NAMED(NAME, ...) Collective::NAME,
constexpr std::array collectives = {PLAIT_COLLECTIVES(PLAIT_NAMED, PLAIT_NO_OTHER)};
#undef PLAIT_NAMED

/// A collective by its own functions, which must be there with and without an execution space.
template <class Src, class Dst>
void by_name(Collective collective, bool with_space, const Src& src, const Dst& dst, int root) {
  switch (collective) {
#define PLAIT_CALL(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                  \
  case Collective::NAME:                                                                    \
    return with_space ? kokkos::NAME(Exec(), comm(), src, dst,                              \
                                     PLAIT_IF_##OP(ReduceOp::sum, ) PLAIT_IF_##ROOT(root, ) \
                                         CallOptions())                                     \
                      : kokkos::NAME(comm(), src, dst,                                      \
                                     PLAIT_IF_##OP(ReduceOp::sum, ) PLAIT_IF_##ROOT(root, ) \
                                         CallOptions());
    PLAIT_COLLECTIVES(PLAIT_CALL, PLAIT_NO_OTHER)
#undef PLAIT_CALL
    default:
      FAIL() << name_of(collective) << " takes other arguments";
  }
}

/// Within one view. That form must be there unless the root alone has all blocks.
template <class View>
bool by_name_in_place(Collective collective, bool with_space, const View& view, int root) {
  switch (collective) {
#define PLAIT_CALL(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                         \
  case Collective::NAME: {                                                                         \
    constexpr kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(Collective::NAME);         \
    constexpr bool wanted = !(blocks.many_sent && blocks.root_sends) &&                            \
                            !(blocks.many_received && blocks.root_receives);                       \
    if constexpr (wanted) {                                                                        \
      if (with_space)                                                                              \
        kokkos::NAME(Exec(), comm(), view PLAIT_IF_##OP(, ReduceOp::sum) PLAIT_IF_##ROOT(, root)); \
      else kokkos::NAME(comm(), view PLAIT_IF_##OP(, ReduceOp::sum) PLAIT_IF_##ROOT(, root));      \
    }                                                                                              \
    return wanted;                                                                                 \
  }
    PLAIT_COLLECTIVES(PLAIT_CALL, PLAIT_NO_OTHER)
#undef PLAIT_CALL
    default:
      return false;
  }
}

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
  for (const Collective collective : collectives) {
    const kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(collective);
    const bool alike = blocks.many_sent == blocks.many_received;
    const std::string rank_said = from(std::string(name_of(collective)).c_str());
    const std::size_t sent = blocks.many_sent ? 4 * n : 4,
                      received = blocks.many_received ? 4 * n : 4;
    const auto refused = [&](const auto& src, const auto& dst, const std::string& why) {
      for (const bool with_space : {false, true})
        EXPECT_THAT(error_of([&] { by_name(collective, with_space, src, dst, self); }),
                    testing::AllOf(testing::StartsWith(rank_said), HasSubstr(why)));
    };
    const auto refused_in_place = [&](const auto& view, const std::string& why) {
      for (const bool with_space : {false, true}) {
        bool there = true;
        const std::string said =
            error_of([&] { there = by_name_in_place(collective, with_space, view, self); });
        if (!there) continue;
        EXPECT_THAT(said, testing::AllOf(testing::StartsWith(rank_said), HasSubstr(why)));
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
  }
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
  const auto column = Kokkos::subview(all, Kokkos::ALL, 1);
  const auto corner = Kokkos::subview(all, std::make_pair(0, 2), std::make_pair(0, 2));
  const std::string why = " is not contiguous; Plait does not pack, so copy it into a view that is";
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), column, ReduceOp::sum); }),
            from("all_reduce") + "view \"all\" (4)" + why);
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(comm(), corner, Matrix("dst", 2, 2), ReduceOp::sum); }),
      from("all_reduce") + "src \"all\" (2 x 2)" + why);
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), Vector("src", 4), column, ReduceOp::sum); }),
            from("all_reduce") + "dst \"all\" (4)" + why);
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

/// The error on every rank when `call` passes views of different layouts.
template <class Call>
void expect_mismatch(const Call& call) {
  Communicator part = comm().duplicate();  // it breaks
  std::string said = "no error";
  try {
    call(part);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!part.async_error() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kokkos::synchronize(Exec(), part);
  } catch (const Error& error) {
    said = error.what();
    EXPECT_EQ(name_of(error.code()), name_of(ErrorCode::mismatch)) << said;
  }
  EXPECT_THAT(said, testing::AllOf(HasSubstr("(LayoutLeft)"), HasSubstr("(LayoutRight)")));
}

using LeftMatrix = Kokkos::View<double**, Left, Kokkos::HostSpace>;

TEST(Errors, LayoutsOfRanks) {
  if (ranks() == 1) return;
  const bool odd = rank() == 1;
  const std::size_t n = ranks();
  const Matrix right("right", 4, 3), many("many", 4 * n, 3);
  const LeftMatrix left("left", 4, 3), many_left("many", 4, 3 * n);
  const Kokkos::View<double**, Kokkos::LayoutStride, Kokkos::HostSpace> strided = left;
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_reduce(part, left, ReduceOp::sum);
    else kokkos::all_reduce(part, right, ReduceOp::sum);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_reduce(part, strided, LeftMatrix("dst", 4, 3), ReduceOp::sum);
    else kokkos::all_reduce(part, right, Matrix("dst", 4, 3), ReduceOp::sum);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_gather(part, left, many_left);
    else kokkos::all_gather(part, many);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::broadcast(part, left, 0);
    else kokkos::broadcast(part, right, Matrix("dst", 4, 3), 0);
  });
  expect_mismatch([&](Communicator& part) {
    const Group group;
    if (odd) kokkos::reduce(part, left, LeftMatrix(), ReduceOp::sum, 0);
    else kokkos::reduce(part, right, Matrix("dst", 4, 3), ReduceOp::sum, 0);
  });
  // Another call in the meantime, and one that says nothing before.
  expect_mismatch([&](Communicator& part) {
    part.all_reduce(right.data(), right.data(), 12, DataType::f64, ReduceOp::sum);
    if (odd) kokkos::all_to_all(part, many_left);
    else kokkos::all_to_all(part, many);
    part.all_reduce(right.data(), right.data(), 12, DataType::f64, ReduceOp::sum);
  });
}

TEST(Errors, LayoutsOfRanksThatAgree) {
  const bool odd = rank() == 1;
  const std::size_t n = ranks();
  const Matrix right("right", 4, 3), row("row", 1, 12);
  const LeftMatrix left("left", 4, 3), column("column", 12, 1), rows("rows", 5, n);
  const Vector flat("flat", 12), mine("mine", 5), all("all", 5 * n);
  Communicator part = comm().duplicate();
  if (odd) kokkos::all_reduce(part, flat, ReduceOp::sum);  // one extent fits any order
  else kokkos::all_reduce(part, right, ReduceOp::sum);
  if (odd) kokkos::all_reduce(part, left, ReduceOp::sum);
  else part.all_reduce(right.data(), right.data(), 12, DataType::f64, ReduceOp::sum);
  if (odd) kokkos::all_reduce(part, row, ReduceOp::sum);
  else kokkos::all_reduce(part, column, ReduceOp::sum);
  if (odd) kokkos::all_gather(part, mine, rows);
  else kokkos::all_gather(part, Matrix("rows", n, 5));
  if (odd) kokkos::all_reduce(part, Matrix("reshaped", 2, 6), ReduceOp::sum);
  else kokkos::all_reduce(part, right, ReduceOp::sum);
  kokkos::send_recv(part, left, next(), right, previous());  // elements as they lie in memory
  for (int round = 0; round < 2000; ++round)
    kokkos::all_reduce(part, left, ReduceOp::max);  // more than a log remembers
  kokkos::synchronize(Exec(), part);
  EXPECT_FALSE(part.async_error().has_value());
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

TEST(Errors, NoMemory) {
  const Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>> nowhere(
      nullptr, 5);
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(comm(), nowhere, ReduceOp::sum); }),
            from("all_reduce") + "view without a label (5) has no memory");
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
  EXPECT_EQ(error_of([&] { kokkos::send(comm(), none, next()); }), from("send") + "src " + why);
  kokkos::all_reduce(comm(), Deep(&x, many, many, 0),
                     ReduceOp::sum);  // nothing, in whatever order it is counted
}

TEST(Errors, OfACommunicatorThatWasMovedFrom) {
  const Vector x("x", 5);
  std::vector<Communicator>
      parts;  // checkers of moves lose sight of an element: this one is used afterwards
  parts.push_back(comm().duplicate());
  const Communicator moved = std::move(parts.front());
  Communicator& part = parts.front();
  const std::string why = ": this communicator was moved from";
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(part, x, ReduceOp::sum); }), "all_reduce" + why);
  EXPECT_EQ(error_of([&] { kokkos::send(part, x, 0); }), "send" + why);
  EXPECT_EQ(error_of([&] { kokkos::barrier(Exec(), part); }), "barrier" + why);
  EXPECT_THAT(error_of([&] {
                const Group group;
                kokkos::all_reduce(comm(), x, ReduceOp::sum);
                error_of([&] { kokkos::all_reduce(part, x, ReduceOp::sum); });
              }),
              HasSubstr("nothing of the group was enqueued"));
}

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
  for (const std::size_t count : {std::size_t{5}, far}) {
    const auto more = changed(counts, count);
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, {more, displacements}, y, good);
              }),
              short_of(src, 4 * n - 4, count));
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, good, y, {more, displacements});
              }),
              short_of(dst, 4 * n - 4, count));
  }
  for (const std::size_t at : {4 * n - 3, 4 * n + 1, far, far - 3}) {
    const auto further = changed(displacements, at);
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, {counts, further}, y, good);
              }),
              short_of(src, at, 4));
    EXPECT_EQ(error_of([&] {
                kokkos::all_to_all_v(comm(), x, good, y, {counts, further});
              }),
              short_of(dst, at, 4));
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

TEST(Errors, OfTheLibraryComeThrough) {
  const Vector x("x", 5);
  EXPECT_THAT(error_of([&] { kokkos::broadcast(comm(), x, x, 77); }),
              HasSubstr("root 77 is none of the ranks"));
  EXPECT_THAT(
      error_of([&] { kokkos::all_reduce(comm(), x, ReduceOp::sum, {.algorithm = "nonesuch"}); }),
      HasSubstr("nonesuch"));
}

TEST(Errors, LeaveAGroup) {
  const Vector x("x", 5), y("y", 6);
  EXPECT_THAT(error_of([&] {
                const Group group;
                kokkos::all_reduce(comm(), x, ReduceOp::sum);
                kokkos::all_reduce(comm(), x, y, ReduceOp::sum);
              }),
              HasSubstr("differ in their extents"));
  EXPECT_FALSE(group_is_open());
  EXPECT_THAT(error_of([&] {
                const Group group;
                kokkos::send(comm(), x, comm().rank());
                kokkos::recv(comm(), Kokkos::subview(Matrix("matrix", 5, 2), Kokkos::ALL, 1),
                             comm().rank());
              }),
              HasSubstr("dst \"matrix\" (5) is not contiguous"));
  EXPECT_FALSE(group_is_open());
}

TEST(Errors, FailAGroupThoughCaught) {
  const Vector x("x", 5), y("y", 6);
  Kokkos::deep_copy(x, 1.0);
  std::string inside;
  EXPECT_EQ(error_of([&] {
              Group group;
              kokkos::all_reduce(comm(), x, ReduceOp::sum);
              inside = error_of([&] { kokkos::all_reduce(comm(), x, y, ReduceOp::sum); });
              group.end();
            }),
            "group: call 2: " + from("all_reduce") +
                "src \"x\" (5) and dst \"y\" (6) differ in their extents; nothing of the group was "
                "enqueued");
  EXPECT_EQ(inside, from("all_reduce") + "src \"x\" (5) and dst \"y\" (6) differ in their extents");
  EXPECT_FALSE(group_is_open());
  // The next group knows nothing of it, and nothing of the calls that were refused outside of
  // groups.
  EXPECT_THAT(error_of([&] { kokkos::all_reduce(comm(), x, y, ReduceOp::sum); }),
              HasSubstr("differ in their extents"));
  {
    const Group group;
    kokkos::all_reduce(comm(), x, ReduceOp::sum);
  }
  kokkos::synchronize(Exec(), comm());
  EXPECT_EQ(x(4), static_cast<double>(ranks()));
}

/// The members that Kokkos requires of an execution space.
template <class Space>
struct StandIn {
  using execution_space = Space;
  using memory_space = Kokkos::HostSpace;
  using device_type = Kokkos::Device<Exec, Kokkos::HostSpace>;
  using size_type = std::size_t;
  using array_layout = Left;
  using scratch_memory_space = Exec::scratch_memory_space;
};

/// Looks like Kokkos::Cuda, which this program does not have.
struct OtherSpace : StandIn<OtherSpace> {
  static const char* name() { return "OtherSpace"; }
  CUstream_st* cuda_stream() const { return nullptr; }
  int cuda_device() const { return 3; }
  void fence() const {}
};

TEST(Errors, ASpaceOfAnotherTarget) {
  const Vector x("x", 5);
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(OtherSpace(), comm(), x, ReduceOp::sum); }),
            from("all_reduce") +
                "view \"x\", in Host, is called with execution space OtherSpace, which is on cuda, "
                "but the communicator is on host");
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(OtherSpace(), comm(), x, Vector("y", 5), ReduceOp::sum); }),
      from("all_reduce") +
          "src \"x\", in Host, is called with execution space OtherSpace, which is on cuda, but "
          "the communicator is on host");
  EXPECT_EQ(error_of([&] { kokkos::recv(OtherSpace(), comm(), x, comm().rank()); }),
            from("recv") +
                "dst \"x\", in Host, is called with execution space OtherSpace, which is on cuda, "
                "but the communicator is on host");
  EXPECT_EQ(error_of([&] { kokkos::barrier(OtherSpace(), comm()); }),
            from("barrier") +
                "it is called with execution space OtherSpace, which is on cuda, but the "
                "communicator is on host");
  const CommunicatorOptions options = kokkos::communicator_options(OtherSpace());
  EXPECT_EQ(options.backend, BackendKind::cuda);
  EXPECT_EQ(options.device, 3);
  EXPECT_EQ(kokkos::communicator_options(Exec()).backend, BackendKind::host);
}

/// A host space whose kernels run when they are waited for, as those of OpenMP or Threads may.
struct LateSpace : StandIn<LateSpace> {
  static const char* name() { return "LateSpace"; }
  void fence() const {
    if (pending) std::exchange(pending, nullptr)();
  }
  inline static std::function<void()> pending;
};

/// The input is there when a call begins, and the output when it returns.
TEST(HostSpaces, AreFencedBeforeACallThatIsWaitedFor) {
  const Vector x("x", 5), y("y", 5);
  const auto fill = [](const Vector& view, double value) {
    LateSpace::pending = [=] { Kokkos::deep_copy(view, value); };
  };
  fill(x, 1);
  kokkos::all_reduce(LateSpace(), comm(), x, y, ReduceOp::sum);
  EXPECT_EQ(y(4), ranks());
  fill(x, 2);
  {
    const Group group;
    kokkos::all_reduce(LateSpace(), comm(), x, y, ReduceOp::sum);
    EXPECT_EQ(x(4), 2) << "before the call was collected";
    EXPECT_EQ(y(4), ranks()) << "nothing runs before the end of the group";
  }
  kokkos::synchronize(LateSpace(), comm());
  EXPECT_EQ(y(4), 2 * ranks());
  fill(x, 3);
  kokkos::barrier(LateSpace(), comm());
  EXPECT_EQ(x(4), 3);
  fill(x, 4);
  kokkos::synchronize(LateSpace(), comm());
  EXPECT_EQ(x(4), 4);
}

TEST(SymmetricBuffer, RefusesViewsThatAreLarger) {
  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  EXPECT_EQ(error_of([&] { buffer.view<float**>(12, 6); }),
            "SymmetricBuffer::view: 12 x 6 elements were asked for, of 60");
  EXPECT_EQ(error_of([&] { buffer.view<float* [7]>(9); }),
            "SymmetricBuffer::view: 9 x 7 elements were asked for, of 60");
  // The product is 0 in 64 bits.
  EXPECT_EQ(error_of([&] {
              buffer.view<float**, Kokkos::LayoutLeft>(std::size_t{1} << 33, std::size_t{1} << 31);
            }),
            "SymmetricBuffer::view: 8589934592 x 2147483648 elements were asked for, of 60");
  EXPECT_EQ(error_of([&] { buffer.view<float*>(-1); }),
            "SymmetricBuffer::view: 18446744073709551615 elements were asked for, of 60");
  EXPECT_EQ(buffer.view<float**>(std::size_t{1} << 33, 0).size(), 0u);
  EXPECT_EQ(buffer.view<float* [6]>(10).span(), 60u);
}

// --- profiling

std::vector<std::string> regions;
int depth = 0;

TEST(Profiling, RegionsSayWhatIsCalled) {
  const Matrix a("a", 4, 3), b("b", 4, 3);
  Kokkos::Tools::Experimental::set_push_region_callback([](const char* name) {
    regions.emplace_back(name);
    ++depth;
  });
  Kokkos::Tools::Experimental::set_pop_region_callback([] { --depth; });
  regions.clear();
  kokkos::all_reduce(comm(), a, b, ReduceOp::sum);
  kokkos::all_gather(comm(),
                     Kokkos::View<bf16**, Right, Kokkos::HostSpace>("c", 1024 * ranks(), 1));
  kokkos::barrier(Exec(), comm());
  EXPECT_THAT(
      error_of([&] { kokkos::all_reduce(comm(), a, ReduceOp::sum, {.algorithm = "nonesuch"}); }),
      HasSubstr("nonesuch"));
  {
    const Group group;
    kokkos::send(comm(), Kokkos::subview(a, 0, Kokkos::ALL), comm().rank());
    kokkos::recv(comm(), Kokkos::subview(b, 0, Kokkos::ALL), comm().rank());
  }
  kokkos::synchronize(Exec(), comm());
  kokkos::send_recv(comm(), a, next(), b, previous());
  const std::vector<std::size_t> counts(ranks(), 2), same(ranks());
  const Displaced received([](std::size_t) { return 2; });
  kokkos::all_to_all_v(comm(), Vector("for all", 2), {counts, same}, Vector("of all", received.end),
                       received.blocks());
  EXPECT_EQ(depth, 0);
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  const std::string all = std::to_string(2 * ranks());
  EXPECT_THAT(regions, testing::ElementsAre("plait::all_reduce [f64, 12]",
                                            "plait::all_gather [bf16, 1024]", "plait::barrier",
                                            "plait::all_reduce [f64, 12]", "plait::send [f64, 3]",
                                            "plait::recv [f64, 3]", "plait::send_recv [f64, 12]",
                                            "plait::all_to_all_v [f64, " + all + "]"));
}

}  // namespace
}  // namespace plait::test
