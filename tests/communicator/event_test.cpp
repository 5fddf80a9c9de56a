// Events: the order of streams by them, and their handles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "communicator/streams.hpp"
#include "plait/error.hpp"
#include "plait/group.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

PLAIT_FOR_RANKS(Events, testing::Values(1, 2, 3));

/// By Plait's event, by its copy, by its handle and, on GPUs, by an event that is the runtime's.
TEST_P(Events, OrderStreams) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Backend& backend = backend_of(comm);
    const DeviceScope device(backend);
    const Stream first = comm.create_stream(), second = comm.create_stream();
    Event event = comm.create_event();
    const Event copy = event;
    Event wrapped = comm.wrap_event(event.native());
    EXPECT_EQ(wrapped.native(), event.native());
    std::vector<std::pair<Event, Event>> ways{{event, event}, {event, copy}, {wrapped, event}};
    const auto foreign = backend.create_event(false);
    if (target() != BackendKind::host) {
      const Event borrowed = comm.wrap_event(foreign->native());
      EXPECT_EQ(borrowed.native(), foreign->native());
      ways.emplace_back(borrowed, comm.wrap_event(foreign->native()));
    }
    for (const auto& [recorded, waited] : ways) {
      Gate gate;
      std::atomic<bool> before = false, after = false, right = false;
      gate.hold(backend, first.native());
      comm.barrier(first);
      backend.host_call(first.native(), [&] { before = true; });
      recorded.record(first);
      waited.wait(second);
      backend.host_call(second.native(), [&] {
        right = before.load();
        after = true;
      });
      EXPECT_FALSE(waited.test());
      EXPECT_FALSE(after);
      gate.open();
      waited.synchronize();
      EXPECT_TRUE(before);
      EXPECT_TRUE(waited.test());
      comm.synchronize(second);
      EXPECT_TRUE(after);
      EXPECT_TRUE(right);
    }
    comm.synchronize(first);
    comm.bootstrap().barrier();
  });
}

/// A host stream wakes no thread for a call if it expects the caller to wait.
TEST_P(Events, PollingNeedsNoOtherWait) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Event event = comm.create_event();
    EXPECT_TRUE(event.test()) << "without a point";
    event.synchronize();
    event.wait();
    for (int i = 0; i < 20; ++i) comm.barrier({}, {.blocking = true});
    comm.barrier();
    event.record();
    EXPECT_TRUE(comes_true([&] { return event.test(); }));
    comm.synchronize();
    comm.bootstrap().barrier();
  });
}

TEST_P(Events, AnEventOfABrokenCommunicatorIsReached) {
  run_ranks(GetParam(), patient(), [](Communicator& comm, int rank) {
    const Event event = comm.create_event();
    if (rank != comm.size() - 1) comm.barrier();
    event.record();
    comm.bootstrap().barrier();
    if (rank == comm.size() - 1) comm.abort("enough");
    event.synchronize();
    expect_error(heard(comm), ErrorCode::aborted, HasSubstr("enough"));
  });
}

TEST(EventsOfOne, OutliveTheCommunicator) {
  std::optional<Event> event;
  std::optional<Stream> stream;
  run_ranks(1, [&](Communicator& comm, int) {
    event = comm.create_event();
    stream = comm.create_stream();
  });
  event->record(*stream);
  event->wait(*stream);
  EXPECT_TRUE(comes_true([&] { return event->test(); }));
}

TEST(EventsOfOne, MistakesAreRefused) {
  run_ranks(1, [](Communicator& comm, int) {
    const auto refused = [](const std::function<void()>& call, const char* why) {
      expect_invalid(call, why);
    };
    refused([&] { comm.wrap_event(nullptr); }, "wrap_event: the event is null");
    Event event = comm.create_event();
    {
      const Group group;
      refused([&] { event.record(); }, "Event::record: a group is open");
      refused([&] { event.wait(); }, "Event::wait: a group is open");
      EXPECT_TRUE(event.test());
    }
    const Event moved = std::move(event);
    // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is tested
    refused([&] { event.record(); }, "Event::record: this event was moved from");
    refused([&] { event.wait(); }, "Event::wait: this event was moved from");
    refused([&] { event.test(); }, "Event::test: this event was moved from");
    refused([&] { event.synchronize(); }, "Event::synchronize: this event was moved from");
    refused([&] { event.native(); }, "Event::native: this event was moved from");
    // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    if (target() != BackendKind::host) return;  // only the host knows its handles
    int number = 0;
    refused([&] { comm.wrap_event(&number); }, "is no event, or has been destroyed");
    void* const gone = comm.create_event().native();
    refused([&] { comm.wrap_event(gone); }, "is no event, or has been destroyed");
    std::optional<Stream> stream = comm.create_stream();
    const StreamRef destroyed(*stream);
    stream.reset();
    refused([&] { moved.record(destroyed); }, "is no stream");
    refused([&] { moved.wait(destroyed); }, "is no stream");
  });
}

}  // namespace
}  // namespace plait::test
