// Units behind groups: the ring of work items, the queue of events, the plan of a batch, and which
// calls overlap.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "algorithms/blocks/flags/batch_plan.hpp"
#include "algorithms/contract/collectives.hpp"
#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "algorithms/contract/work_ring.hpp"
#include "communicator/groups/group_check.hpp"
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

/// The promises of a plan, whatever the sizes.
void expect_sound(const BatchPlan& plan, const std::vector<std::size_t>& sizes, unsigned blocks) {
  ASSERT_EQ(plan.places.size(), sizes.size());
  ASSERT_GE(plan.blocks, 1u);
  ASSERT_LE(plan.blocks, blocks);
  std::vector<int> seen(sizes.size());
  std::vector<int> messages(plan.blocks);
  unsigned last = 0;
  for (const BatchPlan::Place& place : plan.places) {
    ++seen[place.message];
    ASSERT_GE(place.first_block, last) << "not in order";
    last = place.first_block;
    ASSERT_LE(place.first_block + place.blocks, plan.blocks);
    for (unsigned block = place.first_block; block < place.first_block + place.blocks; ++block) {
      ++messages[block];
      if (place.blocks > 1) {
        ASSERT_EQ(messages[block], 1) << "a long message shares block " << block;
      }
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_THAT(messages, testing::Each(testing::Ge(1))) << "a block without work";
}

std::size_t fullest(const BatchPlan& plan, const std::vector<std::size_t>& sizes,
                    std::size_t overhead) {
  std::vector<std::size_t> load(plan.blocks);
  for (const BatchPlan::Place& place : plan.places)
    for (unsigned block = place.first_block; block < place.first_block + place.blocks; ++block)
      load[block] += (sizes[place.message] + place.blocks - 1) / place.blocks + overhead;
  return *std::max_element(load.begin(), load.end());
}

TEST(BatchPlan, EqualMessages) {
  const std::vector<std::size_t> sizes(64, 2048);
  const BatchPlan plan = plan_batch(sizes, 128, 256);
  expect_sound(plan, sizes, 128);
  EXPECT_EQ(plan.blocks, 128u);
  for (const auto& place : plan.places) EXPECT_EQ(place.blocks, 2u);
}

TEST(BatchPlan, ManyShortOnesShareBlocks) {
  const std::vector<std::size_t> sizes(1000, 3);
  const BatchPlan plan = plan_batch(sizes, 128, 10);
  expect_sound(plan, sizes, 128);
  EXPECT_LE(fullest(plan, sizes, 10), 8u * 13);
}

TEST(BatchPlan, OneLongAndManyShort) {
  std::vector<std::size_t> sizes(50, 10);
  sizes[17] = 100000;
  const BatchPlan plan = plan_batch(sizes, 64, 20);
  expect_sound(plan, sizes, 64);
  EXPECT_EQ(plan.places.front().message, 17u);
  EXPECT_GT(plan.places.front().blocks, 55u);
}

TEST(BatchPlan, RandomSizesAreSpreadWell) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> sizes(1 + random() % 300);
    for (std::size_t& size : sizes)
      size = 1 + random() % (round % 3 == 0 ? 20 : round % 3 == 1 ? 5000 : 300);
    const unsigned blocks = 1 + random() % 128;
    const std::size_t overhead = random() % 300;
    const BatchPlan plan = plan_batch(sizes, blocks, overhead);
    expect_sound(plan, sizes, blocks);
    // No plan has less than the mean in its fullest block. This one is not far from it: a message
    // more, or twice the overhead.
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), overhead * sizes.size());
    const std::size_t longest = *std::max_element(sizes.begin(), sizes.end()) + overhead;
    EXPECT_LE(fullest(plan, sizes, overhead),
              2 * (all / blocks) + std::min(longest, all) + 2 * overhead + 2);
  }
}

TEST(BatchPlan, OneBlockTakesAll) {
  const std::vector<std::size_t> sizes{5, 1, 100, 7};
  const BatchPlan plan = plan_batch(sizes, 1, 4);
  expect_sound(plan, sizes, 1);
}

/// Calls of members of two communicators, in memory that is never touched: addresses from 1 to 40,
/// few enough that many overlap.
class RandomGroup {
 public:
  explicit RandomGroup(std::mt19937& random) : random_(random) {
    const auto members = static_cast<int>(1 + below(3));
    const std::size_t most = members == 1 ? 5 : 3;
    for (int rank = 0; rank < members; ++rank) {
      std::vector<GroupedCall> calls;
      for (std::size_t i = below(most + 1); i > 0; --i)
        calls.push_back({call(rank), nullptr, ++calls_});
      made_.push_back(std::move(calls));
    }
    for (int rank = 0; rank < members; ++rank)
      members_.push_back({made_[static_cast<std::size_t>(rank)], rank, &communicators_[below(2)]});
  }

