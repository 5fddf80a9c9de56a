// The memory of work items: the ring that they lie in, the events that give it back, and launches
// that keep theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "algorithms/contract/work_ring.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

TEST(WorkRing, TakesPowersOfTwoOnly) {
  for (const std::size_t good : {4096u, 8192u, 1u << 30})
    EXPECT_TRUE(WorkRing::is_valid(good)) << good;
  for (const std::size_t bad : {0u, 1u, 2048u, 4097u, 6000u, 12288u})
    EXPECT_FALSE(WorkRing::is_valid(bad)) << bad;
}

TEST(WorkRing, IsFullWhenItIs) {
  WorkRing ring(4096);
  const auto first = ring.take(2048), second = ring.take(2048);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->offset, 0u);
  EXPECT_EQ(second->offset, 2048u);
  EXPECT_EQ(ring.bytes_in_use(), 4096u);
  EXPECT_FALSE(ring.take(1));
  ring.give_back(first->produced);
  const auto third = ring.take(100);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->offset, 0u);
  EXPECT_FALSE(ring.take(2048));
}

TEST(WorkRing, TheWholeRingOnceItIsEmptyWhereverItStands) {
  WorkRing ring(4096);
  for (const std::size_t before : {16u, 1000u, 4080u}) {
    ring.give_back(ring.take(before)->produced);
    const auto all = ring.take(4096);
    ASSERT_TRUE(all) << before;
    EXPECT_EQ(all->offset, 0u);
    ring.give_back(all->produced);
  }
}

TEST(WorkRing, RefusesMoreThanTheWholeRing) {
  WorkRing ring(4096);
  const auto first = ring.take(100);
  for (const std::size_t bytes :
       {std::size_t{4097}, std::size_t{1} << 36}) {  // the second: 2^32 units
    expect_error(
        error_of([&] { static_cast<void>(ring.take(bytes)); }), ErrorCode::unsupported,
        testing::AllOf(testing::HasSubstr(std::to_string(bytes)), testing::HasSubstr("4096"),
                       testing::HasSubstr("PLAIT_WORK_FIFO_BYTES")));
  }
  EXPECT_EQ(ring.bytes_in_use(), 112u) << "a refused place is not taken";
  ring.give_back(first->produced);
  EXPECT_TRUE(ring.take(4096));
}

/// Random places, given back in order, with the counters on their way past 2^32: no two places that
/// are in use overlap, contents stay.
TEST(WorkRing, CountersWrap) {
  constexpr std::size_t bytes = 4096;
  WorkRing ring(bytes, ~std::uint32_t{0} - 15);
  std::vector<std::uint8_t> memory(bytes);
  struct Use {
    WorkRing::Place place;
    std::size_t bytes;
    std::uint8_t value;
  };
  std::deque<Use> uses;
  std::mt19937 random(7);
  std::size_t refused = 0, wrapped = 0, last = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::size_t size = 1 + random() % 900;
    const auto place = ring.take(size);
    if (!place) {
      ++refused;
      ASSERT_FALSE(uses.empty()) << "an empty ring refuses " << size;
    } else {
      ASSERT_LE(place->offset + size, bytes);
      ASSERT_EQ(place->offset % WorkRing::unit, 0u);
      if (place->offset < last) ++wrapped;
      last = place->offset;
      const auto value = static_cast<std::uint8_t>(random());
      std::memset(memory.data() + place->offset, value, size);
      uses.push_back({*place, size, value});
    }
    if (!place || random() % 3 == 0) {
      const Use use = uses.front();
      uses.pop_front();
      const auto* begin = memory.data() + use.place.offset;
      ASSERT_TRUE(std::all_of(begin, begin + use.bytes, [&](std::uint8_t byte) {
        return byte == use.value;
      })) << "overwritten";
      ring.give_back(use.place.produced);
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(wrapped, 1000u);
}

/// Has no pinned memory while `empty`.
class Scarce final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void* allocate_pinned(std::size_t bytes) override {
    if (empty) throw Error(ErrorCode::out_of_memory, "no pinned memory is left");
    return ForwardingBackend::allocate_pinned(bytes);
  }
  bool empty = false;
};

