// The end of calls: test, wait_any and calls that block, and the errors that end them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/streams.hpp"
#include "plait/collective_table.h"
#include "plait/error.hpp"
#include "plait/group.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::size_t count = 100;  // elements of a block
constexpr float untouched = -1;

/// Element `i` of block `block` that `rank` sends.
float value(int rank, int block, std::size_t i) {
  return static_cast<float>(1000 * rank + 100 * block) + static_cast<float>(i % 10);
}
float sum(int ranks, int block, std::size_t i) {
  float all = 0;
  for (int rank = 0; rank < ranks; ++rank) all += value(rank, block, i);
  return all;
}

/// A block per rank to send and to receive, which the host and the device can use.
class Blocks {
 public:
  explicit Blocks(Communicator& comm)
      : backend_(backend_of(comm)), rank_(comm.rank()), ranks_(comm.size()) {
    const auto elements = count * static_cast<std::size_t>(ranks_);
    send = static_cast<float*>(backend_.allocate_pinned(elements * sizeof(float)));
    recv = static_cast<float*>(backend_.allocate_pinned(elements * sizeof(float)));
    for (std::size_t i = 0; i < elements; ++i) send[i] = value(rank_, block_of(i), i % count);
    clear();
  }
  ~Blocks() {
    backend_.deallocate_pinned(send);
    backend_.deallocate_pinned(recv);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void clear() {
    for (std::size_t i = 0; i < count * static_cast<std::size_t>(ranks_); ++i) recv[i] = untouched;
  }
  /// Compares all that was received with `expected(block, i)`.
  template <class Expected>
  void expect(const Expected& expected) const {
    for (std::size_t i = 0; i < count * static_cast<std::size_t>(ranks_); ++i)
      ASSERT_EQ(recv[i], expected(block_of(i), i % count)) << "rank " << rank_ << ", element " << i;
  }

  float *send = nullptr, *recv = nullptr;

 private:
  static int block_of(std::size_t element) { return static_cast<int>(element / count); }

  Backend& backend_;
  int rank_, ranks_;
};

/// Polls until the stream is empty.
void poll(Communicator& comm, StreamRef stream) {
  const auto late = Clock::now() + patience;
  while (!comm.test(stream)) {
    if (Clock::now() > late) FAIL() << "the stream is never empty";
    std::this_thread::sleep_for(100us);
  }
}

class Completion : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Completion, testing::Values(1, 2, 3),
                         testing::PrintToStringParamName());

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
      blocks.expect([&](int block, std::size_t i) {
        return block == 0 ? sum(comm.size(), 0, i) : untouched;
      });
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
    blocks.expect(
        [&](int block, std::size_t i) { return block == 0 ? sum(comm.size(), 0, i) : untouched; });
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
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { comm.wait_any({}); }),
                HasSubstr("wait_any: rank 0: no streams"));
    Backend& backend = backend_of(comm);
    const auto refused = [&](const char* why) {
      EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { comm.test(*stream); }),
                  HasSubstr(why));
      EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { comm.wait_any({*stream}); }),
                  HasSubstr(why));
    };
    backend.begin_capture(stream->native());
    refused("is being captured");
    EXPECT_THAT(
        message_of(ErrorCode::invalid_argument, [&] { comm.barrier(*stream, {.blocking = true}); }),
        HasSubstr("barrier: rank 0: a blocking call on a stream that is being captured"));
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
    EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { comm.test(gone); }),
                HasSubstr("is no stream"));
  });
}

// --- calls that block ----------------------------------------------------------------------------

constexpr int root = 0;

using Make = std::function<void(Communicator&, const Blocks&, StreamRef, const CallOptions&)>;
struct Made {
  Collective collective;
  Make make;
};

void make_send_recv(Communicator& comm, const Blocks& blocks, StreamRef stream,
                    const CallOptions& options) {
  comm.send_recv(blocks.send, count, (comm.rank() + 1) % comm.size(), blocks.recv, count,
                 (comm.rank() + comm.size() - 1) % comm.size(), DataType::f32, stream, options);
}
void make_barrier(Communicator& comm, const Blocks&, StreamRef stream, const CallOptions& options) {
  comm.barrier(stream, options);
}

