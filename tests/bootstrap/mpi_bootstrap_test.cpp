// Groups of processes. To be run by mpirun with 1 to 5 processes: as it is (the library initialises
// MPI and finalises it when the process ends), with the argument --caller-initializes-mpi, and with
// --sockets: then all but the tests of MPI itself run over sockets.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/mpi_world.hpp"
#include "plait/error.hpp"
#include "plait/mpi.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/resource_limit.hpp"
#include "support/run_tests.hpp"
#include "symm_mem/descriptor_exchange.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::expect_invalid;
using test::expect_throws;
using test::message_of;

bool library_owns_mpi = true;
int communicators_changed = 0;  // by calls of MPI that make or free them
bool stopped_in_idup = false;

int mpi_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int mpi_size() {
  int size = -1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void expect_collectives_work(Bootstrap& bootstrap) {
  const int rank = bootstrap.rank(), size = bootstrap.size();
  for (int round = 0; round < 50; ++round) {
    const std::vector<int> all = bootstrap.all_gather<int>(round * 100 + rank);
    for (int peer = 0; peer < size; ++peer) ASSERT_EQ(all[index(peer)], round * 100 + peer);
  }
  for (int root = 0; root < size; ++root) {
    std::vector<int> data(100000, rank == root ? root + 5 : -1);
    bootstrap.broadcast(data.data(), data.size() * sizeof(int), root);
    ASSERT_EQ(data, std::vector<int>(100000, root + 5));
  }
  bootstrap.barrier();
}

TEST(Processes, KnowsItsPlace) {
  auto world = make_world();
  EXPECT_EQ(world->rank(), mpi_rank());
  EXPECT_EQ(world->size(), mpi_size());
  EXPECT_EQ(world->local_rank(), mpi_rank());
  EXPECT_EQ(world->local_size(), mpi_size());
  EXPECT_EQ(world->nodes(), 1);
  EXPECT_EQ(world->node(), 0);
}

TEST(Processes, Collectives) { expect_collectives_work(*make_world()); }

TEST(Processes, GathersInPlaceAndInSeveralParts) {
  auto world = make_world();
  const std::size_t bytes =
      (std::size_t{64} << 20) / index(world->size()) + 12345;  // more than a part
  std::vector<unsigned char> all(bytes * index(world->size()), 255);
  unsigned char* mine = all.data() + bytes * index(world->rank());
  for (std::size_t at = 0; at < bytes; ++at)
    mine[at] = static_cast<unsigned char>((at * 7 + index(world->rank())) % 251);
  world->all_gather(mine, all.data(), bytes);
  for (int peer = 0; peer < world->size(); ++peer) {
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < bytes; ++at)
      wrong += all[bytes * index(peer) + at] != (at * 7 + index(peer)) % 251 ? 1U : 0U;
    EXPECT_EQ(wrong, 0U) << "from rank " << peer;
  }
}

TEST(Processes, WorksOnAnyCommunicator) {
  make_world();  // initialises MPI
  const int rank = mpi_rank(), size = mpi_size();
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 1 : 0, -rank, &reversed);
  auto bootstrap = make_world(reversed);
  MPI_Comm_free(&reversed);  // it was duplicated
  EXPECT_EQ(bootstrap->size(), rank == 0 ? 1 : size - 1);
  EXPECT_EQ(bootstrap->rank(), rank == 0 ? 0 : size - 1 - rank);
  expect_collectives_work(*bootstrap);
}

TEST(Processes, TwoAtOnce) {
  auto first = make_world();
  auto second = make_world();
  expect_collectives_work(*first);
  expect_collectives_work(*second);
  first.reset();
  expect_collectives_work(*second);
}

TEST(Processes, EmulatesNodes) {
  make_world();
  const int rank = mpi_rank(), size = mpi_size();
  ::setenv("PLAIT_NODE", rank % 4 < 2 ? "zulu" : "alpha",
           1);  // two and two; numbered by appearance, not by name
  auto world = make_world();
  EXPECT_EQ(world->nodes(), size > 2 ? 2 : 1);
  EXPECT_EQ(world->node(), rank % 4 < 2 ? 0 : 1);
  EXPECT_EQ(world->local_rank(), rank < 4 ? rank % 2 : 2);
  auto node = world->split_by_node();
  EXPECT_EQ(node->size(), world->local_size());
  EXPECT_EQ(node->rank(), world->local_rank());
  EXPECT_EQ(node->nodes(), 1);
  ::unsetenv("PLAIT_NODE");
}

