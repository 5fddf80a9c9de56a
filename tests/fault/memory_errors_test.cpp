// Memory that is refused: allocations, and buffers that are too short or of the wrong kind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <string>

#include "fault/refused.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// One rank agrees with itself.
using ErrorsOfSeveral = Errors;
INSTANTIATE_TEST_SUITE_P(All, ErrorsOfSeveral, testing::Values(2, 3),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

TEST_P(Errors, AllocationsThatOverflow) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("allocate"), HasSubstr("overflow")),
                 [](Communicator& comm, Arena&) { comm.allocate<double>(most / 4); });
  for (const std::size_t bytes : {most, most - 1, most / 2})
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr(std::to_string(bytes)), HasSubstr("overflow")),
                   [&](Communicator& comm, Arena&) { comm.allocate_bytes(bytes); });
}

/// All ranks hear of it at once, even those whose own number is right.
TEST_P(ErrorsOfSeveral, AnAllocationThatOverflowsOnOneRank) {
  expect_refused(
      ErrorCode::mismatch,
      AllOf(HasSubstr("rank 1 passed"), HasSubstr("or more"), HasSubstr("rank 0 passed 800 bytes")),
      [](Communicator& comm, Arena&) {
        comm.allocate<double>(comm.rank() == 1 ? std::numeric_limits<std::size_t>::max() / 2 : 100);
      });
}

TEST_P(Errors, BuffersThatEndBeyondSymmetricMemory) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    const auto buffer = comm.allocate<float>(10);
    arena.recv.place(0, count * sizeof(float));
    auto* other = static_cast<float*>(arena.recv.device());
    const auto refused = [&](std::size_t offset, std::size_t bytes,
                             const std::function<void()>& call) {
      expect_error(
          error_of(call), ErrorCode::invalid_argument,
          AllOf(names_a_rank(),
                HasSubstr(fmt::format("offset {} of a symmetric buffer of 40 bytes", offset)),
                HasSubstr(fmt::format("no room for {} bytes", bytes))));
    };
    const auto n = static_cast<std::size_t>(comm.size());
    float* const x = buffer.data();
    refused(0, 44, [&] { comm.all_reduce(x, x, 11, DataType::f32, ReduceOp::sum); });
    refused(4, 40, [&] { comm.all_reduce(x + 1, other, 10, DataType::f32, ReduceOp::sum); });
    refused(36, 8, [&] { comm.all_reduce(other, x + 9, 2, DataType::f32, ReduceOp::sum); });
    refused(0, 44 * n, [&] { comm.gather(other, x, 11, DataType::f32, comm.rank()); });
    refused(8, 40, [&] { comm.send(x + 2, 10, DataType::f32, (comm.rank() + 1) % comm.size()); });
    refused(8, 40, [&] { comm.recv(x + 2, 10, DataType::f32, (comm.rank() + 1) % comm.size()); });
    EXPECT_NO_THROW(comm.all_reduce(x + 1, x + 1, 9, DataType::f32, ReduceOp::sum));
    comm.synchronize();
  });
}

TEST_P(Errors, OrdinaryMemoryForAnAlgorithmThatNeedsSymmetric) {
  for (const bool half : {false, true})  // one of two is not enough
    expect_refused(ErrorCode::unsupported, AllOf(HasSubstr("twoshot"), HasSubstr("symmetric")),
                   [half](Communicator& comm, Arena& arena) {
                     comm.all_reduce(half ? arena.symmetric_send.device() : arena.send.device(),
                                     arena.recv.device(), count, DataType::f32, ReduceOp::sum, {},
                                     {.algorithm = "twoshot"});
                   });
}

TEST_P(ErrorsOfSeveral, UnequalSizesOfSymmetricMemory) {
  expect_refused(
      ErrorCode::mismatch,
      AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("1000"), HasSubstr("1024")),
      [](Communicator& comm, Arena&) { comm.allocate<std::byte>(comm.rank() == 1 ? 1024 : 1000); });
}

TEST_P(Errors, MoreMemoryThanThereIs) {
  expect_refused(ErrorCode::out_of_memory, names_a_rank(), [](Communicator& comm, Arena&) {
    comm.allocate<std::byte>(std::size_t{1} << 50);
  });
}

}  // namespace
}  // namespace plait::test
