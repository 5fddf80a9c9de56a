// PLAIT_NET: which transport a communicator uses between nodes, and MPI as one. To be run by mpirun
// with tests/support/as_nodes.sh, in one of these ways:
//   mpi_net_test                   the choice, with two ranks or more
//   mpi_net_test --level LEVEL     MPI_Init_thread with funneled, or with multiple on rank 0 alone
//   mpi_net_test --finalize        MPI_Finalize comes before the communicator's end
//   mpi_net_test --leave           the process ends with a communicator, and MPI is Plait's
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plait/mpi.hpp"
#include "plait/unique_id.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/run_tests.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

Communicator create() { return make_communicator(MPI_COMM_WORLD, test_options()); }

/// Creation fails on all ranks alike, and the ranks can create another communicator at once.
void expect_refusal(const std::function<Communicator()>& make, ErrorCode code,
                    const std::string& words) {
  const auto start = std::chrono::steady_clock::now();
  expect_throws(
      code, [&] { make(); }, words);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  const ScopedEnvironment sockets("PLAIT_NET", "sockets");
  EXPECT_THAT(create().describe(), HasSubstr("by sockets"));
}

void expect_sum(Communicator& comm) {
  std::vector<int> values(1000, comm.rank());
  comm.all_reduce(values.data(), values.data(), values.size(), DataType::i32, ReduceOp::sum);
  comm.synchronize();
  EXPECT_EQ(values, std::vector<int>(1000, comm.size() * (comm.size() - 1) / 2));
}

TEST(Net, MpiServesPartsAndDuplicatesToo) {
  const ScopedEnvironment mpi("PLAIT_NET", "mpi");
  Communicator comm = create();
  EXPECT_THAT(comm.describe(), HasSubstr("by MPI ("));
  Communicator world = make_world_communicator(test_options());
  EXPECT_THAT(world.describe(), HasSubstr("by MPI ("));
  Communicator copy = comm.duplicate();
  EXPECT_THAT(copy.describe(), HasSubstr("by MPI ("));
  // The ranks in the opposite order, so their numbers are not those of MPI.
  auto turned = comm.split(0, -comm.rank());
  ASSERT_TRUE(turned.has_value());
  EXPECT_THAT(turned->describe(), HasSubstr("by MPI ("));
  for (int round = 0; round < 20; ++round)
    for (Communicator* const one : {&comm, &world, &copy, &*turned}) expect_sum(*one);
  // Without a pause, each with its proxy, over the same communicator of MPI.
  for (int round = 0; round < 20; ++round) {
    auto part = comm.split(0, comm.rank());
    expect_sum(*part);
  }
}

/// One thread and one proxy per communicator, so several are in MPI at once.
TEST(Net, MpiServesCommunicatorsOfSeveralThreads) {
  const ScopedEnvironment mpi("PLAIT_NET", "mpi");
  std::vector<Communicator> comms;
  for (int i = 0; i < 3; ++i) comms.push_back(create());
  std::vector<std::thread> threads;
  for (Communicator& comm : comms)
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) expect_sum(comm);
    });
  for (std::thread& thread : threads) thread.join();
}

/// MPI does not say that a rank has left, no flow leads there, and the rank has no proxy any more
/// that could answer.
TEST(Net, ARankThatHasLeftHoldsUpNoOther) {
  const ScopedEnvironment mpi("PLAIT_NET", "mpi");
  std::optional<Communicator> comm = create();
  const int rank = comm->rank();
  if (rank == 2) comm.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) comm->abort("a word for all ranks");
  std::this_thread::sleep_for(200ms);
  const auto start = std::chrono::steady_clock::now();
  comm.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);  // the proxy would wait for five
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Net, SocketsAreTheDefault) { EXPECT_THAT(create().describe(), HasSubstr("by sockets")); }

TEST(Net, ANameThatIsNoneIsRefused) {
  const ScopedEnvironment net("PLAIT_NET", "mpii");
  expect_refusal(create, ErrorCode::invalid_argument,
                 "PLAIT_NET=\"mpii\": expected sockets, plugin or mpi");
}

TEST(Net, APluginMustBeNamed) {
  const ScopedEnvironment net("PLAIT_NET", "plugin");
  expect_refusal(create, ErrorCode::invalid_argument,
                 "PLAIT_NET=plugin: PLAIT_NET_PLUGIN names no plug-in");
}

/// PLAIT_NET decides, so the plug-in that is named, and does not exist, plays no part.
TEST(Net, ComesBeforeThePlugin) {
  const ScopedEnvironment plugin("PLAIT_NET_PLUGIN", "/nowhere/libnccl-net-none.so");
  expect_refusal(create, ErrorCode::invalid_argument, "/nowhere/libnccl-net-none.so");
  const ScopedEnvironment net("PLAIT_NET", "mpi");
  EXPECT_THAT(create().describe(), HasSubstr("by MPI ("));
}

TEST(Net, RanksMustWantTheSame) {
  const ScopedEnvironment net("PLAIT_NET", world_rank() == 1 ? "mpi" : "sockets");
  expect_refusal(create, ErrorCode::mismatch,
                 "ranks differ in PLAIT_NET or PLAIT_NET_PLUGIN: rank 1 has mpi, rank 0 sockets");
}

