// The end of calls: test, wait_any and calls that block.
#include "communicator/completion.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/streams.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"
#include "support/by_name.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

PLAIT_FOR_RANKS(Completion, testing::Values(1, 2, 3));

TEST_P(Completion, TestSaysWhetherTheStreamIsEmpty) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Stream own = comm.create_stream();
    for (const StreamRef stream : {StreamRef(own), StreamRef()}) {
      const Blocks blocks(comm);
      EXPECT_TRUE(comm.test(stream)) << "before the first call";
      Gate gate;
      gate.hold(backend_of(comm), stream.native());
      comm.all_reduce(blocks.send, blocks.recv, count, DataType::f32, ReduceOp::sum, stream);
      for (int i = 0; i < 3; ++i) EXPECT_FALSE(comm.test(stream));
      gate.open();
      poll(comm, stream);
      blocks.expect(Collective::all_reduce);
      EXPECT_TRUE(comm.test(stream));
    }
    comm.bootstrap().barrier();
  });
}

/// A host stream wakes no thread for a call if it expects the caller to wait.
TEST_P(Completion, PollingNeedsNoOtherWait) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 20; ++i) comm.barrier({}, {.blocking = true});
      comm.barrier();
      poll(comm, {});
    }
    comm.bootstrap().barrier();
  });
}

/// On the host the calls of a communicator on default streams are one sequence, whichever thread
/// makes them.
TEST_P(Completion, TestKnowsTheDefaultStreamsOfOtherThreads) {
  if (target() != BackendKind::host) GTEST_SKIP() << "GPUs have one default stream";
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Gate gate;
    std::thread([&] {
      gate.hold(backend_of(comm), nullptr);
      comm.barrier();
    }).join();
    EXPECT_FALSE(comm.test());
    gate.open();
    poll(comm, {});
    comm.bootstrap().barrier();
  });
}

TEST_P(Completion, WaitAnyReturnsAnEmptyStream) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Blocks blocks(comm);
    const Stream held = comm.create_stream(), used = comm.create_stream();
    Gate gate;
    gate.hold(backend_of(comm), held.native());
    gate.wait_until_reached();
    comm.all_reduce(blocks.send, blocks.recv, count, DataType::f32, ReduceOp::sum, used);
    EXPECT_EQ(comm.wait_any({held, used}), 1u);
    blocks.expect(Collective::all_reduce);
    std::thread later([&] {
      std::this_thread::sleep_for(30ms);
      gate.open();
    });
    EXPECT_EQ(comm.wait_any({held}), 0u);
    later.join();
    EXPECT_EQ(comm.wait_any({used, held}), 0u) << "the first of two";
    comm.bootstrap().barrier();
  });
}

TEST(CompletionOfOne, WhatCanNotBeWaitedForIsRefused) {
  run_ranks(1, [](Communicator& comm, int) {
    std::optional<Stream> stream = comm.create_stream();
    expect_invalid([&] { comm.wait_any({}); }, "wait_any: rank 0: no streams");
    Backend& backend = backend_of(comm);
    const auto refused = [&](const char* why) {
      expect_invalid([&] { comm.test(*stream); }, why);
      expect_invalid([&] { comm.wait_any({*stream}); }, why);
    };
    backend.begin_capture(stream->native());
    refused("is being captured");
    expect_invalid([&] { comm.barrier(*stream, {.blocking = true}); },
                   "barrier: rank 0: a blocking call on a stream that is being captured");
    backend.end_capture(stream->native());
    {
      Group group;
      comm.barrier(*stream);
      refused("this communicator has calls in a group that has not ended");
      group.end();
    }
    poll(comm, *stream);
    EXPECT_EQ(comm.statistics().calls, 1u) << "a refused call was made";
    if (target() != BackendKind::host) return;  // only the host knows its streams
    const StreamRef gone(*stream);
    stream.reset();
    expect_invalid([&] { comm.test(gone); }, "is no stream");
  });
}

// --- calls that block ----------------------------------------------------------------------------

/// By the function of its name.
void call_by_name(Communicator& comm, Collective collective, const Blocks& blocks, StreamRef stream,
                  const CallOptions& options) {
  constexpr auto f32 = DataType::f32;
  const int ranks = comm.size(), next = (comm.rank() + 1) % ranks,
            before = (comm.rank() + ranks - 1) % ranks;
  if (collective == Collective::barrier) comm.barrier(stream, options);
  else if (collective == Collective::send_recv)
    comm.send_recv(blocks.send, count, next, blocks.recv, count, before, f32, stream, options);
  else
    enqueue_by_name(comm, {.collective = collective, .count = count}, blocks.send, blocks.recv,
                    stream, options);
}

/// Makes a call behind work of the stream that takes its time, and expects that all has been done
/// when it returns.
void expect_blocks(Communicator& comm, StreamRef stream, const std::string& name,
                   const std::function<void()>& call) {
  std::atomic<bool> done = false;
  backend_of(comm).host_call(stream.native(), [&] {
    std::this_thread::sleep_for(10ms);
    done = true;
  });
  call();
  EXPECT_TRUE(done) << name << " did not wait";
  EXPECT_TRUE(comm.test(stream)) << name;
  comm.synchronize(stream);
}

TEST_P(Completion, ABlockingCallReturnsWithItsResult) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Stream own = comm.create_stream();
    for (int c = 0; c < collective_count; ++c)
      for (const StreamRef stream : {StreamRef(own), StreamRef()}) {
        const auto collective = static_cast<Collective>(c);
        const CallOptions blocking{.blocking = true};
        const Blocks blocks(comm);
        const std::string name(name_of(collective));
        expect_blocks(comm, stream, name,
                      [&] { call_by_name(comm, collective, blocks, stream, blocking); });
        blocks.expect(collective);
        for (const std::size_t elements : {count, std::size_t{0}})
          expect_blocks(comm, stream, "enqueue of " + name, [&] {
            comm.enqueue({.collective = collective, .type = DataType::f32, .count = elements},
                         blocks.send, blocks.recv, stream, blocking);
          });
        blocks.expect(collective);
      }
    comm.bootstrap().barrier();
  });
}

