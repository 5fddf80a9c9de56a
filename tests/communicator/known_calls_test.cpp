// Calls that are made again: the communicator repeats what it launched for them, as long as that
// is still right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/communicator_state.hpp"
#include "communicator/device_group_state.hpp"
#include "communicator/numbers.hpp"
#include "fault/deadline.hpp"
#include "support/errors.hpp"
#include "support/forwarding_algorithm.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t count = 300;

class Known : public ForRanks {
 protected:
  static void enqueue(CommunicatorState& state, const Call& call, const void* send, void* recv,
                      const CallOptions& options = {}) {
    state.collectives.call({.call = call, .send = send, .recv = recv, .options = options}, {});
  }
  static void exchange(CommunicatorState& state, const std::vector<MessageEnd>& ends) {
    const Call messages{.collective = Collective::send_recv, .type = DataType::i32};
    state.messages.call("test", {.call = messages, .ends = ends, .options = {}}, {});
  }
  /// `body(state)` for the inside of a communicator on each rank.
  static void run_states(const std::function<void(CommunicatorState&)>& body) {
    with_bootstraps(ranks(), [&](std::unique_ptr<Bootstrap> bootstrap, int) {
      CommunicatorState state(std::move(bootstrap), test_options());
      const DeviceScope device(*state.resources.backend);
      body(state);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, Known, testing::Values(1, 2, 3), TestName());
PLAIT_FOR_RANKS(KnownByOthers, testing::Values(2, 3));

const Call sum_of_ints{.collective = Collective::all_reduce, .type = DataType::i32, .count = count};

/// As on ranks of their own.
TEST_P(Known, CallsOfDeviceGroupsAreRepeated) {
  std::vector<int> devices(static_cast<std::size_t>(ranks()));
  std::iota(devices.begin(), devices.end(), 0);
  DeviceGroupState group(devices, target(), {});
  std::deque<Numbers> sends, recvs;
  const auto on_each = [&](const auto& body) {
    for (int rank = 0; rank < ranks(); ++rank) {
      const DeviceScope device(backend_of(group.at(static_cast<std::size_t>(rank))));
      body(rank, static_cast<std::size_t>(rank));
    }
  };
  on_each([&](int, std::size_t at) {
    for (auto* numbers : {&sends, &recvs}) numbers->emplace_back(backend_of(group.at(at)), count);
  });
  for (unsigned round = 1; round <= 5; ++round) {
    on_each([&](int rank, std::size_t at) { sends[at].fill(static_cast<int>(round), rank); });
    group.collective(
        "sums", {}, {}, [] {},
        [&](std::size_t at, const CallOptions& options) -> Request {
          return {.call = sum_of_ints,
                  .send = sends[at].data(),
                  .recv = recvs[at].data(),
                  .options = options};
        });
    group.synchronize({});
    on_each([&](int, std::size_t at) {
      recvs[at].expect_reduced(static_cast<int>(round), ranks());
      EXPECT_EQ(group.path(at).repeated_calls(), round < 3 ? 0 : round - 2);
      EXPECT_EQ(group.path(at).statistics().calls, round);
    });
  }
}

/// The first call is noted, the second one kept; from the third on they are repeated, until scratch
/// memory is granted again: `reserve` moves the memory of messages on GPUs, so what was launched
/// before may not be right. Statistics don't tell the difference.
TEST_P(Known, CallsAreRepeatedFromTheThirdOn) {
  run_states([&](CommunicatorState& state) {
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count);
    const auto call = [&](int round, unsigned repeated) {
      send.fill(round, state.resources.rank());
      enqueue(state, sum_of_ints, send.data(), recv.data());
      state.synchronize({});
      recv.expect_reduced(round, ranks());
      EXPECT_EQ(state.path.repeated_calls(), repeated);
    };
    for (int round = 1; round <= 6; ++round)
      call(round, static_cast<unsigned>(round < 3 ? 0 : round - 2));
    EXPECT_EQ(state.path.statistics().calls, 6U);
    EXPECT_EQ(state.path.statistics().launches, 6U);
    state.reserve();
    call(7, 4);
    for (int round = 8; round <= 10; ++round) call(round, 5 + static_cast<unsigned>(round - 8));
  });
}

/// Each of these differs in one thing from the call that is known.
TEST_P(Known, ACallThatDiffersIsAnother) {
  run_states([&](CommunicatorState& state) {
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count),
        other(*state.resources.backend, count);
    send.fill(1, state.resources.rank());
    other.fill(2, state.resources.rank());
    const auto call = [&](const Call& wanted, const Numbers& from,
                          const CallOptions& options = {}) {
      enqueue(state, wanted, from.data(), recv.data(), options);
      state.synchronize({});
    };
    for (int i = 0; i < 3; ++i) call(sum_of_ints, send);
    ASSERT_EQ(state.path.repeated_calls(), 1U);
    Call differs = sum_of_ints;
    for (const ReduceOp op : {ReduceOp::max, ReduceOp::prod}) {
      differs.op = op;
      call(differs, send);
      recv.expect_reduced(1, ranks(), op);
    }
    call(sum_of_ints, other);
    recv.expect_reduced(2, ranks());
    differs = sum_of_ints;
    differs.collective = Collective::broadcast;
    for (const int root : {ranks() - 1, 0}) {
      differs.root = root;
      call(differs, send);
      recv.expect_sent(1, root);
      if (ranks() == 1) break;
    }
    EXPECT_EQ(state.path.repeated_calls(), 1U);
    call(sum_of_ints, send);
    recv.expect_reduced(1, ranks());
    EXPECT_EQ(state.path.repeated_calls(), 2U) << "one that came between is taken for it";
    // One that is refused is refused each time, beside the one that is known.
    for (int i = 0; i < 4; ++i)
      expect_invalid([&] { call(sum_of_ints, send, {.algorithm = "nothing"}); }, "nothing");
  });
}

/// Calls in turns: as many as have room, and more.
TEST_P(Known, ManyCallsInTurns) {
  for (const std::size_t calls : {std::size_t{20}, std::size_t{200}})
    run_states([&](CommunicatorState& state) {
      Numbers send(*state.resources.backend, calls), recv(*state.resources.backend, calls);
      for (int round = 1; round <= 5; ++round) {
        send.fill(round, state.resources.rank());
        recv.fill(0, state.resources.rank());
        Call one = sum_of_ints;
        one.count = 1;
        for (std::size_t i = 0; i < calls; ++i)
          enqueue(state, one, send.data() + i, recv.data() + i);
        state.synchronize({});
        recv.expect_reduced(round, ranks());
      }
      EXPECT_EQ(state.path.statistics().calls, 5 * calls);
      EXPECT_EQ(state.path.statistics().launches, 5 * calls);
      // Addresses differ from run to run, and so do the sets in which the calls meet.
      EXPECT_LE(state.path.repeated_calls(), 3 * calls);
      if (calls == 20) {
        EXPECT_GT(state.path.repeated_calls(), 2 * calls);
      }
    });
}

/// An all-reduce, over and over.
struct Sum {
  Communicator& comm;
  Numbers send{backend_of(comm), count}, recv{backend_of(comm), count};

