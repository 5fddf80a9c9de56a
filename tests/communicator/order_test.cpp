// The order of calls and other work on a stream, of calls on several streams, and of graphs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/order/pipeline.hpp"
#include "communicator/order/rounds.hpp"
#include "support/data.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// `work` on a thread of its own that ends before this does, with the communicator's device.
void elsewhere(Communicator& comm, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      const DeviceScope device(backend_of(comm));
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

PLAIT_FOR_RANKS(Order, testing::Values(1, 2, 3, 4));

TEST_P(Order, CallsReturnBeforeTheDeviceHasDoneThem) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    OrderKernel gate(backend_of(comm).again(), rank);
    Message small(comm, 100), big(comm, large());
    const Stream stream = comm.create_stream();
    const auto called = backend_of(comm).create_event(false);
    comm.bootstrap().barrier();
    for (const bool first : {true, false}) {  // the first calls of their kind, and later ones
      if (first) gate.hold(stream);
      small->produce(stream);
      big->produce(stream);
      std::vector<double> milliseconds;
      for (int i = 0; i < 20; ++i) {
        const auto start = Clock::now();
        (i % 2 == 0 ? small : big)->reduce(comm, stream);
        milliseconds.push_back(
            std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      }
      called->record(stream.native());
      small->consume(stream);
      big->consume(stream);
      // Most of 20 calls, because the machine may have other things to do.
      std::nth_element(milliseconds.begin(), milliseconds.begin() + 15, milliseconds.end());
      EXPECT_LT(milliseconds[15], under_tsan ? 50 : 1);
      if (!first) break;
      std::this_thread::sleep_for(20ms);
      EXPECT_FALSE(called->done()) << "an event after calls on a stream that can't move on";
      EXPECT_FALSE(comm.async_error().has_value());
      gate.open();
    }
    called->synchronize();
    EXPECT_TRUE(called->done());
    expect_right(comm, *small, stream, 2);
    expect_right(comm, *big, stream, 2);
    comm.bootstrap().barrier();
  });
}

/// A call on a second stream doesn't wait for what the caller has put into a third: only the caller
/// can let that one go.
TEST_P(Order, CallsOnAnotherStreamReturnToo) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    OrderKernel gate(backend_of(comm).again(), rank);
    Message message(comm, 100);
    const Stream a = comm.create_stream(), b = comm.create_stream(), held = comm.create_stream();
    comm.bootstrap().barrier();
    gate.hold(held);
    message->round(comm, a);
    expect_right(comm, *message, a, 1);
    message->round(comm, b);
    expect_right(comm, *message, b, 2);
    gate.open();
    comm.synchronize(held);
    comm.bootstrap().barrier();
  });
}

TEST_P(Order, ProducersAndConsumersNeedNoHost) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message small(comm, 333), big(comm, large());
    const Stream stream = comm.create_stream();
    comm.bootstrap().barrier();
    for (int i = 0; i < many; ++i) {
      small->round(comm, stream);
      if (i % 20 == 0) big->round(comm, stream);
    }
    expect_right(comm, *small, stream, many);
    expect_right(comm, *big, stream, many / 20);
    comm.bootstrap().barrier();
  });
}

TEST_P(Order, CopiesNeedNoHost) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message message(comm, 3333), outside(comm, 3333);
    const Stream stream = comm.create_stream();
    comm.bootstrap().barrier();
    for (int i = 0; i < many; ++i) {
      message->produce(stream, outside->send());
      comm.copy(message->send(), outside->send(), message->bytes(), stream);
      message->reduce(comm, stream);
      comm.copy(outside->recv(), message->recv(), message->bytes(), stream);
      message->consume(stream, 1, outside->recv());
    }
    expect_right(comm, *message, stream, many);
    comm.bootstrap().barrier();
  });
}

/// The caller orders nothing: every call works on what the one before has left, on another stream.
TEST_P(Order, CallsOnSeveralStreamsRunOneAfterAnother) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message message(comm, 5000);
    const std::vector<Stream> streams = [&] {
      std::vector<Stream> made;
      for (int i = 0; i < 4; ++i) made.push_back(comm.create_stream());
      return made;
    }();
    comm.bootstrap().barrier();
    std::size_t last = 0;
    constexpr int chains = many / 20,
                  calls = 8;  // few enough that powers of the ranks leave something of 32 bits
    for (int chain = 0; chain < chains; ++chain) {
      message->produce(streams[last]);
      message->reduce(comm, streams[last]);
      std::uint32_t factor = 1;
      for (int call = 0; call < calls; ++call) {
        last = hash(1, static_cast<unsigned>(chain), static_cast<unsigned>(call)) % streams.size();
        comm.all_reduce(message->recv(), message->recv(), 5000, DataType::u32, ReduceOp::sum,
                        streams[last]);
        factor *= static_cast<std::uint32_t>(comm.size());
      }
      message->consume(streams[last], factor);
    }
    expect_right(comm, *message, streams[last], chains);
    comm.bootstrap().barrier();
  });
}

TEST_P(Order, EventsJoinStreams) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message message(comm, 5000);
    const Stream before = comm.create_stream(), calls = comm.create_stream(),
                 after = comm.create_stream();
    const auto made = backend_of(comm).create_event(false),
               reduced = backend_of(comm).create_event(false),
               looked_at = backend_of(comm).create_event(false);
    comm.bootstrap().barrier();
    const auto join = [](DeviceEvent& event, const Stream& from, const Stream& to) {
      event.record(from.native());
      event.wait_in(to.native());
    };
    for (int i = 0; i < many / 2; ++i) {
      message->produce(before);
      join(*made, before, calls);
      message->reduce(comm, calls);
      join(*reduced, calls, after);
      message->consume(after);
      join(*looked_at, after, before);
    }
    expect_right(comm, *message, after, many / 2);
    comm.bootstrap().barrier();
  });
}

