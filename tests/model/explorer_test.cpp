// The explorer itself, by programs whose executions are known: the litmus tests of memory models.
#include "backends/model/explorer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace plait::model {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<std::uint32_t>;

/// Threads of a rank each, on four words that begin with 0. What `see` gets of all threads is
/// collected for each execution.
class Litmus {
 public:
  std::uint32_t word[4] = {};
  Explorer explorer{1000};
  Result result;
  std::set<Numbers> seen;  // by thread, in the order of reads

  using Body = std::function<void(Litmus&, Thread&)>;
  Litmus& run(const std::vector<Body>& bodies) {
    Program program;
    std::vector<Numbers> reads(bodies.size());
    reads_ = &reads;
    for (const Body& body : bodies)
      program.ranks.push_back({{1, 1, [this, body](Thread& thread) { body(*this, thread); }}});
    program.reset = [&] {
      for (std::uint32_t& w : word) w = 0;
      for (Numbers& of_thread : reads) of_thread.clear();
    };
    program.check = [&] {
      Numbers all;
      for (const Numbers& of_thread : reads)
        all.insert(all.end(), of_thread.begin(), of_thread.end());
      seen.insert(all);
      return std::string();
    };
    program.name = [this](std::uintptr_t address) {
      return "word " + std::to_string((address - reinterpret_cast<std::uintptr_t>(word)) / 4);
    };
    result = explorer.explore(program);
    return *this;
  }
  void store(Thread& thread, int to, std::uint32_t value, bool releases = false) {
    explorer.store(thread, &word[to], &value, sizeof(value), releases, Site::here());
  }
  void read(Thread& thread, int from) {
    std::uint32_t value = 0;
    explorer.await(
        thread, &word[from], &value, sizeof(value), [](const Value&) { return true; },
        Site::here());
    (*reads_)[static_cast<std::size_t>(thread.rank)].push_back(value);
  }
  void plain(Thread& thread, int at, bool stores) {
    explorer.plain(thread, &word[at], sizeof(word[at]), stores, Site::here());
  }

 private:
  std::vector<Numbers>* reads_ = nullptr;
};

TEST(Explorer, FindsEachExecutionOnce) {
  struct Known {
    const char* name;
    std::vector<Litmus::Body> bodies;
    std::size_t executions;
    Numbers forbidden;
  };
  const auto store = [](int to, std::uint32_t value) {
    return [=](Litmus& l, Thread& t) { l.store(t, to, value); };
  };
  const auto reads = [](int first, int second) {
    return [=](Litmus& l, Thread& t) {
      l.read(t, first);
      l.read(t, second);
    };
  };
  const auto store_and_read = [](int to, int from) {
    return [=](Litmus& l, Thread& t) {
      l.store(t, to, 1);
      l.read(t, from);
    };
  };
  const auto read_and_store = [](int from, int to) {
    return [=](Litmus& l, Thread& t) {
      l.read(t, from);
      l.store(t, to, 1);
    };
  };
  for (const Known& known : {
           Known{"store buffering", {store_and_read(0, 1), store_and_read(1, 0)}, 4, {2}},
           {"load buffering", {read_and_store(0, 1), read_and_store(1, 0)}, 3, {1, 1}},
           {"message passing, relaxed",
            {[](Litmus&l, Thread&t) {
               l.store(t, 0, 1);
               l.store(t, 1, 1);
             },
             reads(1, 0)},
            4,
            {2}},
           {"coherence of reads",
            {[](Litmus&l, Thread&t) {
               l.store(t, 0, 1);
               l.store(t, 0, 2);
             },
             reads(0, 0)},
            6,
            {2, 1}},
           {"two writers, two readers",
            {store(0, 1), store(1, 1), reads(0, 1), reads(1, 0)},
            16,
            {2}},
       }) {
    Litmus litmus;
    litmus.run(known.bodies);
    EXPECT_EQ(litmus.result.failure, "") << known.name;
    EXPECT_EQ(litmus.result.executions, known.executions) << known.name;
    EXPECT_EQ(litmus.seen.size(), known.executions) << known.name;
    EXPECT_FALSE(litmus.seen.contains(known.forbidden)) << known.name;
  }
}

