// Calls for which scratch memory can't grow: a rank has none, is late or missing, aborts, or makes
// another call. And `reserve`: all scratch memory at once, before, between and after calls and
// messages.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "communicator/mpi_growth.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/growing_backend.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Growth, ThatFailsOnOneRankFailsOnAll) {
  Communicator comm = make(growing(std::chrono::seconds(0)));
  expect_sum(comm, "oneshot_ll");
  const NoMemory none(world_rank == 1);
  const auto error = error_of([&] { expect_sum(comm, "ring"); });
  expect_error(
      error, ErrorCode::out_of_memory,
      AllOf(StartsWith("scratch memory of ring, "), HasSubstr(" bytes: rank 1: the test has no ")));
  if (error) same_everywhere(error->what());
  const auto later = error_of([&] { expect_sum(comm, "oneshot_ll"); });
  ASSERT_TRUE(later.has_value());
  EXPECT_STREQ(later->what(), error->what()) << "the communicator is broken";
}

TEST_F(Growth, WaitsForARankThatIsLate) {
  Communicator comm = make();
  if (world_rank == world_size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  expect_sum(comm, "ring");
}

TEST_F(Growth, EndsAtTheDeadline) {
  Communicator comm = make(growing(std::chrono::milliseconds(500)));
  expect_sum(comm, "oneshot_ll");
  comm.bootstrap().barrier();
  std::optional<Error> error;
  if (world_rank == 1) error = heard(comm, std::chrono::seconds(5));
  else error = error_of([&] { expect_sum(comm, "ring"); });
  expect_error(error, ErrorCode::timeout,
               AllOf(HasSubstr("scratch memory of ring"), HasSubstr("rank 1 is missing, for 0.5 s"),
                     HasSubstr("rank 1 (process "),
                     HasSubstr("last call 1, all_reduce of 1000 f32 elements")));
}

TEST_F(Growth, EndsWithAnAbort) {
  for (const int aborting : {0, 1}) {  // a rank that waits, and one that the others wait for
    Communicator comm = make(growing(std::chrono::seconds(0)));
    std::thread other;
    if (world_rank == aborting)
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        comm.abort("enough");
      });
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Error> error;
    if (world_rank == 1) error = heard(comm);
    else error = error_of([&] { expect_sum(comm, "ring"); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, promised + std::chrono::milliseconds(100));
    expect_error(error, ErrorCode::aborted,
                 HasSubstr(fmt::format("rank {} has aborted the communicator: enough", aborting)));
    if (other.joinable()) other.join();
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Whether the other call has all it needs, or needs other memory.
TEST_F(Growth, EndsWithADifferentCall) {
  for (const char* other : {"oneshot_ll", "twoshot_ll128", "tree"}) {
    Communicator comm = make(growing(std::chrono::seconds(0)));
    expect_sum(comm, "oneshot_ll");
    std::vector<float> x(1000);
    const auto error = error_of([&] {
      comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                      {.algorithm = world_rank == 1 ? other : "ring", .threads = 1});
      comm.synchronize();
    });
    expect_error(error, ErrorCode::mismatch,
                 AllOf(HasSubstr(other), HasSubstr("ring"), HasSubstr("call 2")));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

class Reserve : public Growth {};

TEST_F(Reserve, TakesAllThatThereMayBe) {
  Communicator comm = make();
  expect_sum(comm, "twoshot_ll128");
  comm.reserve();
  EXPECT_EQ(committed(comm), comm.statistics().scratch_bytes);
  GrowingBackend::before_reserve = [](std::size_t) { ADD_FAILURE() << "there is more"; };
  comm.reserve();
  for (const char* algorithm : {"ring", "oneshot_ll", "recursive_doubling"})
    expect_sum(comm, algorithm);
  GrowingBackend::before_reserve = nullptr;
}

/// Messages to and from every rank, in different chunks before and after, some by graphs that were
/// captured before.
TEST_F(Reserve, LeavesMessagesWhole) {
  Communicator comm = make();
  const std::size_t count = 3 * mega / sizeof(int);
  std::vector<int> sent(count), received(count);
  const int next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  const Stream stream = comm.create_stream();
  const auto call = [&] {
    comm.send_recv(sent.data(), count, next, received.data(), count, previous, DataType::i32,
                   stream, {.algorithm = "pairwise_push", .threads = 1});
  };
  const auto exchange = [&](int seed, const auto& body) {
    for (std::size_t i = 0; i < count; ++i) sent[i] = seed + comm.rank() + static_cast<int>(i);
    body();
    comm.synchronize(stream);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(received[i], seed + previous + static_cast<int>(i)) << seed << ' ' << i;
  };
  Backend& backend = backend_of(comm);
  const DeviceScope device(backend);
  const auto graph = captured(comm, stream, call);
  const auto replay = [&] { graph->launch(stream.native()); };
  exchange(1, call);
  exchange(2, replay);
  comm.reserve();
  exchange(3, replay);
  exchange(4, call);
  exchange(5, replay);
  exchange(6, call);
}

TEST_F(Reserve, FindsMessagesThatAreUnderWay) {
  Communicator comm = make();
  std::vector<int> data(100, 3);
  const int last = comm.size() - 1;
  const auto send = [&] {
    if (comm.rank() == 0)
      comm.send(data.data(), data.size(), DataType::i32, last, {},
                {.algorithm = "pairwise_push", .threads = 1});
  };
  const auto receive = [&] {
    if (comm.rank() == last)
      comm.recv(data.data(), data.size(), DataType::i32, 0, {},
                {.algorithm = "pairwise_push", .threads = 1});
  };
  send();
  const std::size_t before = committed(comm);
  const auto error = error_of([&] { comm.reserve(); });
  expect_error(error, ErrorCode::mismatch,
               HasSubstr(fmt::format("reserve: rank {}: messages have one end before this call and "
                                     "one after it: rank 0 has sent 1, and 0 "
                                     "are received",
                                     last)));
  EXPECT_EQ(committed(comm), before);
  receive();
  comm.synchronize();
  comm.reserve();
  send();
  receive();
  comm.synchronize();
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Reserve, IsNotForGroupsWithCalls) {
  Communicator comm = make();
  std::vector<float> x(10);
  {
    const Group group;
    comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                    {.algorithm = "ring", .threads = 1});
    expect_invalid([&] { comm.reserve(); }, "reserve: rank");
  }
  comm.synchronize();
}

TEST_F(Reserve, FailsOnAllRanksAndCallsGoOn) {
  Communicator comm = make();
  {
    const NoMemory none(world_rank == 1);
    const auto error = error_of([&] { comm.reserve(); });
    expect_error(error, ErrorCode::out_of_memory, HasSubstr("reserve: rank 1: the test has no "));
    if (error) same_everywhere(error->what());
  }
  expect_sum(comm, "ring");
  comm.reserve();
  expect_sum(comm, "twoshot_ll128");
}

}  // namespace
}  // namespace plait::test