/// All that the table of collectives has.
std::vector<Made> all_calls() {
#define PLAIT_ROW(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                       \
  {Collective::NAME,                                                                            \
   [](Communicator& comm, const Blocks& blocks, StreamRef stream, const CallOptions& options) { \
     comm.NAME(blocks.send, blocks.recv, count, DataType::f32,                                  \
               PLAIT_IF_##OP(ReduceOp::sum, ) PLAIT_IF_##ROOT(root, ) stream, options);         \
   }},
#define PLAIT_OTHER(NAME, ENUMERATOR, SEND, RECV) {Collective::NAME, make_##NAME},
  return {PLAIT_COLLECTIVES(PLAIT_ROW, PLAIT_OTHER)};
#undef PLAIT_ROW
#undef PLAIT_OTHER
}

float expected(Collective collective, const Communicator& comm, int block, std::size_t i) {
  const int rank = comm.rank(), ranks = comm.size();
  const auto in_first = [&](float result) { return block == 0 ? result : untouched; };
  const auto on_root = [&](float result) { return rank == root ? result : untouched; };
  switch (collective) {
    case Collective::all_reduce:
      return in_first(sum(ranks, 0, i));
    case Collective::reduce_scatter:
      return in_first(sum(ranks, rank, i));
    case Collective::all_gather:
      return value(block, 0, i);
    case Collective::broadcast:
      return in_first(value(root, 0, i));
    case Collective::reduce:
      return on_root(in_first(sum(ranks, 0, i)));
    case Collective::all_to_all:
      return value(block, rank, i);
    case Collective::gather:
      return on_root(value(block, 0, i));
    case Collective::scatter:
      return in_first(value(root, rank, i));
    case Collective::send_recv:
      return in_first(value((rank + ranks - 1) % ranks, 0, i));
    case Collective::barrier:
      return untouched;
    case Collective::scan:
      return in_first(sum(rank + 1, 0, i));
    case Collective::exscan:
      return rank == 0 ? untouched : in_first(sum(rank, 0, i));
  }
  ADD_FAILURE() << "no result is known for " << name_of(collective);
  return 0;
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
    for (const auto& [collective, make] : all_calls())
      for (const StreamRef stream : {StreamRef(own), StreamRef()}) {
        Blocks blocks(comm);
        const std::string name(name_of(collective));
        expect_blocks(comm, stream, name,
                      [&, &make = make] { make(comm, blocks, stream, {.blocking = true}); });
        blocks.expect([&, collective = collective](int block, std::size_t i) {
          return expected(collective, comm, block, i);
        });
        blocks.clear();
        expect_blocks(comm, stream, "enqueue of " + name, [&, collective = collective] {
          comm.enqueue({.collective = collective, .type = DataType::f32, .count = count},
                       blocks.send, blocks.recv, stream, {.blocking = true});
        });
        blocks.expect([&, collective = collective](int block, std::size_t i) {
          return expected(collective, comm, block, i);
        });
        expect_blocks(comm, stream, name + " of no elements", [&, collective = collective] {
          comm.enqueue({.collective = collective}, blocks.send, blocks.recv, stream,
                       {.blocking = true});
        });
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
    blocks.expect([&](int block, std::size_t i) { return value(block, rank, i); });
    if (comm.size() == 1) return;
    blocks.clear();
    const int last = comm.size() - 1;
    if (rank == 0)
      expect_blocks(comm, stream, "send",
                    [&] { comm.send(blocks.send, count, DataType::f32, last, stream, blocking); });
    if (rank == last)
      expect_blocks(comm, stream, "recv",
                    [&] { comm.recv(blocks.recv, count, DataType::f32, 0, stream, blocking); });
    blocks.expect([&](int block, std::size_t i) {
      return rank == last && block == 0 ? value(0, 0, i) : untouched;
    });
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
    for (const bool message : {false, true}) {
      const std::string text = message_of(ErrorCode::invalid_argument, [&] {
        Group group;
        comm.barrier();
        if (message) make_send_recv(comm, blocks, {}, blocking);
        else comm.barrier({}, blocking);
        group.end();
      });
      EXPECT_THAT(text, HasSubstr("a blocking call in a group"));
    }
    EXPECT_EQ(comm.statistics().calls, 0u);
    comm.bootstrap().barrier();
  });
}

// --- errors --------------------------------------------------------------------------------------

/// A way to wait for a barrier that the last rank never makes.
struct Waiter {
  const char* name;
  std::function<void(Communicator&)> wait;
  friend void PrintTo(const Waiter& waiter, std::ostream* to) { *to << waiter.name; }
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
    run_ranks(
        ranks(),
        [&](Communicator& comm, int rank) {
          comm.bootstrap().barrier();
          if (rank == comm.size() - 1) return last(comm);
          const auto& wait = std::get<1>(GetParam()).wait;
          expect_error(error_of([&] { wait(comm); }), code, HasSubstr(text));
          expect_error(error_of([&] { comm.test(); }), code, HasSubstr(text));
          expect_error(error_of([&] { comm.wait_any({StreamRef()}); }), code, HasSubstr(text));
        },
        options);
  }
};
INSTANTIATE_TEST_SUITE_P(By, Broken,
                         testing::Combine(testing::Values(2, 3), testing::ValuesIn(waiters)),
                         [](const auto& test) {
                           return fmt::format("{}_n{}", std::get<1>(test.param).name,
                                              std::get<0>(test.param));
                         });

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
    expect_error(error_of([&] { comm.wait_any({held}); }), ErrorCode::aborted, HasSubstr("enough"));
    EXPECT_TRUE(backend_of(comm).is_done(held.native()));
    later.join();
    expect_error(error_of([&] { comm.test(held); }), ErrorCode::aborted, HasSubstr("enough"));
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
    for (const auto& blocks : blocks_)
      blocks->expect(
          [](int block, std::size_t i) { return block == 0 ? sum(2, 0, i) : untouched; });
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
  const auto late = Clock::now() + patience;
  while (!devices_->test(streams_) && Clock::now() < late) std::this_thread::sleep_for(100us);
  EXPECT_TRUE(devices_->test(streams_));
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
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           Group group;
                           all_reduce({.blocking = true});
                           group.end();
                         }),
              HasSubstr("a blocking call in a group"));
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
    expect_error(error_of(call), ErrorCode::aborted, HasSubstr("enough"));
  };
  expect([&] { devices_->test(streams_); });
  expect([&] { devices_->wait_any(streams_); });
}

}  // namespace
}  // namespace plait::test
