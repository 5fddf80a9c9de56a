// The errors that end waits for calls: test, wait_any and calls that block.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <tuple>

#include "communicator/completion.hpp"
#include "communicator/streams.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

/// A way to wait for a barrier that the last rank never makes.
struct Waiter {
  const char* name;
  std::function<void(Communicator&)> wait;
  friend void PrintTo(const Waiter& waiter, std::ostream* to) { *to << waiter.name; }
  friend std::string test_name(const Waiter& waiter) { return waiter.name; }
};
const Waiter waiters[] = {
    {"Test",
     [](Communicator& comm) {
       comm.barrier();
       poll(comm, {});
     }},
    {"WaitAny",
     [](Communicator& comm) {
       const Stream a = comm.create_stream(), b = comm.create_stream();
       comm.barrier(a);
       comm.barrier(b);
       comm.wait_any({a, b});
     }},
    {"WaitAnyOfOne",
     [](Communicator& comm) {
       comm.barrier();
       comm.wait_any({StreamRef()});
     }},
    {"Blocking", [](Communicator& comm) { comm.barrier({}, {.blocking = true}); }}};

class Broken : public testing::TestWithParam<std::tuple<int, Waiter>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  static int ranks() { return std::get<0>(GetParam()); }
  /// All ranks but the last wait until the error comes; the last does `last`.
  static void expect(ErrorCode code, const std::string& text, const CommunicatorOptions& options,
                     const std::function<void(Communicator&)>& last) {
    run_ranks(ranks(), options, [&](Communicator& comm, int rank) {
      comm.bootstrap().barrier();
      if (rank == comm.size() - 1) return last(comm);
      const auto& wait = std::get<1>(GetParam()).wait;
      expect_throws(
          code, [&] { wait(comm); }, text);
      expect_throws(
          code, [&] { comm.test(); }, text);
      expect_throws(
          code, [&] { comm.wait_any({StreamRef()}); }, text);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(By, Broken,
                         testing::Combine(testing::Values(2, 3), testing::ValuesIn(waiters)),
                         TestName());

TEST_P(Broken, AnAbortEndsIt) {
  expect(ErrorCode::aborted, "has aborted the communicator: enough", patient(),
         [](Communicator& comm) {
           std::this_thread::sleep_for(30ms);
           comm.abort("enough");
         });
}

TEST_P(Broken, ALostRankEndsIt) {
  expect(ErrorCode::rank_lost, "which has destroyed the communicator", patient(),
         [](Communicator&) {});
}

TEST_P(Broken, TheDeadlineEndsIt) {
  CommunicatorOptions options;
  options.timeout = 500ms;
  expect(ErrorCode::timeout, fmt::format("rank {}", ranks() - 1), test_options(options),
         [](Communicator& comm) { static_cast<void>(heard(comm, patience)); });
}

/// So the memory of the stream's calls may be used again after an error, too.
TEST(CompletionOfOne, ErrorsComeOnceTheStreamIsEmpty) {
  run_ranks(1, [](Communicator& comm, int) {
    const Stream held = comm.create_stream();
    Gate gate;
    gate.hold(backend_of(comm), held.native());
    comm.abort("enough");
    EXPECT_NO_THROW(EXPECT_FALSE(comm.test(held)));
    std::thread later([&] {
      std::this_thread::sleep_for(30ms);
      gate.open();
    });
    expect_throws(
        ErrorCode::aborted, [&] { comm.wait_any({held}); }, "enough");
    EXPECT_TRUE(backend_of(comm).is_done(held.native()));
    later.join();
    expect_throws(
        ErrorCode::aborted, [&] { comm.test(held); }, "enough");
  });
}

}  // namespace
}  // namespace plait::test
