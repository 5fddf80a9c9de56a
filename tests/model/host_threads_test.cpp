// The host's own protocols in all executions: streams that sleep and are woken, barriers of the
// threads of a block, and the log of calls that other ranks read.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "backends/host/host_stream.hpp"
#include "backends/host/host_team.hpp"
#include "communicator/fault/call_log.hpp"
#include "model/explored.hpp"

namespace plait::host {
struct Pool::Buffer {};
Pool::Pool() = default;  // the tasks of these tests are no kernels
Pool::~Pool() = default;
void Pool::run(const Launch&) {}
}  // namespace plait::host

namespace plait::test {
namespace {

/// A stream, and what its tasks have done.
struct Streamed {
  host::HostStream stream;
  int ran[2] = {};  // by who has pushed them
  void push(int by = 0) {
    stream.push([this, by](host::HostStream&) { ++ran[by]; });
  }
  void wait_for(int tasks) { stream.progress()->wait_for(static_cast<std::uint64_t>(tasks)); }
};
TEST(HostStream, RunsEachTaskOnce) {
  using It = Streamed;
  const auto push = [](It& it) { it.push(); };
  const auto push_two = [](It& it) {
    it.push();
    it.push();
    it.stream.synchronize();
    expect(it.ran[0] == 2, "a task was lost");
  };
  const auto one = [](It& it) {
    it.push(0);
    it.stream.synchronize();
    expect(it.ran[0] == 1, "a task was lost");
  };
  const auto another = [](It& it) {
    it.push(1);
    it.stream.synchronize();
    expect(it.ran[1] == 1, "a task was lost");
  };
  const auto wait = [](It& it) {
    it.wait_for(1);
    expect(it.ran[0] == 1, "a task was lost");
  };
  const auto poll = [](It& it) {
    it.push();
    while (!it.stream.test()) std::this_thread::yield();
    expect(it.ran[0] == 1, "a task was lost");
  };
  // If the stream is idle, this thread runs the task; if not, it waits as any other.
  const auto run = [](It& it) {
    if (!it.stream.run([&](host::HostStream&) { ++it.ran[0]; })) {
      it.push(0);
      it.stream.synchronize();
    }
    expect(it.ran[0] == 1, "a task was lost");
  };
  // Four waits soon after a push make the stream expect a fifth.
  const auto push_five = [](It& it) {
    for (int i = 0; i < 4; ++i) {
      it.push();
      it.stream.synchronize();
    }
    it.push();
  };
  const auto wait_for_five = [](It& it) { it.wait_for(5); };

  explore_all("host stream: push, and the end", together<It>({push}, 1));
  explore_all("host stream: push, push, synchronize", together<It>({push_two}, 1));
  explore_all("host stream: two threads push and synchronize", together<It>({one, another}, 1));
  explore_all("the same, and time passes", together<It>({one, another}, 1, true));
  explore_all("host stream: one runs a task at once, one pushes and synchronizes",
              together<It>({run, another}, 1));
  explore_all("host stream: one pushes, one waits", together<It>({push, wait}, 1));
  explore_all("host stream: one polls", together<It>({poll}, 1));
  explore_all("host stream: a wait that was expected", together<It>({push_five, wait_for_five}, 1),
              200);
}

/// A block of threads that vote, each against it in one of the rounds, and read what all of them
/// have stored before.
template <unsigned Threads>
struct Voting {
  host::Team team{Threads};
  static constexpr unsigned rounds = 4;  // a ballot is used again
  unsigned stored[rounds][Threads] = {};

  void vote(unsigned thread) {
    for (unsigned round = 0; round < rounds; ++round) {
      stored[round][thread] = thread + 1;
      expect(team.all(round != thread, thread, round, [] { return false; }) == (round >= Threads),
             "the vote is wrong");
      for (unsigned other = 0; other < Threads; ++other)
        expect(stored[round][other] == other + 1, "a store before the barrier is not seen");
    }
  }
};

TEST(HostTeam, VotesAndOrders) {
  explore_all("barrier of a block: two threads",
              together<Voting<2>>(
                  {[](Voting<2>& it) { it.vote(0); }, [](Voting<2>& it) { it.vote(1); }}, 0));
  explore_all(
      "barrier of a block: three threads",
      together<Voting<3>>({[](Voting<3>& it) { it.vote(0); }, [](Voting<3>& it) { it.vote(1); },
                           [](Voting<3>& it) { it.vote(2); }},
                          0),
      300);
}

/// One rank publishes calls, another one looks at the last one.
struct Published {
  std::unique_ptr<CallLog<2>> log{new CallLog<2>()};
  static Signature signature(std::uint64_t call) {
    return {.count = call * 3, .facts = call * 5, .place = call * 7, .options = call * 11};
  }
};

TEST(CallLog, GivesWholeCalls) {
  explore_all(
      "log of calls: one writes, one reads",
      together<Published>({[](Published& it) {
                             for (std::uint64_t call = 1; call <= 4; ++call)
                               it.log->publish(call, Published::signature(call));
                           },
                           [](Published& it) {
                             const std::uint64_t call = it.log->last();
                             if (call == 0) return;
                             const auto copy = it.log->copy(call);
                             expect(!copy.whole || copy.signature == Published::signature(call),
                                    "a copy that says it is whole is not");
                           }},
                          0));
}

}  // namespace
}  // namespace plait::test
