// Errors that come later, aborts, and the ends of communicators.
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>

#include "interop/nccl/ranks.hpp"

namespace plait::nccl::test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

TEST(Life, AWatchdogAsksWhileAnotherThreadIsStuckAndAborts) {
  on_ranks_that_end(2, [&](int rank, CommHandle comm) {
    check_sum(comm, rank, 2);
    if (rank == 1) {  // makes no call, so the other rank is stuck
      EXPECT_EQ(state_after(comm, Result::success), Result::remote_error);
      EXPECT_NE(std::string(ncclGetLastError(comm)).find("aborted"), std::string::npos);
      EXPECT_OK(ncclCommAbort(comm));
      return;
    }
    std::atomic<bool> is_back = false;
    std::thread stuck([&] {
      std::int32_t value = 1;
      EXPECT_NE(sum_up(value, comm), Result::success);
      is_back = true;
    });
    const auto until = steady_clock::now() + seconds(1);
    for (long asked = 0; steady_clock::now() < until; ++asked) {
      Result state = Result::internal_error;
      OK(ncclCommGetAsyncError(comm, &state));
      ASSERT_EQ(state, Result::success);
    }
    EXPECT_FALSE(is_back);
    EXPECT_OK(ncclCommAbort(comm));
    stuck.join();
  });
}

/// `body(comm)` on rank 0 of two; rank 1 makes no call and leaves once rank 0 has aborted.
void beside_a_silent_rank(const std::function<void(CommHandle)>& body) {
  on_ranks_that_end(2, [&](int rank, CommHandle comm) {
    if (rank == 0) return body(comm);
    EXPECT_EQ(state_after(comm, Result::success), Result::remote_error);
    EXPECT_OK(ncclCommAbort(comm));
  });
}

/// Returns once another thread is stuck in a call of the communicator.
void await_stuck_thread(CommHandle comm) {
  constexpr std::chrono::milliseconds pause{5};
  const auto until = steady_clock::now() + seconds(30);
  for (int met = 0; met < 60 && steady_clock::now() < until; std::this_thread::sleep_for(pause)) {
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, int32, op_sum, comm, nullptr),
              Result::invalid_argument);
    met = last_error().find("another thread is inside") == std::string::npos ? 0 : met + 1;
  }
}
/// For that other thread, which is refused while the first one is asking. `call` may ignore errors
/// in a group.
void get_stuck(const std::function<Result()>& call) {
  Result result = Result::invalid_argument;
  while (result == Result::invalid_argument) result = call();
  EXPECT_EQ(result, Result::remote_error) << last_error();
}

/// Calls that are stuck in a thread.
constexpr const char* stuck_calls[] = {"ACall", "AGroup", "ASplit", "AFinalisation"};
class LifeStuck : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(In, LifeStuck, testing::Range(0, 4),
                         [](const auto& test) { return stuck_calls[test.param]; });

TEST_P(LifeStuck, OnlyAnAbortEndsTheCommunicator) {
  beside_a_silent_rank([](CommHandle comm) {
    std::int32_t x = 1, y = 2;
    HostStream stream(comm);
    if (GetParam() == 3) {
      OK(sum_up(x, comm, stream.get()));
    }
    std::thread stuck([&] {
      get_stuck([&] {
        CommHandle part = nullptr;
        if (GetParam() == 0) return sum_up(x, comm);
        if (GetParam() == 2) return ncclCommSplit(comm, 0, 0, &part, nullptr);
        if (GetParam() == 3) return ncclCommFinalize(comm);
        EXPECT_OK(ncclGroupStart());
        static_cast<void>(sum_up(x, comm));
        static_cast<void>(ncclBroadcast(&y, &y, 1, int32, 1, comm, nullptr));
        return ncclGroupEnd();
      });
    });
    await_stuck_thread(comm);
    const auto inside = [](Result result) {
      return refused(result, Result::invalid_argument, "another thread is inside");
    };
    CommHandle part = nullptr;
    EXPECT_TRUE(inside(ncclCommDestroy(comm)));
    EXPECT_TRUE(inside(ncclCommFinalize(comm)));
    EXPECT_TRUE(inside(ncclCommSplit(comm, 0, 0, &part, nullptr)));
    OK(ncclGroupStart());
    EXPECT_TRUE(inside(ncclCommDestroy(comm)));
    EXPECT_OK(ncclGroupEnd()) << "a refused end adds nothing to the group";
    EXPECT_EQ(own_rank(comm), 0);
    EXPECT_OK(ncclCommAbort(comm));
    stuck.join();
    EXPECT_INVALID(ncclCommDestroy(comm), "has been destroyed");
  });
}

/// Nothing waits in the call, but its end does.
TEST(Life, AnAbortEndsADestructionThatWaits) {
  for (const bool grouped : {false, true})
    beside_a_silent_rank([&](CommHandle comm) {
      std::int32_t value = 1;
      HostStream stream(comm);
      OK(sum_up(value, comm, stream.get()));
      std::thread destroyer([&] {
        if (grouped) {
          EXPECT_OK(ncclGroupStart());
        }
        EXPECT_OK(ncclCommDestroy(comm));
        if (grouped) {
          EXPECT_OK(ncclGroupEnd());
        }
      });
      int rank = -1;
      while (ncclCommUserRank(comm, &rank) == Result::success) std::this_thread::yield();
      Result state = Result::internal_error;
      EXPECT_OK(ncclCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, Result::success);
      EXPECT_INVALID(ncclCommDestroy(comm), "has been destroyed");
      EXPECT_OK(ncclCommAbort(comm));
      destroyer.join();
      EXPECT_INVALID(ncclCommAbort(comm), "has been destroyed");
    });
}