/// A captured launch keeps its memory, even if there was none for another one.
TEST(WorkMemory, AFailedAllocationGivesAwayNothing) {
  const auto backend = std::make_shared<Scarce>(open_backend(target(), 0));
  const DeviceScope device(*backend);
  EventQueue events(backend);
  WorkMemory memory(backend, events, 4096, [] {});
  constexpr std::size_t bytes = 40 << 10;  // more than half of what is allocated at once
  const auto place = [&](int value) {
    return memory.place(std::vector(bytes, static_cast<std::byte>(value)), {}, 1, true);
  };
  const std::byte* first = place(1);
  backend->empty = true;
  for (int i = 0; i < 2; ++i)
    expect_error(error_of([&] { place(2); }), ErrorCode::out_of_memory,
                 testing::HasSubstr("pinned"));
  backend->empty = false;
  const std::byte* second = place(3);
  EXPECT_TRUE(std::all_of(first, first + bytes, [](std::byte b) { return b == std::byte{1}; }))
      << "overwritten";
  EXPECT_TRUE(std::all_of(second, second + bytes, [](std::byte b) { return b == std::byte{3}; }));
}

/// Its device is lost as soon as the test says so.
class Losable final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int bind() override {
    if (lost) throw Error(ErrorCode::backend, "the device is lost");
    return ForwardingBackend::bind();
  }
  bool lost = false;
};

/// Places that wait for their launches to end are forgotten with the device, so that nothing is
/// given back to a ring that is gone.
TEST(WorkMemory, LeavesNothingBehindOnALostDevice) {
  const auto backend = std::make_shared<Losable>(open_backend(target(), 0));
  EventQueue events(backend);
  {
    std::optional<WorkMemory> memory;
    const DeviceScope device(*backend);
    const NativeStream stream = backend->create_stream();
    memory.emplace(backend, events, 4096, [] {});
    memory->place(std::vector<std::byte>(1000), {}, 1, false);
    memory->launched(stream);
    EXPECT_EQ(events.size(), 1u);
    backend->synchronize(stream);
    backend->destroy_stream(stream);
    backend->lost = true;
    memory.reset();
  }
  EXPECT_EQ(events.size(), 0u);
  backend->lost = false;
}

TEST(WorkMemory, RefusesMoreThanTheRing) {
  const std::shared_ptr<Backend> backend = open_backend(target(), 0);
  const DeviceScope device(*backend);
  EventQueue events(backend);
  WorkMemory memory(backend, events, 4096, [] {});
  const std::vector<std::byte> items(4112);
  expect_error(error_of([&] { memory.place(items, {}, 1, false); }), ErrorCode::unsupported,
               testing::HasSubstr("4112"));
  EXPECT_EQ(memory.statistics().in_fifo.launches, 0u);
}

class Events : public testing::Test {
 protected:
  Events() : backend(open_backend(target(), 0)), stream(backend->create_stream()) {}
  ~Events() override { backend->destroy_stream(stream); }
  /// The stream stops here until `open` is true.
  void block(NativeStream where) {
    backend->host_call(where, [this] {
      while (!open) std::this_thread::yield();
    });
  }

  std::shared_ptr<Backend> backend;
  NativeStream stream;
  std::atomic<bool> open = false;
  std::vector<int> ran;
};

TEST_F(Events, FunctionsRunOnceInOrderAndNotBeforeTheirEvents) {
  EventQueue queue(backend);
  block(stream);
  for (int i = 0; i < 5; ++i) queue.push(stream, [this, i] { ran.push_back(i); });
  EXPECT_EQ(queue.poll(), 0u);
  EXPECT_EQ(queue.size(), 5u);
  open = true;
  backend->synchronize(stream);
  EXPECT_EQ(queue.poll(), 5u);
  EXPECT_EQ(queue.poll(), 0u);
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(Events, AnEarlierOneHoldsBackALaterOne) {
  EventQueue queue(backend);
  const NativeStream other = backend->create_stream();
  block(stream);
  queue.push(stream, [this] { ran.push_back(0); });
  queue.push(other, [this] { ran.push_back(1); });
  backend->synchronize(other);
  EXPECT_EQ(queue.poll(), 0u);
  open = true;
  queue.drain();
  EXPECT_THAT(ran, testing::ElementsAre(0, 1));
  backend->destroy_stream(other);
}

TEST_F(Events, AFunctionMayPush) {
  EventQueue queue(backend);
  open = true;
  queue.push(stream, [&] {
    ran.push_back(0);
    queue.push(stream, [this] { ran.push_back(1); });
  });
  queue.drain();
  EXPECT_THAT(ran, testing::ElementsAre(0, 1));
}

TEST_F(Events, DestructionWaitsAndRunsAll) {
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    open = true;
  });
  {
    EventQueue queue(backend);
    block(stream);
    for (int i = 0; i < 3; ++i) queue.push(stream, [this, i] { ran.push_back(i); });
    EXPECT_TRUE(ran.empty());
  }
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2));
  later.join();
}

}  // namespace
}  // namespace plait::test