  void call(StreamRef stream = {}, const CallOptions& options = {}, std::size_t elements = count) {
    comm.all_reduce(send.data(), recv.data(), elements, DataType::i32, ReduceOp::sum, stream,
                    options);
  }
};

/// Messages of a call to the next rank and from the one before, to the rank itself, and empty ones.
TEST_P(Known, Messages) {
  run_states([&](CommunicatorState& state) {
    const int n = ranks(), next = (state.resources.rank() + 1) % n,
              before = (state.resources.rank() + n - 1) % n;
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count),
        own(*state.resources.backend, count);
    const std::vector<MessageEnd> ends = {
        {.sends = true, .peer = next, .buffer = send.data(), .count = count, .always = true},
        {.sends = true, .peer = next, .buffer = nullptr, .count = 0, .always = true},
        {.sends = true, .peer = state.resources.rank(), .buffer = send.data(), .count = 7},
        {.sends = true, .peer = proc_null, .buffer = nullptr, .count = 7},
        {.sends = false, .peer = before, .buffer = recv.data(), .count = count, .always = true},
        {.sends = false, .peer = before, .buffer = nullptr, .count = 0, .always = true},
        {.sends = false, .peer = state.resources.rank(), .buffer = own.data(), .count = 7},
    };
    for (int round = 1; round <= 5; ++round) {
      send.fill(round, state.resources.rank());
      own.fill(0, state.resources.rank());
      exchange(state, ends);
      state.synchronize({});
      recv.expect_sent(round, before);
      own.expect([&](std::size_t i) { return sent(i < 7 ? round : 0, state.resources.rank(), i); },
                 round);
      EXPECT_EQ(state.path.repeated_calls(), static_cast<unsigned>(round < 3 ? 0 : round - 2));
    }
    EXPECT_EQ(state.path.statistics().calls, 5U);
    EXPECT_EQ(state.path.statistics().launches, 5U);
    EXPECT_EQ(state.path.statistics().in_arguments.launches, 5U)
        << "four ends have work of their own";
    // To another peer it is another call.
    std::vector<MessageEnd> back = ends;
    for (MessageEnd& end : back)
      if (end.peer == (end.sends ? next : before)) end.peer = end.sends ? before : next;
    exchange(state, back);
    state.synchronize({});
    recv.expect_sent(5, next);
  });
}