TEST(Net, RanksMustCheckTheSame) {
  {
    const ScopedEnvironment check("PLAIT_NET_CHECK", world_rank() == 1 ? "crc32c" : "none");
    expect_throws(ErrorCode::mismatch, create,
                  "ranks differ in PLAIT_NET_CHECK: rank 1 has crc32c, rank 0 none");
  }
  {
    const ScopedEnvironment check("PLAIT_NET_CHECK", "adler");
    expect_invalid(create, "PLAIT_NET_CHECK=\"adler\": expected none or crc32c");
  }
  const ScopedEnvironment check("PLAIT_NET_CHECK", "crc32c");
  EXPECT_THAT(create().describe(), HasSubstr(" with CRC-32C"));
  const ScopedEnvironment direct("PLAIT_NET_GDR", "1");
  expect_throws(ErrorCode::unsupported, create, "PLAIT_NET_CHECK reads chunks");
}

/// As all settings that ranks compare as one text.
TEST(Net, RanksMustHaveTheSameRing) {
  const ScopedEnvironment order("PLAIT_RING", world_rank() == 1 ? "1,0,2" : "0,1,2");
  expect_throws(ErrorCode::mismatch, create, "PLAIT_RING=1,0,2");
}

TEST(Net, GpuDirectMustBePossibleAndWantedByAll) {
  {
    const ScopedEnvironment direct("PLAIT_NET_GDR", world_rank() == 1 ? "0" : "1");
    expect_throws(ErrorCode::mismatch, create,
                  "ranks differ in PLAIT_NET_GDR: rank 1 has 0, rank 0 1");
  }
  {
    const ScopedEnvironment direct("PLAIT_NET_GDR", "2");
    expect_invalid(create, "PLAIT_NET_GDR=\"2\"");
  }
  {
    const ScopedEnvironment direct("PLAIT_NET_GDR", "1");
    CommunicatorOptions options = test_options();
    options.backend = BackendKind::host;
    expect_throws(
        ErrorCode::unsupported, [&] { make_communicator(MPI_COMM_WORLD, options); },
        "the host target has no device memory");
  }
  EXPECT_THAT(create().describe(), HasSubstr("by sockets"));
}

TEST(Net, MpiMustHaveBroughtTheRanksTogether) {
  const ScopedEnvironment net("PLAIT_NET", "mpi");
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  UniqueId id;
  if (world_rank() == 0) id = UniqueId::create();
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  expect_refusal([&] { return make_communicator(id, world_rank(), size, test_options()); },
                 ErrorCode::unsupported,
                 "PLAIT_NET=mpi: the communicator's ranks did not meet through MPI");
}

/// With less than MPI_THREAD_MULTIPLE, on one rank at least.
TEST(NetThreads, MpiMustAllowThemAll) {
  const ScopedEnvironment net("PLAIT_NET", "mpi");
  expect_refusal(create, ErrorCode::unsupported, "MPI_THREAD_MULTIPLE");
}

int status() { return testing::Test::HasFailure() ? 1 : 0; }

/// The first rank finalises MPI while its message is not taken yet. A call is refused then, and the
/// communicators end in silence.
int finalize_first() {
  const ScopedEnvironment net("PLAIT_NET", "mpi");
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  Communicator comm = create(), other = create();
  const int last = comm.size() - 1;
  std::vector<int> values(20'000, comm.rank() == 0 ? 7 : 0);
  if (comm.rank() == last) std::this_thread::sleep_for(500ms);
  if (comm.rank() == 0) comm.send(values.data(), values.size(), DataType::i32, last);
  if (comm.rank() == last) comm.recv(values.data(), values.size(), DataType::i32, 0);
  comm.synchronize();
  const auto start = std::chrono::steady_clock::now();
  MPI_Finalize();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);
  if (comm.rank() == last) {
    EXPECT_EQ(values, std::vector<int>(values.size(), 7));
  }
  expect_throws(
      ErrorCode::bootstrap, [&] { comm.barrier(); },
      "ranks of other nodes can't be reached any more: MPI (");
  return status();
}

/// MPI is Plait's here, so it is finalised at the exit.
int leave() {
  const ScopedEnvironment net("PLAIT_NET", "mpi");
  auto* const comm = new Communicator(create());  // NOLINT: it is never destroyed
  expect_sum(*comm);
  std::exit(status());  // NOLINT: no destructor of this function's is missed
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string_view mode = argc > 1 ? argv[1] : "", level = argc > 2 ? argv[2] : "";
  if (mode == "--finalize") return plait::test::finalize_first();
  if (mode == "--leave") return plait::test::leave();
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool all =
      mode != "--level" || (level == "mixed" && rank != nullptr && std::string_view(rank) == "0");
  int given = 0;
  MPI_Init_thread(&argc, &argv, all ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
  const int status = plait::test::run_tests(plait::test::world_rank());
  MPI_Finalize();
  return status;
}
