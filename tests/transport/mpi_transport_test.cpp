// The transport over MPI, with ranks that are processes. To be run by mpirun.
#include "transport/mpi/mpi_transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>

#include "plait/error.hpp"
#include "plait/mpi.hpp"
#include "support/errors.hpp"
#include "support/run_tests.hpp"
#include "transport/flows.hpp"
#include "transport/transport_conduct.hpp"

namespace plait::transport {
namespace {

using plait::test::message_of;

std::unique_ptr<Transport> make_transport(MPI_Comm comm) {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &own);
  return make_mpi_transport(own);
}

class MpiTransports : public testing::TestWithParam<Conduct> {};
INSTANTIATE_TEST_SUITE_P(Each, MpiTransports, testing::ValuesIn(transport_conduct()),
                         [](const auto& given) { return given.param.name; });

/// The first ranks run it; the others only watch.
TEST_P(MpiTransports, Conduct) {
  const Conduct& conduct = GetParam();
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < conduct.ranks) GTEST_SKIP() << "needs " << conduct.ranks << " ranks";
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < conduct.ranks ? 0 : MPI_UNDEFINED, rank, &comm);
  if (comm == MPI_COMM_NULL) return;
  auto ranks = make_mpi_bootstrap(comm, 60s);
  auto transport = make_transport(comm);
  MPI_Comm_free(&comm);
  conduct.body(transport, *ranks);
  ranks->barrier();
}

TEST(MpiTransport, RefusesAddressesOfOthers) {
  auto transport = make_transport(MPI_COMM_WORLD);
  EXPECT_NE(transport->properties().name.find("MPI ("), std::string::npos);
  message_of(ErrorCode::invalid_argument, [&] { transport->connect(Address{}); });
  // A listener of another communicator with as many ranks: only its random number differs.
  auto other = make_transport(MPI_COMM_WORLD);
  auto listener = other->listen();
  message_of(ErrorCode::rank_lost, [&] {
    while (transport->connect(listener->address()) == nullptr) transport->wait(1ms);
  });
  EXPECT_EQ(listener->accept(), nullptr);
}

TEST(MpiTransport, RefusesMessagesThatMpiCannotCount) {
  auto transport = make_transport(MPI_COMM_WORLD);
  auto listener = transport->listen();
  std::unique_ptr<SendFlow> to;
  wait_until(*transport, [&] { return (to = transport->connect(listener->address())) != nullptr; });
  Buffer buffer(*to, 1);
  message_of(ErrorCode::invalid_argument, [&] {
    to->isend(buffer.bytes.data(), transport->properties().largest_message + 1, *buffer.memory);
  });
}

/// A rank leaves while a buffer of the other has no message, and while one of its own is not taken.
TEST(MpiTransport, FlowsWithMessagesUnderWayCanBeClosed) {
  auto ranks = make_mpi_bootstrap(MPI_COMM_WORLD, 60s);
  auto transport = make_transport(MPI_COMM_WORLD);
  Mesh mesh = connect_all(*transport, *ranks);
  const auto next = static_cast<std::size_t>((ranks->rank() + 1) % ranks->size());
  Buffer out(*mesh.to[next], 4 << 20), in(*mesh.from[next], 1000);
  for (int message = 0; message < 3; ++message) {
    mesh.to[next]->isend(out.bytes.data(), out.bytes.size(), *out.memory);
    if (ranks->size() > 2) mesh.from[next]->irecv(in.bytes.data(), 1000, *in.memory);
  }
  ranks->barrier();  // nothing more is started
  out.memory.reset();
  in.memory.reset();
  const auto start = std::chrono::steady_clock::now();
  mesh = Mesh();
  transport.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  ranks->barrier();
}

/// Run with less than MPI_THREAD_MULTIPLE.
TEST(MpiThreads, MpiMustAllowThemAll) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) return;
  EXPECT_NE(message_of(ErrorCode::unsupported, [] { make_transport(MPI_COMM_WORLD); })
                .find("MPI_THREAD_MULTIPLE"),
            std::string::npos);
}

}  // namespace
}  // namespace plait::transport

int main(int argc, char** argv) {
  using plait::transport::Transport;
  testing::InitGoogleTest(&argc, argv);
  const bool single = argc > 1 && std::string_view(argv[1]) == "--single";
  int level = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // It outlives MPI, as an object of a program may.
  std::unique_ptr<Transport> last;
  std::unique_ptr<plait::transport::Listener> listener;
  if (!single) {
    last = plait::transport::make_transport(MPI_COMM_WORLD);
    listener = last->listen();
  }
  const int status = plait::test::run_tests(rank);
  MPI_Finalize();
  if (last && !plait::test::error_of([&] { listener->accept(); })) return 1;
  return status;
}
