// Scratch memory that comes with the first call that needs it. To be run by mpirun with two ranks
// or more: ranks that are threads have all of it from the start. Where there is no GPU, the host
// target stands in for one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "plait/mpi.hpp"
#include "support/errors.hpp"
#include "support/growing_backend.hpp"
#include "support/ranks.hpp"
#include "support/run_tests.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t mega = std::size_t{1} << 20;
int world_rank = 0, world_size = 1;
unsigned threads_per_block = 1;  // of every algorithm's calls; 0: as many as it likes

CommunicatorOptions growing(std::chrono::nanoseconds timeout = patience) {
  CommunicatorOptions options;
  options.backend = BackendKind::cuda;
  options.timeout = timeout;
  return options;
}
Communicator make(const CommunicatorOptions& options = growing()) {
  return make_communicator(MPI_COMM_WORLD, options);
}
std::size_t committed(const Communicator& comm) {
  return comm.statistics().scratch_bytes_committed;
}

/// Expects the text of all ranks to be the same, and returns it.
std::string same_everywhere(const std::string& text) {
  std::vector<char> mine(2000), first(2000);
  text.copy(mine.data(), mine.size() - 1);
  first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT_STREQ(first.data(), mine.data());
  return text;
}

/// A call that is too large for no algorithm, and its result.
void expect_sum(Communicator& comm, const std::string& algorithm, std::size_t count = 1000,
                StreamRef stream = {}) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = element<float>(1, comm.rank(), i, ReduceOp::sum);
  comm.all_reduce(x.data(), x.data(), count, DataType::f32, ReduceOp::sum, stream,
                  {.algorithm = algorithm, .threads = 1});
  comm.synchronize(stream);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(x[i], expected<float>(1, comm.size(), i, ReduceOp::sum, 1)) << algorithm << ", " << i;
}

/// Nothing on this rank while it lives.
struct NoMemory {
  explicit NoMemory(bool here) {
    if (here)
      GrowingBackend::before_reserve = [](std::size_t bytes) {
        throw Error(ErrorCode::out_of_memory, fmt::format("the test has no {} bytes", bytes));
      };
  }
  ~NoMemory() { GrowingBackend::before_reserve = nullptr; }
};

TEST(Growth, BeginsWithABase) {
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
TEST(Growth, LeavesSmallMemoryAsItIs) {
  CommunicatorOptions options = growing();
  options.scratch_bytes = 32 * mega;
  Communicator comm = make(options);
  EXPECT_EQ(comm.statistics().scratch_bytes, committed(comm));
  expect_sum(comm, "ring");
  EXPECT_LE(committed(comm), 32 * mega);
}

class EveryAlgorithm : public testing::TestWithParam<Subject> {};
std::vector<Subject> every_algorithm() {
  std::vector<Subject> all = other_algorithms();
  for (const std::string& name : all_reduce_algorithms()) all.emplace_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, testing::ValuesIn(every_algorithm()),
                         [](const auto& test) {
                           return fmt::format("{}_{}", name_of(test.param.collective),
                                              test.param.algorithm);
                         });

/// Each with a communicator of its own, so that its call is the first. A graph is launched twice.
/// One thread a block, as the host has.
TEST_P(EveryAlgorithm, GrowsInItsFirstCall) {
  for (const Way way : {Way::plain, Way::captured, Way::grouped}) {
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
    for (const std::size_t count : {1, 75, 5000, 40000})
      for (const Way next : {Way::plain, Way::captured})
        check(comm, arena, of(count, symmetric, next), stream);
    EXPECT_EQ(committed(comm), after) << "it has come to more";
  }
}

TEST(Growth, ComesToAllThatThereMayBe) {
  Communicator comm = make();
  Arena arena(comm);
  std::set<std::size_t> steps{committed(comm)};
  for (const Subject& subject : every_algorithm()) {
    for (const bool symmetric : {false, true})
      if (const Case c =
              subject.of({.count = 5000, .symmetric = symmetric, .threads = threads_per_block});
          is_served(comm, c))
        check(comm, arena, c);
    steps.insert(committed(comm));
  }
  EXPECT_GE(steps.size(), 3u);
  EXPECT_EQ(committed(comm), comm.statistics().scratch_bytes);
}

TEST(Growth, IsNotForMessages) {
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
TEST(Growth, LeavesMessagesUnderWayAlone) {
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

TEST(Growth, OfOneGroupIsOfAllItsCalls) {
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

TEST(Growth, OfTwoCommunicatorsInAGroupHasNoOrder) {
  Two two;
  {
    const Group group;
    two.first.call();
    two.second.call();
  }
  two.expect_sums();
}

/// Ranks that are free to make them one after another, in any order, even if they wait between.
TEST(Growth, OfTwoCommunicatorsInAGroupOfOneRankHasNoOrder) {
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

TEST(Growth, InAGroupFailsAllItsCommunicators) {
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

TEST(Reserve, TakesAllThatThereMayBe) {
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
TEST(Reserve, LeavesMessagesWhole) {
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
  backend.begin_capture(stream.native());
  call();
  const auto graph = backend.end_capture(stream.native());
  const auto replay = [&] { graph->launch(stream.native()); };
  exchange(1, call);
  exchange(2, replay);
  comm.reserve();
  exchange(3, replay);
  exchange(4, call);
  exchange(5, replay);
  exchange(6, call);
}

TEST(Reserve, FindsMessagesThatAreUnderWay) {
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

TEST(Reserve, IsNotForGroupsWithCalls) {
  Communicator comm = make();
  std::vector<float> x(10);
  {
    const Group group;
    comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                    {.algorithm = "ring", .threads = 1});
    expect_error(error_of([&] { comm.reserve(); }), ErrorCode::invalid_argument,
                 HasSubstr("reserve: rank"));
  }
  comm.synchronize();
}

TEST(Reserve, FailsOnAllRanksAndCallsGoOn) {
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

// --- what ends it

TEST(Growth, ThatFailsOnOneRankFailsOnAll) {
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

TEST(Growth, WaitsForARankThatIsLate) {
  Communicator comm = make();
  if (world_rank == world_size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  expect_sum(comm, "ring");
}

TEST(Growth, EndsAtTheDeadline) {
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

TEST(Growth, EndsWithAnAbort) {
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
TEST(Growth, EndsWithADifferentCall) {
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

/// Threads that take turns must not wait for each other in a call.
TEST(Growth, IsNotForThreads) {
  if (world_rank == 0)
    run_ranks(
        3,
        [](Communicator& comm, int) {
          EXPECT_EQ(comm.statistics().scratch_bytes, committed(comm));
          EXPECT_GT(committed(comm), 64 * mega);
        },
        growing());
  MPI_Barrier(MPI_COMM_WORLD);
}

/// MPI may forbid another thread its calls.
TEST(Growth, IsForAnyThread) {
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