/// In a group, and one after the other, as a watchdog does that has a list of communicators. Each
/// lacks a rank's call, so that none ends before its own abort: on another device, and on the same.
TEST(Life, AbortsEndCallsBesideThoseOfAnotherCommunicator) {
  for (const bool grouped : {true, false}) {
    OwnRanks first(2), second(2);
    std::int32_t x = 1, y = 1;
    const int other = grouped ? 1 : 0;
    HostStream a(first[0]), b(second[other]);
    OK(sum_up(x, first[0], a.get()));
    OK(sum_up(y, second[other], b.get()));
    const auto begin = steady_clock::now();
    if (grouped) {
      OK(ncclGroupStart());
    }
    for (OwnRanks* own : {&first, &second}) {
      for (const CommHandle comm : own->comms) EXPECT_OK(ncclCommAbort(comm));
      own->comms.clear();
    }
    if (grouped) {
      EXPECT_OK(ncclGroupEnd());
    }
    EXPECT_LT(steady_clock::now() - begin, seconds(20));
    a.synchronize();
    b.synchronize();
  }
}

TEST(Life, OneThreadDestroysRankAfterRank) {
  const IdBytes id = new_id();
  CommHandle comms[3] = {};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) OK(ncclCommInitRank(&comms[rank], 3, id, rank));
  OK(ncclGroupEnd());
  const auto begin = steady_clock::now();
  for (const CommHandle comm : comms) {
    EXPECT_OK(ncclCommFinalize(comm));
    EXPECT_OK(ncclCommDestroy(comm));
  }
  EXPECT_LT(steady_clock::now() - begin, seconds(10));
}

TEST(Life, AGroupDestroysAll) {
  OwnRanks own(3);
  std::vector<std::int32_t> data = {1, 2, 3};
  OK(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    std::int32_t* const value = &data[static_cast<std::size_t>(rank)];
    OK(sum_up(*value, own[rank]));
  }
  for (CommHandle& comm : own.comms) EXPECT_OK(ncclCommDestroy(std::exchange(comm, nullptr)));
  OK(ncclGroupEnd());
  EXPECT_THAT(data, testing::Each(6));
}

TEST(Life, AfterItsEndsACommunicatorIsRefused) {
  CommHandle comm = nullptr;
  OK(ncclCommInitRank(&comm, 1, new_id(), 0));
  OK(ncclCommFinalize(comm));
  std::int32_t value = 1;
  const auto reduce = [&] { return sum_up(value, comm); };
  EXPECT_INVALID(reduce(), "has been finalised");
  EXPECT_INVALID(ncclCommFinalize(comm), "has been finalised");
  Result state = Result::internal_error;
  OK(ncclCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, Result::success);
  EXPECT_EQ(own_rank(comm), 0);
  OK(ncclCommDestroy(comm));
  EXPECT_INVALID(reduce(), "has been destroyed");
  EXPECT_INVALID(ncclCommDestroy(comm), "has been destroyed");
  EXPECT_INVALID(ncclCommAbort(comm), "has been destroyed");
  EXPECT_INVALID(ncclCommGetAsyncError(comm, &state), "has been destroyed");
}

TEST(Life, CallsThatDifferAreReported) {
  on_ranks(2, [](int rank, CommHandle comm) {
    std::vector<std::int32_t> data(100, 1);
    HostStream stream(comm);
    // The call itself may hear of it already.
    static_cast<void>(ncclAllReduce(data.data(), data.data(), rank == 0 ? 100 : 50, int32, op_sum,
                                    comm, stream.get()));
    EXPECT_EQ(state_after(comm, Result::success), Result::invalid_usage);
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("100"), std::string::npos);
    stream.synchronize();
    std::int32_t value = 1;
    EXPECT_EQ(sum_up(value, comm), Result::invalid_usage);
  });
}

TEST(Life, ARankThatLeavesTooEarlyIsReported) {
  on_ranks_that_end(2, [&](int rank, CommHandle comm) {
    if (rank == 1) {
      EXPECT_OK(ncclCommDestroy(comm));
      return;
    }
    std::int32_t value = 1;
    EXPECT_EQ(sum_up(value, comm), Result::remote_error);
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

TEST(Life, ARevokedCommunicatorMakesNoCalls) {
  on_ranks_that_end(2, [&](int rank, CommHandle comm) {
    OK(ncclCommRevoke(comm, 0));
    Result state = Result::internal_error;
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, Result::success);
    std::int32_t value = rank + 1;
    EXPECT_EQ(sum_up(value, comm), Result::remote_error);
    EXPECT_OK(ncclCommDestroy(comm));
  });
}

/// The files that this process has open.
std::size_t open_files() {
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd"))
    ++files;
  return files;
}

TEST(Life, CommunicatorsLeaveNothingOpen) {
  const auto make_and_shrink = [] {
    on_ranks(3, [](int rank, CommHandle comm) {
      check_sum(comm, rank, 3);
      CommHandle part = nullptr, rest = nullptr;
      OK(ncclCommSplit(comm, 0, -rank, &part, nullptr));
      int excluded = 1;
      if (rank != 1) {
        OK(ncclCommShrink(comm, &excluded, 1, &rest, nullptr, 0));
        check_sum(rest, rank / 2, 2);
        EXPECT_OK(ncclCommDestroy(rest));
      }
      EXPECT_OK(ncclCommDestroy(part));
    });
  };
  make_and_shrink();
  const std::size_t before = open_files();
  for (int turn = 0; turn < 5; ++turn) make_and_shrink();
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace plait::nccl::test
