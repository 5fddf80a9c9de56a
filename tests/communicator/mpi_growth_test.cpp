// Scratch memory that comes with the first call that needs it. To be run by mpirun with two ranks
// or more: ranks that are threads have all of it from the start.
#include "communicator/mpi_growth.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plait/error.hpp"
#include "support/covering.hpp"
#include "support/device_array.hpp"
#include "support/errors.hpp"
#include "support/growing_backend.hpp"
#include "support/ranks.hpp"
#include "support/run_tests.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

unsigned threads_per_block = 1;  // of every algorithm's calls; 0: as many as it likes

TEST_F(Growth, BeginsWithABase) {
  Communicator comm = make();
  const Statistics fresh = comm.statistics();
  EXPECT_LE(fresh.scratch_bytes_committed, 32 * mega);
  EXPECT_GT(fresh.scratch_bytes, 64 * mega);
  expect_sum(comm, "ring");
  EXPECT_GT(committed(comm), fresh.scratch_bytes_committed);
  const std::size_t grown = committed(comm);
  expect_sum(comm, "ring", 100000);
  expect_sum(comm, "tree");  // which has the same channels
  EXPECT_EQ(committed(comm), grown);
  EXPECT_LE(committed(*comm.split(0, comm.rank())), 32 * mega);
  EXPECT_LE(committed(comm.duplicate()), 32 * mega);
}

/// As the default is, so the limit is for all that there may be together.
TEST_F(Growth, LeavesSmallMemoryAsItIs) {
  CommunicatorOptions options = growing();
  options.scratch_bytes = 32 * mega;
  Communicator comm = make(options);
  EXPECT_EQ(comm.statistics().scratch_bytes, committed(comm));
  expect_sum(comm, "ring");
  EXPECT_LE(committed(comm), 32 * mega);
}

class EveryAlgorithm : public Growth, public testing::WithParamInterface<Subject> {};
INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(all_algorithms()), TestName());

/// With a communicator of its own, so that its call is the first: in one way or another, or with
/// PLAIT_TEST_FULL=1 in all. A graph is launched twice. One thread a block, as the host has.
TEST_P(EveryAlgorithm, GrowsInItsFirstCall) {
  const std::string& name = GetParam().algorithm;
  const std::uint64_t first =
      digest(name.data(), name.size()) + static_cast<unsigned>(GetParam().collective);
  for (std::uint64_t i = first; i < first + unless_full(1, 3); ++i) {
    const auto way = static_cast<Way>(i % 3);
    Communicator comm = make();
    Arena arena(comm);
    const std::size_t before = committed(comm);
    const Stream stream = comm.create_stream();
    const auto of = [&](std::size_t count, bool symmetric, Way w) {
      return GetParam().of({.count = count,
                            .symmetric = symmetric,
                            .threads = threads_per_block,
                            .seed = count,
                            .way = w});
    };
    const bool symmetric = !is_served(comm, of(5000, false, Way::plain));
    check(comm, arena, of(5000, symmetric, way), stream);
    const std::size_t after = committed(comm);
    EXPECT_GE(after, before);
    for (std::uint64_t next = i; const std::size_t count : {1, 75, 5000, 40000})
      check(comm, arena, of(count, symmetric, ++next % 2 == 0 ? Way::plain : Way::captured),
            stream);
    EXPECT_EQ(committed(comm), after) << "it has come to more";
  }
}

TEST_F(Growth, ComesToAllThatThereMayBe) {
  Communicator comm = make();
  Arena arena(comm);
  std::set<std::size_t> steps{committed(comm)};
  for (const Subject& subject : all_algorithms()) {
    for (const bool symmetric : {false, true})
      if (const Case c =
              subject.of({.count = 5000, .symmetric = symmetric, .threads = threads_per_block});
          is_served(comm, c))
        check(comm, arena, c);
    steps.insert(committed(comm));
  }
  EXPECT_GE(steps.size(), 3u);
  // All but the memory of rows, which no algorithm of the registry has.
  const std::size_t all = comm.statistics().scratch_bytes;
  EXPECT_LE(all - committed(comm), 49 * mega);
  comm.reserve();
  EXPECT_EQ(committed(comm), all);
}

TEST_F(Growth, IsNotForMessages) {
  Communicator comm = make();
  const std::size_t before = committed(comm);
  const std::size_t count = 5 * mega / sizeof(int);
  std::vector<int> sent(count), received(count);
  const int next = (comm.rank() + 1) % comm.size(),
            previous = (comm.rank() + comm.size() - 1) % comm.size();
  const auto exchange = [&](const std::string& algorithm, int seed) {
    for (std::size_t i = 0; i < count; ++i) sent[i] = seed + comm.rank() + static_cast<int>(i);
    comm.send_recv(sent.data(), count, next, received.data(), count, previous, DataType::i32, {},
                   {.algorithm = algorithm, .threads = 1});
    comm.synchronize();
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(received[i], seed + previous + static_cast<int>(i)) << algorithm << ' ' << i;
  };
  for (int seed = 0; const char* algorithm : {"pairwise_ll", "pairwise_ll128", "pairwise_push"})
    exchange(algorithm, ++seed);
  EXPECT_EQ(committed(comm), before);
  expect_sum(comm, "ring");
  EXPECT_GT(committed(comm), before);
  for (int seed = 100; const char* algorithm : {"pairwise_ll", "pairwise_ll128", "pairwise_push"})
    exchange(algorithm, ++seed);
}

