// Errors of calls to which the ranks pass views of different layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <chrono>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <thread>

#include "errors.hpp"

namespace plait::test {
namespace {

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
  // The calls of a group run at its end, so a view must live longer than the group.
  const Matrix right("right", 4, 3), many("many", 4 * n, 3), dst("dst", 4, 3);
  const LeftMatrix left("left", 4, 3), many_left("many", 4, 3 * n), left_dst("dst", 4, 3);
  const Kokkos::View<double**, Kokkos::LayoutStride, Kokkos::HostSpace> strided = left;
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_reduce(part, left, ReduceOp::sum);
    else kokkos::all_reduce(part, right, ReduceOp::sum);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_reduce(part, strided, left_dst, ReduceOp::sum);
    else kokkos::all_reduce(part, right, dst, ReduceOp::sum);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::all_gather(part, left, many_left);
    else kokkos::all_gather(part, many);
  });
  expect_mismatch([&](Communicator& part) {
    if (odd) kokkos::broadcast(part, left, 0);
    else kokkos::broadcast(part, right, dst, 0);
  });
  expect_mismatch([&](Communicator& part) {
    const Group group;
    if (odd) kokkos::reduce(part, left, LeftMatrix(), ReduceOp::sum, 0);
    else kokkos::reduce(part, right, dst, ReduceOp::sum, 0);
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
  const Matrix right("right", 4, 3), row("row", 1, 12), many("many", n, 5), other("other", 2, 6);
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
  else kokkos::all_gather(part, many);
  if (odd) kokkos::all_reduce(part, other, ReduceOp::sum);
  else kokkos::all_reduce(part, right, ReduceOp::sum);
  kokkos::send_recv(part, left, next(), right, previous());  // elements as they lie in memory
  for (int round = 0; round < 2000; ++round)
    kokkos::all_reduce(part, left, ReduceOp::max);  // more than a log remembers
  kokkos::synchronize(Exec(), part);
  EXPECT_FALSE(part.async_error().has_value());
}

}  // namespace
}  // namespace plait::test
