// MPI as a peer of plait-bench. Run the program with mpirun and 2 or 3 ranks. It needs no GPU,
// because the devices of the other peer, NCCL (nccl_peer_test.cpp), are the host's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/peer_checks.hpp"
#include "bench/peers/mpi.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/mpi_main.hpp"

namespace plait::bench {
namespace {

using test::error_of;
using test::expect_error;

int thread_level = MPI_THREAD_SERIALIZED;  // MPI_Query_thread below returns no more

class Device final : public test::HostAsCuda {
 public:
  explicit Device(int ordinal) : HostAsCuda(ordinal, fmt::format("peer {}", ordinal)) {}
};

const BackendRegistration registration = test::stand_in_for_cuda<Device>();

/// MPI 3 has no small floats and no averages, and its sums of 8 and 16 bits may saturate. It leaves
/// a single truth value as it is.
bool mpi_serves(const Task& task) {
  const Call& call = task.call;
  if (task.in_place && call.collective == Collective::reduce_scatter) return false;
  if (!facts_of(call.collective).reduces) return true;
  const bool small_float = is_float(call.type) && size_of(call.type) < 4;
  return !small_float && call.op != ReduceOp::avg && call.op != ReduceOp::premul_sum &&
         !(call.op == ReduceOp::sum && size_of(call.type) <= 2) &&
         !(is_logical(call.op) && is_scan(call.collective));
}

/// On the stream, or on the calling thread.
class MpiPeer : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Contender> make(bool counted = false) {
    auto peer = make_mpi_peer(comm, arena, GetParam(), counted, why_not);
    if (!peer) throw std::runtime_error(why_not);
    return peer;
  }

  Communicator comm = communicator(BackendKind::host);
  const Arena arena{ordinary_memory(comm), message_bytes};
  std::string why_not;
};
INSTANTIATE_TEST_SUITE_P(Runs, MpiPeer, testing::Bool(), [](const auto& test) {
  return test.param ? "OnTheStream" : "OnTheCallingThread";
});

TEST_P(MpiPeer, HasRightResultsAndABarrier) {
  const auto peer = make();
  EXPECT_EQ(peer->name(), "peer:mpi");
  EXPECT_TRUE(peer->is_peer());
  check_all(comm, *peer, mpi_serves);
  const Stream stream = comm.create_stream();
  EXPECT_EQ(count_wrong(comm, stream.native(), *peer, barrier_task(comm, arena), 0), 0U);
}

TEST_P(MpiPeer, HasRightResultsWithACountPerRank) {
  const auto peer = make(true);
  EXPECT_EQ(peer->name(), "peer:mpi-v");
  check_all(comm, *peer, [&](const Task& task) {
    return peer->may_serve(task.call.collective) && mpi_serves(task);
  });
}

/// On the stream a call waits for the work before it. On the calling thread it waits for nothing.
TEST_P(MpiPeer, RunsInTheOrderOfTheStreamOrAtOnce) {
  const bool on_stream = GetParam();
  const Stream stream = comm.create_stream();
  auto* const send = reinterpret_cast<int*>(arena.send());
  auto* const recv = reinterpret_cast<int*>(arena.recv());
  const int sum = comm.size() * (comm.size() + 1) / 2;
  const Task task = make_task({.collective = Collective::all_reduce, .type = DataType::i32},
                              sizeof(int), false, false, arena, comm.rank(), comm.size());
  const auto peer = make();
  *send = -1;
  *recv = -2;
  std::promise<void> open;
  backend_of(comm).host_call(stream.native(), [&, opened = open.get_future().share()] {
    opened.wait();
    if (on_stream) *send = comm.rank() + 1;
  });
  if (!on_stream) *send = comm.rank() + 1;
  peer->enqueue(task, stream.native());
  EXPECT_EQ(*recv, on_stream ? -2 : sum);
  open.set_value();
  comm.synchronize(stream);
  EXPECT_EQ(*recv, sum);
}

TEST_P(MpiPeer, RefusesMoreElementsThanAnIntCounts) {
  Task task = make_task({.collective = Collective::all_reduce, .type = DataType::i32},
                        message_bytes, false, false, arena, comm.rank(), comm.size());
  task.call.count = std::size_t{1} << 31;
  expect_error(error_of([&] { make()->enqueue(task, nullptr); }), ErrorCode::unsupported,
               testing::StrEq("peer:mpi: no sum of 2147483648 elements of i32"));
  task = make_task({.collective = Collective::all_gather, .type = DataType::i8}, message_bytes,
                   false, false, arena, comm.rank(), comm.size());
  task.call.count = std::size_t{1} << 30;  // a block fits an int, and its displacement does not
  expect_error(error_of([&] { make(true)->enqueue(task, nullptr); }), ErrorCode::unsupported,
               testing::HasSubstr("peer:mpi-v: no "));
}

TEST(MpiPeers, AreForTheHostAndForMpiOnAnyThread) {
  std::string why_not;
  {
    Communicator comm = communicator(BackendKind::cuda);
    const Arena arena(ordinary_memory(comm), message_bytes);
    EXPECT_FALSE(make_mpi_peer(comm, arena, true, false, why_not));
    EXPECT_EQ(why_not, "MPI is measured on host memory, with --backend host");
  }
  Communicator comm = communicator(BackendKind::host);
  const Arena arena(ordinary_memory(comm), message_bytes);
  thread_level = MPI_THREAD_FUNNELED;
  EXPECT_FALSE(make_mpi_peer(comm, arena, true, false, why_not));
  thread_level = MPI_THREAD_SERIALIZED;
  EXPECT_EQ(why_not, "this MPI does not offer MPI_THREAD_SERIALIZED");
}

}  // namespace
}  // namespace plait::bench

int MPI_Query_thread(int* provided) {
  PMPI_Query_thread(provided);
  *provided = std::min(*provided, plait::bench::thread_level);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) { return plait::test::run_tests_of_processes(argc, argv); }