/// The ends of a message may lie on both sides of a call that grows.
TEST_F(Growth, LeavesMessagesUnderWayAlone) {
  Communicator comm = make();
  std::vector<int> data(3000, comm.rank() == 0 ? 7 : 0);
  const int last = comm.size() - 1;
  if (comm.rank() == 0)
    comm.send(data.data(), data.size(), DataType::i32, last, {},
              {.algorithm = "pairwise_push", .threads = 1});
  expect_sum(comm, "ring");
  if (comm.rank() == last)
    comm.recv(data.data(), data.size(), DataType::i32, 0, {},
              {.algorithm = "pairwise_push", .threads = 1});
  comm.synchronize();
  if (comm.rank() == last || comm.rank() == 0) {
    EXPECT_EQ(data, std::vector<int>(3000, 7));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Growth, OfOneGroupIsOfAllItsCalls) {
  Communicator comm = make();
  const std::size_t before = committed(comm);
  std::vector<float> x(1000, 1), y(1000, 1), z(50, static_cast<float>(comm.rank())), from(50);
  {
    const Group group;
    comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                    {.algorithm = "twoshot_ll128", .threads = 1});
    comm.all_reduce(y.data(), y.data(), y.size(), DataType::f32, ReduceOp::sum, {},
                    {.algorithm = "ring", .threads = 1});
    comm.send_recv(z.data(), z.size(), (comm.rank() + 1) % comm.size(), from.data(), from.size(),
                   (comm.rank() + comm.size() - 1) % comm.size(), DataType::f32, {},
                   {.threads = 1});
  }
  comm.synchronize();
  EXPECT_EQ(x, std::vector<float>(1000, static_cast<float>(comm.size())));
  EXPECT_EQ(y, x);
  EXPECT_EQ(from[49], static_cast<float>((comm.rank() + comm.size() - 1) % comm.size()));
  EXPECT_GT(committed(comm), before);
}

/// Two communicators that both grow, each on a stream.
struct Two {
  struct Part {
    Communicator comm = make(growing(std::chrono::seconds(10)));
    Stream stream = comm.create_stream();
    std::vector<float> x = std::vector<float>(1000, 1);
    void call() {
      comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, stream,
                      {.algorithm = "ring", .threads = 1});
    }
    void wait() { comm.synchronize(stream); }
  };
  Part a, b;
  bool swapped = world_rank % 2 == 1;
  Part& first = swapped ? b : a;
  Part& second = swapped ? a : b;

  void expect_sums() {
    for (Part* part : {&a, &b}) {
      const std::size_t before = committed(part->comm);
      part->wait();
      EXPECT_EQ(part->x, std::vector<float>(1000, static_cast<float>(world_size)));
      part->call();
      part->wait();
      EXPECT_EQ(committed(part->comm), before);
    }
  }
};

TEST_F(Growth, OfTwoCommunicatorsInAGroupHasNoOrder) {
  Two two;
  {
    const Group group;
    two.first.call();
    two.second.call();
  }
  two.expect_sums();
}

/// Ranks that are free to make them one after another, in any order, even if they wait between.
TEST_F(Growth, OfTwoCommunicatorsInAGroupOfOneRankHasNoOrder) {
  for (const bool swapped : {false, true}) {
    Two two;
    if (world_rank == 0) {
      const Group group;
      two.a.call();
      two.b.call();
    } else {
      Two::Part &first = swapped ? two.b : two.a, &second = swapped ? two.a : two.b;
      first.call();
      if (!swapped) first.wait();
      second.call();
    }
    two.expect_sums();
  }
}

TEST_F(Growth, InAGroupFailsAllItsCommunicators) {
  Two two;
  std::optional<Error> error;
  {
    const NoMemory none(world_rank == 1);
    error = error_of([&] {
      Group group;
      two.first.call();
      two.second.call();
      group.end();
    });
  }
  EXPECT_TRUE(error.has_value());
  for (const Two::Part* part : {&two.a, &two.b}) {
    const auto broken = heard(part->comm);
    EXPECT_TRUE(broken && (broken->code() == ErrorCode::out_of_memory ||
                           broken->code() == ErrorCode::aborted));
    EXPECT_THAT(broken ? broken->what() : "", HasSubstr("the test has no "));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Threads that take turns must not wait for each other in a call.
TEST_F(Growth, IsNotForThreads) {
  if (world_rank == 0)
    run_ranks(3, growing(), [](Communicator& comm, int) {
      EXPECT_EQ(comm.statistics().scratch_bytes, committed(comm));
      EXPECT_GT(committed(comm), 64 * mega);
    });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// MPI may forbid another thread its calls.
TEST_F(Growth, IsForAnyThread) {
  Communicator comm = make();
  std::thread([&] { expect_sum(comm, "ring"); }).join();
  std::thread([&] { expect_sum(comm, "twoshot_ll128"); }).join();
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  setenv("PLAIT_BACKEND", "cuda", 1);  // the zoo looks there for its target
  // With fewer workers there are so few channels that all of them fit into the base.
  setenv("PLAIT_HOST_WORKERS", "16", 1);
  const bool has_gpus = plait::device_count(plait::BackendKind::cuda) != 0;
  if (has_gpus) plait::test::threads_per_block = 0;
  else static_cast<void>(plait::test::stand_in_for_cuda<plait::test::GrowingBackend>());
  testing::InitGoogleTest(&argc, argv);
  if (has_gpus)  // the other tests have data in the host's memory, or make devices fail
    testing::GTEST_FLAG(filter) = "*EveryAlgorithm*:*ComesToAll*";
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &plait::test::world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &plait::test::world_size);
  const int status = plait::test::run_tests(plait::test::world_rank);
  MPI_Finalize();
  return status;
}