TEST(Explorer, CountsInEveryOrder) {
  Litmus litmus;
  const auto add = [](Litmus& l, Thread& t) { l.explorer.add_one(t, &l.word[0], Site::here()); };
  litmus.run({add, add, add});
  EXPECT_EQ(litmus.result.executions, 6u);
}

/// A plain store, then a signal; a wait, then a plain load.
class MessagePassing : public testing::TestWithParam<std::pair<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, MessagePassing,
                         testing::Values(std::pair{true, true}, std::pair{false, true},
                                         std::pair{true, false}));

TEST_P(MessagePassing, IsARaceUnlessBothOrder) {
  const bool releases = GetParam().first, acquires = GetParam().second;
  Litmus litmus;
  const Site there = Site::here();
  if (!acquires)
    litmus.explorer.weaken(
        {std::string(there.file()), there.line, Word::wait, Weakening::to_relaxed});
  litmus.run({[&](Litmus& l, Thread& t) {
                l.plain(t, 0, true);
                const std::uint32_t one = 1;
                l.explorer.store(t, &l.word[1], &one, sizeof(one), releases, Site::here());
              },
              [&](Litmus& l, Thread& t) {
                l.explorer.wait(t, &l.word[1], 1, there);
                l.plain(t, 0, false);
              }});
  if (releases && acquires) EXPECT_EQ(litmus.result.failure, "");
  else EXPECT_THAT(litmus.result.failure, HasSubstr("a load of word 0 races"));
}

TEST(Explorer, FindsWaitsWithoutEnd) {
  Litmus litmus;
  litmus.run({[](Litmus& l, Thread& t) { l.explorer.wait(t, &l.word[0], 2, Site::here()); },
              [](Litmus& l, Thread& t) { l.store(t, 0, 1); }});
  EXPECT_THAT(litmus.result.failure, HasSubstr("nobody can go on: rank 0 block 0 thread 0"));
  EXPECT_THAT(litmus.result.failure, HasSubstr("| 0 | 1 | 0 | 0 | word 0 = 1 (explorer_test.cpp:"));
}

/// The order of two stores to a place is part of an execution. None of the kernels needs another
/// one, so it is a mistake that somebody else could come first.
TEST(Explorer, FindsStoresWithoutOrder) {
  Litmus litmus;
  const auto stores = [](Litmus& l, Thread& t) { l.store(t, 0, 1); };
  litmus.run({stores, stores});
  EXPECT_THAT(litmus.result.failure, HasSubstr("has no order to the one before it"));
}

/// A value for which a thread waits may be overwritten only by one that comes after the read.
TEST(Explorer, FindsValuesThatAreLost) {
  for (const bool answers : {true, false}) {
    Litmus litmus;
    const auto is = [](std::uint32_t wanted) {
      return [wanted](const Value& value) { return value[0] == wanted; };
    };
    const auto await = [&](Litmus& l, Thread& t, int from, std::uint32_t wanted) {
      std::uint32_t value = 0;
      l.explorer.await(t, &l.word[from], &value, sizeof(value), is(wanted), Site::here());
    };
    litmus.run({[&](Litmus& l, Thread& t) {
                  l.store(t, 0, 1);
                  if (answers) await(l, t, 1, 1);
                  l.store(t, 0, 2);
                },
                [&](Litmus& l, Thread& t) {
                  await(l, t, 0, 1);
                  l.store(t, 1, 1);
                }});
    if (answers) EXPECT_EQ(litmus.result.failure, "");
    else EXPECT_THAT(litmus.result.failure, HasSubstr("overwritten before"));
  }
}

/// Fences make relaxed accesses as good as a release and an acquire.
TEST(Explorer, KnowsFences) {
  for (const bool fences : {true, false}) {
    Litmus litmus;
    litmus.run({[&](Litmus& l, Thread& t) {
                  l.plain(t, 0, true);
                  if (fences) l.explorer.fence(t, false, Site::here());
                  l.store(t, 1, 1);
                },
                [&](Litmus& l, Thread& t) {
                  std::uint32_t value = 0;
                  l.explorer.await(
                      t, &l.word[1], &value, sizeof(value),
                      [](const Value& v) { return v[0] != 0; }, Site::here());
                  if (fences) l.explorer.fence(t, true, Site::here());
                  l.plain(t, 0, false);
                }});
    EXPECT_EQ(litmus.result.failure.empty(), fences);
  }
}

}  // namespace
}  // namespace plait::model