  const std::vector<MemberCalls>& members() const { return members_; }

  /// Whether the parts of two members have no order and use the same memory, which one of them
  /// writes: the definition.
  static bool conflict(const MemberCalls& a, std::size_t i, const MemberCalls& b, std::size_t j) {
    if (a.communicator == b.communicator && barriers(a, i) != barriers(b, j)) return false;
    for (const Use& x : uses(a.calls[i].call))
      for (const Use& y : uses(b.calls[j].call))
        if ((x.writes || y.writes) && x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes)
          return true;
    return false;
  }

 private:
  struct Use {
    std::uintptr_t begin;
    std::size_t bytes;
    bool writes;
  };
  static std::vector<Use> uses(const PreparedCall& call) {
    std::vector<Use> uses;
    if (const auto at = reinterpret_cast<std::uintptr_t>(call.buffers.send); at != 0)
      uses.push_back({at, send_bytes(call.call), false});
    if (const auto at = reinterpret_cast<std::uintptr_t>(call.buffers.recv); at != 0)
      uses.push_back({at, recv_bytes(call.call), true});
    return uses;
  }
  static std::ptrdiff_t barriers(const MemberCalls& member, std::size_t before) {
    const auto calls = member.calls.first(before);
    return std::count_if(calls.begin(), calls.end(), [](const auto& c) {
      return c.call.call.collective == Collective::barrier;
    });
  }

  std::size_t below(std::size_t end) { return random_() % end; }
  /// In or out of place, of rank 0 to 2 of 3, or a barrier.
  PreparedCall call(int rank) {
    PreparedCall prepared;
    Call& c = prepared.call;
    c.collective = static_cast<Collective>(below(collective_count));
    c.type = DataType::u8;
    if (c.collective == Collective::barrier) return prepared;
    c.count = 1 + below(5);
    c.parts = parts_of(c.collective, 3);
    const CollectiveFacts facts = facts_of(c.collective);
    auto* const send = reinterpret_cast<std::byte*>(
        std::uintptr_t{11} + below(20));  // NOLINT(performance-no-int-to-ptr)
    auto* const recv = reinterpret_cast<std::byte*>(
        std::uintptr_t{11} + below(20));  // NOLINT(performance-no-int-to-ptr)
    const bool in_place = has_in_place(c.collective) && below(2) == 0;
    const bool message = c.collective == Collective::send_recv, sends = message && below(2) == 0;
    if (has(facts.send, c, rank) && (!message || sends)) prepared.buffers.send = send;
    if (has(facts.recv, c, rank) && (!message || !sends))
      prepared.buffers.recv = in_place ? send + in_place_distance(c, rank) : recv;
    return prepared;
  }

  std::mt19937& random_;
  std::size_t calls_ = 0;
  std::vector<std::vector<GroupedCall>> made_;
  std::vector<MemberCalls> members_;
  static constexpr char communicators_[2]{};
};

/// Every pair of calls, where `check_disjoint` sorts.
TEST(CheckDisjoint, FindsWhatEveryPairSays) {
  std::mt19937 random(7);
  int refused = 0, taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const RandomGroup group(random);
    std::vector<std::string> conflicts;  // in the words of the error
    for (const MemberCalls& a : group.members())
      for (const MemberCalls& b : group.members())
        for (std::size_t i = 0; i < a.calls.size(); ++i)
          for (std::size_t j = 0; j < b.calls.size(); ++j) {
            const auto first = a.calls[i].number, second = b.calls[j].number;
            if (first >= second || !RandomGroup::conflict(a, i, b, j)) continue;
            if (&a == &b)
              conflicts.push_back(
                  fmt::format("group: rank {}: calls {} and {} use", a.rank, first, second));
            else
              conflicts.push_back(
                  fmt::format("group: call {}, {} on rank {}, and call {}, {} on rank {}{}, use",
                              first, name_of(a.calls[i].call.call.collective), a.rank, second,
                              name_of(b.calls[j].call.call.collective), b.rank,
                              a.communicator == b.communicator ? "" : " of another communicator"));
          }
    ++(conflicts.empty() ? taken : refused);
    const auto error = error_of([&] { check_disjoint(group.members()); });
    ASSERT_EQ(error.has_value(), !conflicts.empty())
        << "round " << round << (error ? error->what() : ": " + conflicts[0]);
    if (!error) continue;
    const std::string text = error->what();
    EXPECT_TRUE(std::any_of(conflicts.begin(), conflicts.end(),
                            [&](const std::string& words) { return text.starts_with(words); }))
        << "round " << round << ": " << text << "; expected " << conflicts[0];
  }
  EXPECT_GT(refused, 2000);
  EXPECT_GT(taken, 2000);
}

}  // namespace
}  // namespace plait::test