TEST(Processes, RefusesBadArguments) {
  auto world = make_world();
  int value = 0;
  message_of(ErrorCode::invalid_argument, [] { make_mpi_bootstrap(MPI_COMM_NULL); });
  expect_invalid([] { make_mpi_bootstrap(MPI_Comm{}); }, "none of MPI's");
  expect_invalid([&] { world->broadcast(&value, 4, world->size()); }, "root");
  expect_invalid([&] { world->all_gather(nullptr, &value, 4); }, "null pointer");
  if (world->size() == 1) return;
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  const int color = world->rank() == 0 ? 0 : 1;
  MPI_Comm_split(MPI_COMM_WORLD, color, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 1, &inter);
  expect_invalid([&] { make_mpi_bootstrap(inter); }, "inter-communicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

class Conduct : public testing::TestWithParam<test::Conduct> {};
INSTANTIATE_TEST_SUITE_P(Processes, Conduct, testing::ValuesIn(test::bootstrap_conduct()),
                         [](const auto& conduct) { return conduct.param.name; });

TEST_P(Conduct, IsThatOfEveryBootstrap) {
  auto world = make_world();
  if (world->size() < 3) GTEST_SKIP() << "needs three ranks";
  auto group = world->split(0, 0);
  GetParam().body(group, [&] { world->barrier(); });
  world->barrier();
}

TEST(Processes, CreationNamesTheMissingRank) {
  auto world = make_world();
  const int last = world->size() - 1;
  if (last == 0) GTEST_SKIP() << "needs two ranks";
  const auto create = [] { make_mpi_bootstrap(MPI_COMM_WORLD, 300ms); };
  const std::string missing =
      "rank " + std::to_string(last) + " did not arrive at make_mpi_bootstrap within 0.3 s";
  if (world->rank() != last) {
    const auto start = std::chrono::steady_clock::now();
    expect_throws(ErrorCode::bootstrap, create, missing);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1300ms);
  }
  world->barrier();
  if (world->rank() == last)
    expect_throws(ErrorCode::bootstrap, create, missing);  // too late, and told so
  expect_collectives_work(*make_world());                  // the next attempt finds all
}

TEST(Processes, CreationTakesItsDeadlineFromTheEnvironment) {
  auto world = make_world();
  ::setenv("PLAIT_TIMEOUT", "2.5", 1);
  EXPECT_EQ(make_mpi_bootstrap(MPI_COMM_WORLD)->timeout(), 2500ms);
  EXPECT_EQ(make_mpi_bootstrap(MPI_COMM_WORLD, 3s)->timeout(), 3s);
  const int last = world->size() - 1;
  if (world->rank() == last) ::setenv("PLAIT_TIMEOUT", "soon", 1);
  expect_invalid([] { make_mpi_bootstrap(MPI_COMM_WORLD); },
                 "rank " + std::to_string(last) + ": PLAIT_TIMEOUT=\"soon\"");
  ::unsetenv("PLAIT_TIMEOUT");
  world->barrier();
}

TEST(Processes, MakesNoCommunicatorAfterTheFirst) {
  auto world = make_world();
  const int before = communicators_changed;
  for (int round = 0; round < 10; ++round) {
    auto part = world->split(world->rank() % 2, 0);
    auto again = make_world();
    expect_collectives_work(*part->split_by_node());
  }
  EXPECT_EQ(communicators_changed, before);
  MPI_Comm half = MPI_COMM_NULL;
  PMPI_Comm_split(MPI_COMM_WORLD, world->rank() % 2, -world->rank(), &half);
  expect_collectives_work(*make_world(half));
  EXPECT_EQ(communicators_changed, before);  // the ranks have met
  PMPI_Comm_free(&half);
}

/// Each makes bootstraps of its own over the same processes, at once.
TEST(Processes, ThreadsSplitAndCreateAtOnce) {
  auto first = make_world();
  auto second = make_world();
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (library_owns_mpi) {
    EXPECT_EQ(level, MPI_THREAD_MULTIPLE);
  }
  if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "the caller has not asked MPI for it";
  std::array<MPI_Comm, 2> comms{};
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const auto work = [](Bootstrap& mine, MPI_Comm comm) {
    for (int round = 0; round < 20; ++round) {
      auto part = mine.split(mine.rank() % 2, 0);
      auto fresh = make_world(comm);
      for (const int rank : part->all_gather(mine.rank())) EXPECT_EQ(rank % 2, mine.rank() % 2);
      EXPECT_EQ(fresh->all_gather(round), std::vector<int>(index(fresh->size()), round));
    }
    expect_collectives_work(mine);
  };
  std::thread other([&] { work(*second, comms[1]); });
  work(*first, comms[0]);
  other.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

TEST(Processes, DescriptorsReachEveryProcess) {
  auto world = make_world();
  for (int round = 0; round < 10; ++round) exchange_and_check(*world, 10);
}

/// For the socket, for the connection, for what comes over it.
class DescriptorLimit : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Left, DescriptorLimit, testing::Values(-1, 0, 1));

TEST_P(DescriptorLimit, OfOneRankFailsOnAll) {
  const int more = GetParam();
  auto world = make_world();
  if (world->size() == 1) GTEST_SKIP() << "needs two ranks";
  exchange_and_check(*world, 10);
  const UniqueFd mine = make_memfd(1);
  std::optional<test::ResourceLimit> tight;
  if (world->rank() == 1) {
    const int next =
        ::dup(mine.get());  // the lowest free descriptor: left for the socket, and `more` beyond it
    ::close(next);
    tight.emplace(RLIMIT_NOFILE, static_cast<rlim_t>(next + 1 + more));
  }
  const std::string text =
      message_of(ErrorCode::bootstrap, [&] { exchange_descriptors(*world, mine); });
  tight.reset();
  const bool binds = more >= 0, connects = more == 0;
  expect_contains(text, !binds     ? "rank 1 can't create a socket"
                        : connects ? "rank 1 can't connect to rank 0"
                                   : "rank 1 can't take the descriptor of ");
  expect_contains(text, "open files reached?");
  exchange_and_check(*world, 10);  // the group is still in order
}

/// One rank comes to the greeting, and is stopped when it calls MPI_Comm_idup. Returns the exit
/// status.
int create_with_one_stopped() {
  const int last = mpi_size() - 1;
  std::vector<int> processes(index(mpi_size()));
  const int process = ::getpid();
  MPI_Allgather(&process, 1, MPI_INT, processes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  stopped_in_idup = mpi_rank() == last;
  const auto start = std::chrono::steady_clock::now();
  const std::string text =
      message_of(ErrorCode::bootstrap, [] { make_mpi_bootstrap(MPI_COMM_WORLD, 500ms); });
  if (mpi_rank() == last) return 0;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1500ms);
  expect_contains(text, ": rank " + std::to_string(last) +
                            " did not arrive at make_mpi_bootstrap within 0.5 s");
  ::usleep(200000);
  ::kill(processes[index(last)], SIGCONT);
  if (testing::Test::HasFailure()) return 1;
  std::printf("rank %d names the stopped rank\n", mpi_rank());
  return 0;
}

/// Registered before the library's own exit handler, so it runs after it.
void check_finalized_at_exit() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  std::fputs("FAILED: the library did not finalise the MPI that it had initialised\n", stderr);
  std::_Exit(3);
}