/// The symmetric memory of a known call is freed, and other symmetric memory comes in its place.
TEST_P(Known, SymmetricMemoryThatIsFreed) {
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    for (int round = 1; round <= 5; ++round) {
      const auto data = comm.allocate<int>(count);
      Numbers numbers(backend_of(comm), data.data(), count);
      for (int again = 0; again < 4; ++again) {
        numbers.fill(4 * round + again, rank);
        comm.all_reduce(data.data(), data.data(), count, DataType::i32, ReduceOp::sum);
        comm.synchronize();
        numbers.expect_reduced(4 * round + again, ranks());
      }
    }
  });
}

/// Ordinary memory comes where symmetric memory was when the call became known. The peers have no
/// way into that.
TEST_P(Known, OrdinaryMemoryWhereSymmetricMemoryWas) {
  if (target() != BackendKind::host) GTEST_SKIP() << "addresses can be chosen on the host alone";
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    constexpr std::size_t size = std::size_t{1} << 16;
    int* at = nullptr;
    const auto call = [&] {
      comm.all_reduce(at, at, count, DataType::i32, ReduceOp::sum, {}, {.algorithm = "twoshot"});
    };
    bool mapped_by_all = false;
    for (int trial = 0; !mapped_by_all; ++trial) {
      ASSERT_LT(trial, 20) << "the addresses are in use";  // other threads may map something there
      {
        const auto data = comm.allocate<std::byte>(size);
        at = reinterpret_cast<int*>(data.data());
        Numbers numbers(backend_of(comm), at, count);
        for (int again = 0; again < 4; ++again) {
          numbers.fill(again, rank);
          call();
          comm.synchronize();
          numbers.expect_reduced(again, ranks());
        }
      }
      comm.bootstrap().barrier();  // all ranks have unmapped it
      auto* const page =
          reinterpret_cast<std::byte*>(at) - (reinterpret_cast<std::uintptr_t>(at) & 0xfffu);
      void* const mapped = mmap(page, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      const auto all = comm.bootstrap().all_gather(mapped == page ? 1 : 0);
      mapped_by_all = std::find(all.begin(), all.end(), 0) == all.end();
      for (int again = 0; mapped_by_all && again < 4; ++again)
        expect_throws(ErrorCode::unsupported, call, "symmetric");
      comm.bootstrap().barrier();
      if (mapped == page) munmap(mapped, size);
    }
  });
}

