// Proxies over sockets, and over network plug-ins that may reach device memory. Ranks are threads,
// and the test does what kernels do.
#include "transport/proxy.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/thread_ranks.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "transport/lanes.hpp"

namespace plait::transport {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t many_chunks = test::under_tsan ? 60 : 400;

using Body = std::function<void(TestRank&, Bootstrap&)>;

/// `body` on a thread per rank, each with its proxy.
void run_proxies(int ranks, const LaneShape& shape, const Body& body) {
  run_ranks(ranks, [&](std::unique_ptr<Bootstrap>& bootstrap) {
    TestRank rank(*bootstrap, shape);
    body(rank, *bootstrap);
    bootstrap->barrier();
  });
}

/// Over sockets, or over a rough plug-in of some version.
class Proxies : public testing::TestWithParam<int> {
 protected:
  static void on_ranks(int ranks, LaneShape shape, const Body& body) {
    shape.plugin = GetParam();
    run_proxies(ranks, shape, body);
  }

 private:
  const test::RoughPlugin rough_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Over, Proxies, testing::ValuesIn(rough_or_sockets), name_of_plugin);

/// How kernels get the proxy to work.
enum class Means { waking, carrying, capturing };

struct Setting {
  std::string name;
  int ranks;
  Means means;
  LaneShape shape;
  std::uint32_t chunks = many_chunks;
};

class Chunks : public testing::TestWithParam<Setting> {
 protected:
  /// Of all settings together: one of them may never have two messages under way at once.
  static void TearDownTestSuite() {
    EXPECT_TRUE(late_ > 0 || rough_ <= 1) << "no message has overtaken another";
    rough_ = late_ = 0;
  }
  static inline int rough_ = 0, late_ = 0;  // settings with a plug-in; overtaken messages
};
INSTANTIATE_TEST_SUITE_P(
    All, Chunks,
    testing::Values(
        Setting{"woken_2", 2, Means::waking, {}}, Setting{"woken_3", 3, Means::waking, {}},
        Setting{"carried_2", 2, Means::carrying, {}}, Setting{"carried_3", 3, Means::carrying, {}},
        Setting{"captured_2", 2, Means::capturing, {}},
        Setting{"one_slot", 2, Means::carrying, {.slots = 1}},
        Setting{"sixteen_slots", 3, Means::carrying, {.slots = 16}},
        Setting{"all_inline", 2, Means::carrying, {.slot_bytes = small_slot}},
        Setting{"long_chunks",
                2,
                Means::carrying,
                {.slots = 2, .slot_bytes = 700'000},
                many_chunks / 10},
        Setting{"many_channels",
                3,
                Means::carrying,
                {.channels = 200, .slot_bytes = 5000},
                many_chunks / 20},
        Setting{"counters_wrap", 2, Means::carrying, {.counters_begin = 0xfffffff0}},
        Setting{"notes_wrap", 3, Means::waking, {.slots = 16, .counters_begin = 0xffffffe9}},
        Setting{"patient", 3, Means::carrying, {.credit_flags = ChunkNote::credit_may_wait}},
        Setting{"checked", 3, Means::carrying, {.slot_bytes = 50'000, .is_checked = true}},
        Setting{
            "in_bulk", 3, Means::carrying, {.slots = 8, .credit_flags = ChunkNote::credit_in_bulk}},
        Setting{
            "in_bulk_by_the_thread",
            2,
            Means::waking,
            {.slots = 8, .counters_begin = 0xfffffff0, .credit_flags = ChunkNote::credit_in_bulk}},
        Setting{"patient_in_device_memory",
                2,
                Means::waking,
                {.uses_device = true, .credit_flags = ChunkNote::credit_may_wait, .plugin = 11}}),
    [](const auto& setting) { return setting.param.name; });

/// Each version of the plug-ins' interface, with all that plug-ins may do.
std::vector<Setting> rough_settings() {
  std::vector<Setting> all;
  for (const int version : test::plugin_versions) {
    const auto add = [&](const char* name, int ranks, Means means, LaneShape shape) {
      shape.plugin = version;
      const std::uint32_t chunks = shape.slot_bytes > 100'000 ? many_chunks / 10 : many_chunks;
      all.push_back({fmt::format("v{}_{}", version, name), ranks, means, shape, chunks});
    };
    add("in_host_memory", 3, Means::waking, {.slots = 16, .is_checked = true});
    add("in_device_memory", 3, Means::carrying, {.slots = 16, .uses_device = true});
    add("long", 2, Means::waking, {.slots = 4, .slot_bytes = 700'000, .uses_device = true});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Rough, Chunks, testing::ValuesIn(rough_settings()),
                         [](const auto& setting) { return setting.param.name; });

/// The lanes check each chunk. A sender fills a slot again only after its credit, so credits come
/// back, and all of them at the end.
TEST_P(Chunks, ArriveInOrderAndCreditsReturn) {
  const Setting& setting = GetParam();
  const test::RoughPlugin rough(setting.shape.plugin);
  const test::PluginFaults faults(test::plugin_of_version(setting.shape.plugin));
  const test::PluginFaults::Scoped reaches(faults, "pointers", 3),
      shifted(faults, "device_shift", DeviceSlots::device_shift);
  const int late = faults.get("late");
  run_proxies(setting.ranks, setting.shape, [&](TestRank& rank, Bootstrap&) {
    if (setting.means == Means::capturing) rank.proxy().stay_awake();
    rank.exchange(setting.chunks, [&] {
      switch (setting.means) {
        case Means::carrying:
          rank.proxy().carry(rank.number() == 0 ? 1 : 0);
          return std::this_thread::yield();
        case Means::waking:
          rank.proxy().wake();
          return std::this_thread::yield();
        case Means::capturing:
          return std::this_thread::sleep_for(50us);
      }
    });
    rank.proxy().carry(-1);
    EXPECT_TRUE(rank.lost().empty());
  });
  rough_ += setting.shape.plugin != 0 ? 1 : 0;
  late_ += faults.get("late") - late;
}

/// Creating a communicator tries it, but more memory may be registered later than fits then.
TEST_P(Proxies, LoseAPeerForWhichTheyCanNotRegisterMemory) {
  if (GetParam() == 0) return;  // sockets register nothing
  const test::PluginFaults faults(test::plugin_of_version(GetParam()));
  const test::PluginFaults::Scoped reaches(faults, "pointers", 3),
      shifted(faults, "device_shift", DeviceSlots::device_shift),
      fails(faults, "fail_device_register", 1);  // the sender's does not
  on_ranks(2, {.uses_device = true}, [](TestRank& rank, Bootstrap& ranks) {
    if (rank.number() == 0) {
      for (unsigned channel = 0; channel < 2; ++channel)
        while (rank.lane(0).may_send(channel)) rank.lane(0).send(channel);
      rank.proxy().wake();
    } else {
      rank.wait([&] { return !rank.lost().empty(); });
    }
    ranks.barrier();
  });
}

TEST_P(Proxies, AreCarriedBySeveralThreadsAtOnce) {
  on_ranks(2, {.channels = 8}, [&](TestRank& rank, Bootstrap&) {
    std::atomic<bool> is_done = false;
    std::vector<std::thread> carriers;
    for (int i = 0; i < 3; ++i)
      carriers.emplace_back([&, i] {
        while (!is_done) {
          rank.proxy().carry(i == 0 ? rank.number() : 1 - rank.number());
          if (i == 2) rank.proxy().carry(-1);
          std::this_thread::yield();
        }
      });
    rank.exchange(many_chunks, [&] { rank.proxy().carry(1 - rank.number()); });
    is_done = true;
    for (std::thread& carrier : carriers) carrier.join();
  });
}

/// A kernel on a device may publish as many chunks as there are slots between two looks.
TEST_P(Proxies, SendSixteenChunksThatAreRaisedAtOnce) {
  for (const std::size_t slot_bytes : {small_slot, std::size_t{50'000}})
    on_ranks(2, {.channels = 3, .slots = 16, .slot_bytes = slot_bytes},
             [&](TestRank& rank, Bootstrap& ranks) {
               TestLane& lane = rank.lane(0);
               for (unsigned channel = 0; channel < 3; ++channel) {
                 for (int k = 0; k < 16; ++k) lane.send(channel, false);
                 EXPECT_FALSE(lane.may_send(channel));
               }
               ranks.barrier();
               std::this_thread::sleep_for(20ms);
               for (unsigned channel = 0; channel < 3; ++channel)
                 EXPECT_FALSE(lane.has_arrived(channel)) << "it was not published";
               ranks.barrier();
               for (unsigned channel = 0; channel < 3; ++channel) lane.raise(channel);
               rank.proxy().wake();
               rank.exchange(16, [&] { std::this_thread::sleep_for(50us); });
             });
}

TEST_P(Proxies, TellWordsInTheirOrder) {
  constexpr int most = test::under_tsan ? 100 : 1000;
  on_ranks(3, {}, [&](TestRank& rank, Bootstrap& ranks) {
    const auto text = [](int from, int i) {
      std::string words = fmt::format("{}:{}:", from, i);
      words.resize(words.size() + static_cast<std::size_t>(i) * 37 % (frame_bytes / 2 - 20), 'x');
      return words;
    };
    for (int i = 0; i < most; ++i)
      for (int peer = 0; peer < ranks.size(); ++peer) {
        const std::string words = text(ranks.rank(), i);
        if (peer != ranks.rank()) rank.proxy().tell(peer, std::as_bytes(std::span(words)));
      }
    rank.wait([&] { return rank.heard().size() == std::size_t{2} * most; });
    std::vector<int> next(3);
    for (const auto& [peer, words] : rank.heard())
      EXPECT_EQ(words, text(peer, next[static_cast<std::size_t>(peer)]++));
  });
}

TEST_P(Proxies, TellNoRankWithoutALaneAndNoMoreThanAFrameTakes) {
  on_ranks(2, {}, [&](TestRank& rank, Bootstrap& ranks) {
    const std::vector<std::byte> most(frame_bytes / 2), more(frame_bytes / 2 + 1);
    const int other = 1 - ranks.rank();
    for (const int none : {ranks.rank(), 2, -1})
      test::expect_invalid([&] { rank.proxy().tell(none, most); }, "has no lane to rank");
    test::expect_invalid([&] { rank.proxy().tell(other, more); }, "8193 bytes");
    rank.proxy().tell(other, most);
    rank.wait([&] { return !rank.heard().empty(); });
    ranks.barrier();
    EXPECT_EQ(rank.heard().size(), 1u);
  });
}

/// The chunks of a kernel that ends with the communicator.
TEST_P(Proxies, SendWhatWasPublishedJustBeforeTheEnd) {
  for (const std::size_t slot_bytes : {small_slot, std::size_t{200'000}})
    on_ranks(2, {.slots = 16, .slot_bytes = slot_bytes}, [&](TestRank& rank, Bootstrap& ranks) {
      TestLane& lane = rank.lane(0);
      if (ranks.rank() == 0) {
        std::this_thread::sleep_for(50ms);  // it sleeps
        for (int k = 0; k < 16; ++k) lane.send(k % 2);
        const std::string words = "the last";
        rank.proxy().tell(1, std::as_bytes(std::span(words)));
        rank.proxy().stop(patience);
        return;
      }
      for (int k = 0; k < 16; ++k)
        if (rank.wait([&] { return lane.has_arrived(k % 2); })) lane.receive(k % 2);
      rank.wait([&] { return !rank.heard().empty(); });
      EXPECT_EQ(rank.heard().at(0).second, "the last");
      EXPECT_TRUE(rank.lost().empty());
    });
}

TEST_P(Proxies, CountWhatTheySend) {
  on_ranks(2, {}, [&](TestRank& rank, Bootstrap& ranks) {
    rank.exchange(20, [&] { rank.proxy().wake(); });
    const TestLane& lane = rank.lane(0);
    std::uint64_t bytes = 0;
    for (unsigned channel = 0; channel < 2; ++channel)
      for (std::uint32_t k = 0; k < 20; ++k)
        bytes += lane.size_of(ranks.rank(), lane.peer(), channel, k);
    rank.wait([&] { return rank.proxy().counters().chunks_sent == 40; });
    EXPECT_EQ(rank.proxy().counters().bytes_sent, bytes);
    EXPECT_LE(rank.proxy().counters().frames_sent, 20u * 4 + 1);
  });
}

/// Calls of two chunks, as small all-reduces. Only each second call uses the same channel.
TEST_P(Proxies, SendCreditsThatMayWaitWithTheChunksOfTheNextCall) {
  constexpr std::uint32_t calls = many_chunks, chunks = 2;
  on_ranks(2, {.slot_bytes = small_slot, .credit_flags = ChunkNote::credit_may_wait},
           [&](TestRank& rank, Bootstrap&) {
             TestLane& lane = rank.lane(0);
             const auto carry = [&] {
               rank.proxy().carry(lane.peer());
               std::this_thread::yield();
             };
             std::uint32_t slow_calls = 0;  // their credits may have gone before them
             for (std::uint32_t call = 0; call < calls; ++call) {
               const auto begin = Clock::now();
               const unsigned channel = call % 2;
               if (!rank.wait([&] { return lane.is_all_taken(channel); }, carry)) return;
               for (std::uint32_t k = 0; k < chunks; ++k) lane.send(channel);
               for (std::uint32_t k = 0; k < chunks; ++k) {
                 if (!rank.wait([&] { return lane.has_arrived(channel); }, carry)) return;
                 lane.receive(channel);
               }
               rank.proxy().carry(-1);
               if (Clock::now() > begin + 300us) ++slow_calls;
             }
             rank.wait([&] { return rank.proxy().counters().chunks_sent == chunks * calls; });
             EXPECT_LT(rank.proxy().counters().frames_sent, calls * 3 / 2 + slow_calls)
                 << "credits had frames";
           });
}

/// There is no next call. The proxy's own thread rests while others carry.
TEST_P(Proxies, SendCreditsThatMayWaitInTheEnd) {
  enum class Then { nothing, waits_for_sender, waits_for_another };
  for (const Then then : {Then::nothing, Then::waits_for_sender, Then::waits_for_another}) {
    std::atomic<bool> is_taken = false;
    on_ranks(2, {.credit_flags = ChunkNote::credit_may_wait}, [&](TestRank& rank, Bootstrap&) {
      TestLane& lane = rank.lane(0);
      if (rank.number() == 0) {
        for (int k = 0; k < 2; ++k) lane.send(0);
        rank.proxy().wake();
        rank.wait([&] { return lane.is_all_taken(0); });
        is_taken = true;
        return;
      }
      const auto carry = [&](int peer) { rank.proxy().carry(peer); };
      const auto begin = Clock::now();
      rank.wait([&] { return lane.has_arrived(0) && Clock::now() > begin + 20ms; },
                [&] { carry(1); });
      for (int k = 0; k < 2; ++k) lane.receive(0);
      rank.wait([&] { return is_taken.load(); },
                [&] {
                  if (then == Then::nothing) std::this_thread::yield();
                  else carry(then == Then::waits_for_sender ? 0 : 1);
                });
    });
  }
}

double process_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Two proxies with nothing to do, which have had flows to each other. There may be many
/// communicators, so they sleep longer and longer, but wake up at once. A sanitizer's own work is
/// more than theirs.
TEST(IdleProxies, NeedLittleTimeWhenNothingHappens) {
  run_proxies(2, {.channels = 128}, [&](TestRank& rank, Bootstrap& ranks) {
    rank.exchange(5, [&] { rank.proxy().wake(); });
    ranks.barrier();
    const std::uint64_t sleeps = rank.proxy().counters().sleeps;
    if (ranks.rank() == 0) {
      std::this_thread::sleep_for(500ms);
      const double before = process_seconds();
      const auto start = Clock::now();
      std::this_thread::sleep_for(2s);
      const double share = (process_seconds() - before) /
                           std::chrono::duration<double>(Clock::now() - start).count();
      EXPECT_LT(share / 2, test::under_tsan ? 0.2 : 0.02) << "of a core, per proxy";
    }
    ranks.barrier();
    EXPECT_LT(rank.proxy().counters().sleeps, sleeps + 400) << "about 20 ln(2.5 s / 50 us)";
    const auto start = Clock::now();
    rank.proxy().tell(1 - rank.number(), {});
    rank.wait([&] { return !rank.heard().empty(); });
    EXPECT_LT(Clock::now() - start, test::under_tsan ? 1s : 100ms);
    ranks.barrier();
  });
}

}  // namespace
}  // namespace plait::transport