TEST_P(Completion, ABlockingMessageReturnsWithItsResult) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    const Stream stream = comm.create_stream();
    const CallOptions blocking{.blocking = true};
    Blocks blocks(comm);
    const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()), count);
    std::vector<std::size_t> displacements;
    for (std::size_t r = 0; r < counts.size(); ++r) displacements.push_back(r * count);
    const Communicator::BlocksOf each{counts, displacements};
    expect_blocks(comm, stream, "all_to_all_v", [&] {
      comm.all_to_all_v(blocks.send, each, blocks.recv, each, DataType::f32, stream, blocking);
    });
    blocks.expect(Collective::all_to_all);
    if (comm.size() == 1) return;
    const int last = comm.size() - 1;
    if (rank == 0)
      expect_blocks(comm, stream, "send",
                    [&] { comm.send(blocks.send, count, DataType::f32, last, stream, blocking); });
    if (rank == last)
      expect_blocks(comm, stream, "recv",
                    [&] { comm.recv(blocks.recv, count, DataType::f32, 0, stream, blocking); });
    blocks.expect(rank == last ? count : 0, [](std::size_t i) { return value(0, i); });
    comm.bootstrap().barrier();
  });
}

/// Ranks may differ in it.
TEST_P(Completion, BlockingConcernsOneRankAlone) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    const Blocks blocks(comm);
    for (int i = 0; i < 6; ++i)
      comm.all_reduce(blocks.send, blocks.recv, count, DataType::f32, ReduceOp::sum, {},
                      {.blocking = i % comm.size() == rank});
    comm.synchronize();
    comm.bootstrap().barrier();
  });
}

TEST_P(Completion, ABlockingCallInAGroupIsRefused) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Blocks blocks(comm);
    const CallOptions blocking{.blocking = true};
    for (const Collective last : {Collective::barrier, Collective::send_recv})
      expect_invalid(in_a_group([&] {
                       comm.barrier();
                       call_by_name(comm, last, blocks, {}, blocking);
                     }),
                     "a blocking call in a group");
    EXPECT_EQ(comm.statistics().calls, 0u);
    comm.bootstrap().barrier();
  });
}

// --- device groups -------------------------------------------------------------------------------

class CompletionOfDevices : public testing::Test {
 protected:
  void SetUp() override {
    PLAIT_SKIP_UNLESS_RANKS_FIT(2);
    DeviceGroupOptions options;
    options.backend = target();
    devices_.emplace(std::vector<int>{0, 1}, options);
    for (int rank = 0; rank < 2; ++rank)
      blocks_.push_back(std::make_unique<Blocks>(devices_->device(rank)));
    streams_ = devices_->create_streams();
  }
  void all_reduce(const CallOptions& options = {}) {
    devices_->all_reduce({blocks_[0]->send, blocks_[1]->send}, {blocks_[0]->recv, blocks_[1]->recv},
                         count, DataType::f32, ReduceOp::sum, streams_, options);
  }
  void expect_sums() const {
    for (const auto& blocks : blocks_) blocks->expect(Collective::all_reduce);
  }
  void hold(Gate& gate, int rank) {
    gate.hold(backend_of(devices_->device(rank)),
              streams_[static_cast<std::size_t>(rank)].native());
  }

  std::optional<DeviceGroup> devices_;
  std::vector<std::unique_ptr<Blocks>> blocks_;
  std::vector<Stream> streams_;
};

TEST_F(CompletionOfDevices, TestAsksForAll) {
  Gate gate;
  hold(gate, 1);
  all_reduce();
  EXPECT_FALSE(devices_->test(streams_));
  gate.open();
  EXPECT_TRUE(comes_true([&] { return devices_->test(streams_); }));
  expect_sums();
}

TEST_F(CompletionOfDevices, WaitAnyReturnsAnEmptyOne) {
  Gate gate;
  hold(gate, 0);
  EXPECT_EQ(devices_->wait_any(streams_), 1);
  gate.open();
  devices_->synchronize(streams_);
  EXPECT_EQ(devices_->wait_any(streams_), 0);
}

TEST_F(CompletionOfDevices, ABlockingCallReturnsWithItsResult) {
  all_reduce({.blocking = true});
  EXPECT_TRUE(devices_->test(streams_));
  expect_sums();
  devices_->barrier(streams_, {.blocking = true});
  expect_invalid(in_a_group([&] { all_reduce({.blocking = true}); }), "a blocking call in a group");
}

TEST_F(CompletionOfDevices, ACallOfMessagesBlocksToo) {
  Gate gate;
  hold(gate, 1);
  std::thread opener([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  const std::vector<std::size_t> counts{1, 2}, begins{0, 1};
  devices_->all_gather_v({blocks_[0]->send, blocks_[1]->send}, {blocks_[0]->recv, blocks_[1]->recv},
                         {counts, begins}, DataType::f32, streams_, {.blocking = true});
  EXPECT_TRUE(devices_->test(streams_));
  opener.join();
}

TEST_F(CompletionOfDevices, AnAbortEndsWaits) {
  devices_->abort("enough");
  const auto expect = [](const std::function<void()>& call) {
    expect_throws(ErrorCode::aborted, call, "enough");
  };
  expect([&] { devices_->test(streams_); });
  expect([&] { devices_->wait_any(streams_); });
}

}  // namespace
}  // namespace plait::test
