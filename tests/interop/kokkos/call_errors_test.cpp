// Errors of a communicator, of the library below, and of a call in a group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"

namespace plait::test {
namespace {

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

/// The last rank's third call is refused, and it goes on: all hear of it, and no sum is wrong.
TEST(Errors, OfOneRankEndTheOthersCall) {
  if (ranks() == 1) return;
  Communicator part = comm().duplicate();
  const auto n = static_cast<double>(ranks());
  const Vector x("x", 5), y("y", 6);
  const auto sum = [&](int call) {
    for (std::size_t i = 0; i < 5; ++i) x(i) = call * (7.0 * part.rank() + static_cast<double>(i));
    kokkos::all_reduce(part, x, ReduceOp::sum);
    kokkos::synchronize(Exec(), part);
    EXPECT_EQ(x(4), call * (7 * n * (n - 1) / 2 + 4 * n));
  };
  std::string error;
  try {
    for (int call = 1; call < 40; ++call)
      if (call != 3 || part.rank() != part.size() - 1) sum(call);
      else
        EXPECT_THAT(error_of([&] { kokkos::all_reduce(part, x, y, ReduceOp::sum); }),
                    HasSubstr("differ in their extents"));
  } catch (const Error& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, testing::AllOf(HasSubstr("call 3 was refused: "),
                                    HasSubstr("differ in their extents")));
}

}  // namespace
}  // namespace plait::test