/// While one stream is captured, another thread of the same rank works with the same communicator.
TEST_P(Order, CapturesBesideOtherWork) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message inside(comm, 777), plain(comm, 2000);
    const Stream stream = comm.create_stream(), other = comm.create_stream();
    comm.bootstrap().barrier();
    std::unique_ptr<Message> late;
    std::optional<Communicator> twin;
    const auto graph = captured(comm, stream, [&] {
      inside->round(comm, stream);
      elsewhere(comm, [&] {
        plain->round(comm, other);
        const Stream more = comm.create_stream();
        late = std::make_unique<Message>(comm, 1000);
        (*late)->round(comm, more);
        expect_right(comm, **late, more, 1);
        twin = comm.duplicate();
        twin->barrier(more);
        comm.synchronize(more);
      });
      inside->round(comm, stream);
      plain->round(comm, other);  // by the thread that captures
      inside->round(comm, stream);
    });
    expect_right(comm, *plain, other, 2);
    for (int i = 0; i < 10; ++i) {
      launch(comm, *graph, stream);
      (*late)->round(comm, stream);
      (*late)->round(*twin, stream);
    }
    expect_right(comm, *inside, stream, 30);
    expect_right(comm, **late, stream, 21);
    comm.bootstrap().barrier();
  });
}

/// Calls on two streams of one capture are ordered in the graph as outside of one: at once, they
/// would use the same scratch memory.
TEST_P(Order, CallsOfOneCaptureRunOneAfterAnother) {
  if (target() == BackendKind::host)
    GTEST_SKIP() << "a capture of the host target is of one stream";
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Backend& backend = backend_of(comm);
    Message here(comm, 512), there(comm, 512);
    const Stream stream = comm.create_stream(), other = comm.create_stream();
    const auto forked = backend.create_event(false), joined = backend.create_event(false);
    const auto graph = captured(comm, stream, [&] {
      forked->record(stream.native());
      forked->wait_in(other.native());
      for (int i = 0; i < 10; ++i) {
        here->round(comm, stream);
        there->round(comm, other);
      }
      joined->record(other.native());
      joined->wait_in(stream.native());
    });
    for (int i = 0; i < many; ++i) launch(comm, *graph, stream);
    expect_right(comm, *here, stream, 10 * many);
    expect_right(comm, *there, stream, 10 * many);
    comm.bootstrap().barrier();
  });
}

/// Captured once, replayed with other data each time, between plain calls and another graph of all
/// algorithms, small and large.
TEST_P(Order, GraphsAndPlainCallsTakeTurns) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Message small(comm, 512), plain(comm, 64), big(comm, large());
    const Stream stream = comm.create_stream();
    comm.bootstrap().barrier();
    const auto one = captured(comm, stream, [&] { small->round(comm, stream); });
    const auto two = captured(comm, stream, [&] {
      small->round(comm, stream);
      big->round(comm, stream);
    });
    std::vector<std::string> algorithms = all_reduce_algorithms();
    std::erase_if(algorithms, [&](const std::string& name) {  // some refuse integers
      return !is_served(comm, {.algorithm = name, .type = DataType::u32, .symmetric = true});
    });
    const auto all = captured(comm, stream, [&] {
      for (const std::string& algorithm : algorithms)
        for (Message* message : {&small, &big})
          (*message)->round(comm, stream, {.algorithm = algorithm});
    });
    int small_rounds = 0, plain_rounds = 0, big_rounds = 0;
    const auto several = static_cast<int>(algorithms.size());
    for (int i = 0; i < many; ++i) {
      launch(comm, *one, stream);
      ++small_rounds;
      if (i % 3 == 0) {
        plain->round(comm, stream);
        ++plain_rounds;
      }
      if (i % 20 == 0) {
        launch(comm, *two, stream);
        ++small_rounds;
        ++big_rounds;
      }
      if (i % 50 == 0) {
        launch(comm, *all, stream);
        small_rounds += several;
        big_rounds += several;
      }
    }
    expect_right(comm, *small, stream, small_rounds);
    expect_right(comm, *plain, stream, plain_rounds);
    expect_right(comm, *big, stream, big_rounds);
    comm.bootstrap().barrier();
  });
}

/// The calls under way still end, on all ranks, and rightly.
TEST_P(Order, CommunicatorsMayBeDestroyedWithWorkInFlight) {
  constexpr std::size_t count = 20'000;
  for (const char* algorithm : {"", "ring", "oneshot_ll", "twoshot_ll"})
    with_bootstraps(GetParam(), [&](std::unique_ptr<Bootstrap> bootstrap, int rank) {
      std::shared_ptr<Backend> backend;
      std::unique_ptr<WordBuffer> send, recv;  // outlive the communicator
      std::unique_ptr<Pipeline> pipeline;
      std::optional<Stream> stream;
      {
        Communicator comm = Communicator::create(std::move(bootstrap), test_options());
        backend = backend_of(comm).again();
        send = std::make_unique<WordBuffer>(backend, WordBuffer::Kind::device, count);
        recv = std::make_unique<WordBuffer>(backend, WordBuffer::Kind::device, count);
        pipeline = std::make_unique<Pipeline>(backend, rank, GetParam(), send->data(), recv->data(),
                                              count);
        stream = comm.create_stream();
        comm.bootstrap().barrier();
        if (rank == 0) std::this_thread::sleep_for(20ms);  // so that the others' calls wait
        for (int i = 0; i < 20; ++i) pipeline->round(comm, *stream, {.algorithm = algorithm});
      }
      expect_outcome(*pipeline, *stream, 20);
    });
}

}  // namespace
}  // namespace plait::test
