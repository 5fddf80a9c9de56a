// A rank that has destroyed the communicator: the ranks that wait for it hear of it at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "fault/deadline.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// A rank that has destroyed the communicator makes no call any more: those that wait for it hear
/// of it at once.
class Left : public testing::Test {
 protected:
  using Call = std::function<void(Communicator&, Arena&)>;
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(3); }

  /// Rank 1 leaves after three calls, rank 0 makes `call`, rank 2 none.
  static void expect_lost(const Call& call, const testing::Matcher<std::string>& message) {
    run_ranks(
        3,
        [&](Communicator& comm, int rank) {
          Arena arena(comm);
          for (int i = 0; i < 3; ++i) comm.barrier();
          comm.synchronize();
          comm.bootstrap().barrier();
          if (rank == 1) return;
          const auto start = Clock::now();
          if (rank == 0) call(comm, arena);
          const auto error = rank == 0 ? error_of([&] { comm.synchronize(); }) : heard(comm);
          expect_error(
              error, ErrorCode::rank_lost,
              AllOf(HasSubstr("rank 1 (process"),
                    HasSubstr("which has destroyed the communicator): last call 3, barrier"),
                    message));
          EXPECT_LT(Clock::now() - start, promised);
        },
        patient());
  }
};

TEST_F(Left, BeforeACollective) {
  expect_lost(
      [](Communicator& comm, Arena& arena) {
        comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32,
                        ReduceOp::sum);
      },
      AllOf(HasSubstr("rank 0 has made call 4, all_reduce of 100 f32 elements"),
            HasSubstr("PLAIT_CHECK=1 compares counts")));
}

TEST_F(Left, BeforeItSends) {
  expect_lost([](Communicator& comm,
                 Arena& arena) { comm.recv(arena.recv.device(), 100, DataType::f32, 1); },
              HasSubstr("rank 0 receives message 1 from it, 100 f32 elements"));
}

/// A short message goes without a receiver, so only the deadline shows that a long one does not.
TEST_F(Left, BeforeItReceives) {
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        constexpr std::size_t bytes = std::size_t{32} << 20;
        comm.bootstrap().barrier();
        if (rank == 1) return;
        if (rank == 2) return stay(comm);
        Backend& backend = backend_of(comm);
        void* const data = backend.allocate(bytes);
        comm.send(data, bytes, DataType::u8, 1);
        expect_error(
            error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
            AllOf(HasSubstr("rank 1 has destroyed the communicator: in message 1 (pairwise_"),
                  HasSubstr("rank 0 waited 0.3 s for rank 1")));
        backend.deallocate(data);
      },
      impatient());
}

/// A rank may leave once it has enqueued its part, however late the others come to it, and whatever
/// they do among themselves.
TEST_F(Left, AfterItsPart) {
  std::atomic<bool> gone = false;
  auto bootstraps = make_thread_bootstraps(3);
  on_threads(3, [&](int rank) {
    auto comm = std::make_unique<Communicator>(
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), patient()));
    auto memory = std::make_unique<Arena>(*comm);
    Arena& arena = *memory;
    comm->bootstrap().barrier();
    if (rank == 0) std::this_thread::sleep_for(200ms);
    for (int i = 0; i < 20; ++i)
      comm->all_reduce(arena.symmetric_send.device(), arena.symmetric_recv.device(), 1000,
                       DataType::i32, ReduceOp::max);
    if (rank == 1) {
      comm->send(arena.send.device(), 10, DataType::i32, 0);
      memory.reset();
      comm.reset();
      gone = true;
      return;
    }
    while (!gone) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);
    EXPECT_FALSE(comm->async_error().has_value());
    if (rank == 0) comm->recv(arena.recv.device(), 10, DataType::i32, 1);
    if (rank == 0) comm->send(arena.send.device(), 10, DataType::i32, 2);
    if (rank == 2) comm->recv(arena.recv.device(), 10, DataType::i32, 0);
    comm->synchronize();
    EXPECT_FALSE(heard(*comm, 1s).has_value());
  });
}

/// Its own kernels may wait for a rank that has left: destroying it must come to an end.
TEST_F(Left, WhoWaitsForItInItsDestructor) {
  const auto start = Clock::now();
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        Arena arena(comm);
        comm.bootstrap().barrier();
        if (rank != 1)
          comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32,
                          ReduceOp::sum);
      },
      patient());
  EXPECT_LT(Clock::now() - start, soon);
}

}  // namespace
}  // namespace plait::test
