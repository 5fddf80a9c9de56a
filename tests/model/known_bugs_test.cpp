// Mistakes that all-reduces of other projects have shipped, rebuilt from their descriptions, in two
// small kernels: one reads what its peers have staged, the other one sends into three buffers that
// take turns. Each mistake is one line, and must be found.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/model/model_words.hpp"

namespace plait::model {
namespace {

enum class Bug {
  none,
  /// A flag without the release that the data before it need.
  no_release,
  /// A wait without an acquire.
  no_acquire,
  /// Of three buffers, the one is cleared that peers write next.
  clears_wrong_buffer,
  /// No barrier at the end: a rank goes on while others still read its input.
  no_exit_barrier,
  /// Epochs are compared as unsigned numbers, and wrap.
  unsigned_epochs,
};

constexpr int ranks = 2, calls = 5;
constexpr std::uint32_t first_epoch = 0xfffffffe;

struct RankMemory {
  alignas(16) std::uint32_t input, staged, output, arrived[ranks], left[ranks];
  alignas(16) Marked buffers[3][ranks];
};

/// Pull: a rank stages its input, says so, and reads what its peers have staged.
class Pull {
 public:
  explicit Pull(Bug bug) : bug_(bug) {}
  void operator()(KernelWords& dev, RankMemory* all, int rank, int call) const {
    const std::uint32_t epoch = first_epoch + static_cast<std::uint32_t>(call);
    std::uint32_t sum = load(dev, &all[rank].input);
    dev.explorer().plain_store(dev.its_thread(), &all[rank].staged, &sum, sizeof(sum), {});
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) tell(dev, &all[peer].arrived[rank], epoch);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      hear(dev, &all[rank].arrived[peer], epoch);
      sum += load(dev, &all[peer].staged);
    }
    dev.explorer().plain_store(dev.its_thread(), &all[rank].output, &sum, sizeof(sum), {});
    if (bug_ == Bug::no_exit_barrier) return;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) dev.signal(&all[peer].left[rank], epoch);
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) dev.wait(&all[rank].left[peer], epoch, {});
  }

 private:
  void tell(KernelWords& dev, std::uint32_t* word, std::uint32_t epoch) const {
    dev.explorer().store(dev.its_thread(), word, &epoch, sizeof(epoch), bug_ != Bug::no_release,
                         Site::here());
  }
  void hear(KernelWords& dev, const std::uint32_t* word, std::uint32_t epoch) const {
    if (bug_ != Bug::no_acquire && bug_ != Bug::unsigned_epochs) {
      dev.wait(word, epoch, {});
      return;
    }
    std::uint32_t value = 0;
    dev.explorer().await(
        dev.its_thread(), word, &value, sizeof(value),
        [&](const Value& v) {
          const auto seen = static_cast<std::uint32_t>(v[0]);
          return bug_ == Bug::unsigned_epochs ? seen >= epoch
                                              : static_cast<std::int32_t>(seen - epoch) >= 0;
        },
        Site::here());
    if (bug_ != Bug::no_acquire)
      dev.explorer().acquire(dev.its_thread(), word, sizeof(*word), Site::here());
  }
  static std::uint32_t load(KernelWords& dev, const std::uint32_t* from) {
    std::uint32_t value = 0;
    dev.explorer().plain_load(dev.its_thread(), &value, from, sizeof(value), {});
    return value;
  }

  Bug bug_;
};

/// Push into one of three buffers, and clear one for a later call.
class Push {
 public:
  explicit Push(Bug bug) : bug_(bug) {}
  void operator()(KernelWords& dev, RankMemory* all, int rank, int call) const {
    const int now = call % 3;
    Marked mine{};
    dev.explorer().plain_load(dev.its_thread(), &mine.word[0], &all[rank].input, 4, {});
    mine.word[0] = mine.word[1] = ~mine.word[0];
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) dev.put(&all[peer].buffers[now][rank], mine);
    std::uint32_t sum = static_cast<std::uint32_t>(~mine.word[0]);
    // The buffer of the call before has been read, and that of the next call may be written.
    const int cleared = bug_ == Bug::clears_wrong_buffer ? (call + 1) % 3 : (call + 2) % 3;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      const Marked* const slots[] = {&all[rank].buffers[now][peer]};
      Marked got[1];
      dev.take(slots, got, 1u, 0, {{}});
      sum += static_cast<std::uint32_t>(~got[0].word[0]);
      dev.empty(&all[rank].buffers[cleared][peer]);
    }
    dev.explorer().plain_store(dev.its_thread(), &all[rank].output, &sum, sizeof(sum), {});
  }

 private:
  Bug bug_;
};

template <class Kernel>
std::string failure_of(Bug bug) {
  std::vector<RankMemory> memory(ranks);
  std::vector<BlockMemory> blocks(ranks);
  Explorer explorer(1000);
  const auto input = [](int rank, int call) {
    return static_cast<std::uint32_t>(rank * 100 + call * 7 + 1);
  };
  Program program;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& launches = program.ranks.emplace_back();
    for (int call = 0; call <= calls; ++call) {
      launches.push_back({1, 1, [&, rank, call](Thread& thread) {
                            RankMemory& mine = memory[static_cast<std::size_t>(rank)];
                            std::uint32_t value = 0;
                            if (call > 0) {
                              explorer.plain_load(thread, &value, &mine.output, sizeof(value), {});
                              if (value != input(0, call - 1) + input(1, call - 1))
                                explorer.fail(thread, "wrong sum");
                            }
                            value = input(rank, call);
                            explorer.plain_store(thread, &mine.input, &value, sizeof(value), {});
                          }});
      if (call == calls) break;
      launches.push_back({1, 1, [&, rank, call](Thread& thread) {
                            KernelWords words(explorer, thread,
                                              blocks[static_cast<std::size_t>(rank)]);
                            Kernel{bug}(words, memory.data(), rank, call);
                          }});
    }
  }
  program.reset = [&] {
    std::memset(memory.data(), 0, memory.size() * sizeof(RankMemory));
    for (RankMemory& rank : memory)
      for (int peer = 0; peer < ranks; ++peer)
        rank.arrived[peer] = rank.left[peer] = first_epoch - 1;
  };
  program.check = [] { return std::string(); };
  program.name = [](std::uintptr_t address) { return std::to_string(address); };
  const Result result = explorer.explore(program);
  EXPECT_TRUE(result.complete);
  return result.failure;
}

TEST(KnownBugs, OfPull) {
  EXPECT_EQ(failure_of<Pull>(Bug::none), "");
  for (const Bug bug :
       {Bug::no_release, Bug::no_acquire, Bug::no_exit_barrier, Bug::unsigned_epochs})
    EXPECT_NE(failure_of<Pull>(bug), "") << static_cast<int>(bug);
}
TEST(KnownBugs, OfPush) {
  EXPECT_EQ(failure_of<Push>(Bug::none), "");
  EXPECT_NE(failure_of<Push>(Bug::clears_wrong_buffer), "");
}

}  // namespace
}  // namespace plait::model