TEST_P(Known, InAGraph) {
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    Sum sum{comm};
    const Stream stream = comm.create_stream();
    for (int round = 0; round < 3; ++round) sum.call(stream);
    comm.synchronize(stream);
    const auto graph = captured(comm, stream, [&] { sum.call(stream); });
    for (int round = 1; round <= 6; ++round) {
      sum.send.fill(round, rank);
      if (round % 2 == 0) sum.call(stream);
      else graph->launch(stream.native());
      comm.synchronize(stream);
      sum.recv.expect_reduced(round, ranks());
    }
  });
}

/// What a stream, a group or a broken communicator forbid is forbidden for known calls, too.
TEST_P(Known, IsRefusedAsAnyOther) {
  run_ranks(ranks(), [&](Communicator& comm, int) {
    Sum sum{comm};
    for (int round = 0; round < 4; ++round) sum.call({}, {.blocking = true});
    NativeStream gone = nullptr;
    {
      const Stream stream = comm.create_stream();
      gone = stream.native();
      for (int round = 0; round < 3; ++round) sum.call(stream);
      comm.synchronize(stream);
      if (target() == BackendKind::host) {
        backend_of(comm).begin_capture(gone);
        expect_invalid([&] { sum.call(stream, {.blocking = true}); },
                       "a stream that is being captured");
        backend_of(comm).end_capture(gone);
      }
    }
    if (target() == BackendKind::host)
      expect_invalid([&] { sum.call({static_cast<CUstream_st*>(gone)}); }, "is no stream");
    {
      Group group;
      const Statistics before = comm.statistics();
      sum.call();
      EXPECT_EQ(comm.statistics().launches, before.launches) << "a group collects its calls";
      group.end();
      EXPECT_EQ(comm.statistics().launches, before.launches + 1);
    }
    comm.synchronize();
    comm.bootstrap().barrier();
    comm.abort("the test says so");
    EXPECT_TRUE(error_of([&] { sum.call(); }).has_value());
  });
}

/// One rank makes another call in the place of a known one.
TEST_P(KnownByOthers, AMismatchIsNoticed) {
  run_ranks(ranks(), impatient(), [&](Communicator& comm, int rank) {
    Sum sum{comm};
    for (int round = 0; round < 4; ++round) sum.call();
    comm.synchronize();
    sum.call({}, {}, rank == 0 ? count - 1 : count);
    const auto error = heard(comm);
    EXPECT_TRUE(error_of([&] { comm.synchronize(); }).has_value());  // nothing uses the buffers
    expect_error(error, ErrorCode::mismatch,
                 testing::AllOf(HasSubstr("call 5"), HasSubstr("299"), HasSubstr("300")));
  });
}

/// The kernel that waits in vain says which call it is.
TEST_P(KnownByOthers, ATimeoutNamesTheCall) {
  run_ranks(ranks(), impatient(), [&](Communicator& comm, int rank) {
    Sum sum{comm};
    for (int round = 0; round < 5; ++round) sum.call();
    comm.synchronize();
    comm.bootstrap().barrier();
    if (rank == 0) return stay(comm);
    sum.call();
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
                 testing::AllOf(testing::ContainsRegex("rank 0 .*last call 5, all_reduce"),
                                HasSubstr("in call 6 ")));
  });
}

/// An algorithm of the program, which counts how often it is asked.
struct Asked final : ForwardingAlgorithm {
  Asked() : ForwardingAlgorithm("asked", "direct_ll", Collective::broadcast) {}
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    ++times;
    ForwardingAlgorithm::enqueue(call, buffers, shape, context);
  }
  static inline std::atomic<int> times = 0;
};
const AlgorithmRegistration<Asked> asked;

TEST(KnownCalls, TheProgramsAlgorithmsAreAskedEachTime) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [](Communicator& comm, int rank) {
    Numbers send(backend_of(comm), count), recv(backend_of(comm), count);
    for (int round = 1; round <= 5; ++round) {
      send.fill(round, rank);
      comm.broadcast(send.data(), recv.data(), count, DataType::i32, 0, {}, {.algorithm = "asked"});
      comm.synchronize();
      recv.expect_sent(round, 0);
    }
  });
  EXPECT_EQ(Asked::times, 2 * 5);
}

}  // namespace
}  // namespace plait::test