/// The caller of a program that initialises MPI must still finalise it. Returns the exit status.
int finalize_as_caller() {
  auto survivor = make_world();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return 3;
  MPI_Finalize();
  survivor.reset();  // must not call MPI any more
  try {
    make_mpi_bootstrap(MPI_COMM_WORLD);
  } catch (const Error& error) {
    return error.code() == ErrorCode::bootstrap ? 0 : 4;
  }
  return 5;
}

}  // namespace
}  // namespace plait

// The library's calls come here.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  ++plait::communicators_changed;
  if (plait::stopped_in_idup) std::raise(SIGSTOP);
  return PMPI_Comm_idup(comm, copy, request);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++plait::communicators_changed;
  return PMPI_Comm_split(comm, color, key, part);
}
int MPI_Comm_free(MPI_Comm* comm) {
  ++plait::communicators_changed;
  return PMPI_Comm_free(comm);
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "--stopped-in-idup") {
    MPI_Init(&argc, &argv);
    const int status = plait::create_with_one_stopped();
    std::fflush(stdout);
    std::_Exit(status);  // MPI is in no state to be finalised
  }
  if (argc > 1 && std::string_view(argv[1]) != "--stopped-in-idup") {
    int provided = MPI_THREAD_SINGLE;
    plait::by_sockets = std::string_view(argv[1]) == "--sockets";
    MPI_Init_thread(&argc, &argv, plait::by_sockets ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    plait::library_owns_mpi = false;
  } else {
    std::atexit(plait::check_finalized_at_exit);
    plait::make_world();
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int status = plait::test::run_tests(rank);
  if (status != 0 || plait::library_owns_mpi) return status;
  if (plait::by_sockets) return MPI_Finalize();
  return plait::finalize_as_caller();
}
