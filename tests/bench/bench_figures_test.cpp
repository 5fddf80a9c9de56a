// plait-bench's output: its figures are those of nccl-tests, and its check of results sees a single
// wrong bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/results.hpp"
#include "bench/table.hpp"
#include "bench/task.hpp"
#include "bench/verify.hpp"
#include "plait/error.hpp"
#include "support/by_name.hpp"
#include "support/ranks.hpp"

namespace plait::bench {
namespace {

using test::run_ranks;

/// The factors are in doc/PERFORMANCE.md of nccl-tests.
TEST(Figures, AreThoseOfNcclTests) {
  struct Row {
    Collective collective;
    double of_2, of_3, of_8;
  };
  for (const auto& [collective, of_2, of_3, of_8] :
       std::vector<Row>{{Collective::all_reduce, 1, 4 / 3.0, 1.75},
                        {Collective::reduce_scatter, 0.5, 2 / 3.0, 0.875},
                        {Collective::all_gather, 0.5, 2 / 3.0, 0.875},
                        {Collective::all_to_all, 0.5, 2 / 3.0, 0.875},
                        {Collective::gather, 0.5, 2 / 3.0, 0.875},
                        {Collective::scatter, 0.5, 2 / 3.0, 0.875},
                        {Collective::broadcast, 1, 1, 1},
                        {Collective::reduce, 1, 1, 1},
                        {Collective::send_recv, 1, 1, 1},
                        {Collective::scan, 1, 1, 1},
                        {Collective::exscan, 1, 1, 1}}) {
    EXPECT_DOUBLE_EQ(busbw_factor(collective, 2), of_2) << name_of(collective);
    EXPECT_DOUBLE_EQ(busbw_factor(collective, 3), of_3) << name_of(collective);
    EXPECT_DOUBLE_EQ(busbw_factor(collective, 8), of_8) << name_of(collective);
  }
}

/// 4 ranks, each with a block of 2 million bf16.
Result all_gather_of_16_mb() {
  Result result;
  result.name = "ring";
  result.call = {
      .collective = Collective::all_gather, .type = DataType::bf16, .count = 2'000'000, .parts = 4};
  result.ranks = 4;
  result.times = Times({900, 100, 80});
  return result;
}

TEST(Figures, AreOfTheLargerBufferAndTheMedian) {
  const Result result = all_gather_of_16_mb();
  EXPECT_EQ(result.bytes(), 16'000'000u);
  EXPECT_DOUBLE_EQ(result.time_us(), 100);
  EXPECT_DOUBLE_EQ(result.algbw(), 160);
  EXPECT_DOUBLE_EQ(result.busbw(), 120);
}

/// The words that `print` prints into a file.
std::vector<std::string> printed(const std::function<void(std::FILE*)>& print) {
  std::FILE* const file = std::tmpfile();
  print(file);
  std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}
std::vector<std::string> printed(const Result& result, const Ceilings& ceilings,
                                 bool statistics = false) {
  return printed([&](std::FILE* file) { print_result(file, result, ceilings, statistics); });
}

TEST(Figures, ArePrintedInOrder) {
  Result result = all_gather_of_16_mb();
  EXPECT_THAT(printed(result, {.push_gbs = 200, .pull_gbs = 240, .copy_engine_gbs = 100}),
              testing::ElementsAre("all_gather", "16000000", "2000000", "bf16", "-", "ring",
                                   "ordinary", "out", "100.0", "160.0", "120.0", "50.0", "N/A"));
  result.wrong = 7;
  EXPECT_THAT(printed(result, {}),
              testing::ElementsAre("all_gather", "16000000", "2000000", "bf16", "-", "ring",
                                   "ordinary", "out", "100.0", "160.0", "120.0", "-", "7"));
  // The mean of 80, 100 and 900, their standard deviation, p5, p95, p99 and their number.
  const auto words = printed(result, {}, true);
  EXPECT_THAT(std::vector<std::string>(words.begin() + 13, words.end()),
              testing::ElementsAre("360.0", "467.8", "82.00", "820.0", "884.0", "3"));
}

TEST(Figures, OfABarrierHaveNoBandwidth) {
  Result result;
  result.name = "peer:mpi";
  result.call = {.collective = Collective::barrier, .type = DataType::u8};
  result.ranks = 4;
  result.times = Times({2});
  EXPECT_FALSE(result.percent_of({.push_gbs = 100}));
  EXPECT_THAT(printed(result, {.push_gbs = 100}),
              testing::ElementsAre("barrier", "0", "0", "-", "-", "peer:mpi", "ordinary", "out",
                                   "2.000", "-", "-", "-", "N/A"));
}

TEST(Figures, NameTheOffsetOfTheBuffers) {
  Result result = all_gather_of_16_mb();
  result.offset = 2;
  EXPECT_EQ(printed(result, {})[7], "out+2");
  result.in_place = true;
  EXPECT_EQ(printed(result, {})[7], "in+2");
}

Result all_reduce_of_1_kb(const std::string& name, Memory memory, double microseconds) {
  Result result;
  result.name = name;
  result.call = {.collective = Collective::all_reduce, .type = DataType::f32, .count = 256};
  result.ranks = 2;
  result.memory = memory;
  result.times = Times({microseconds});
  result.wrong = 0;
  return result;
}

TEST(Rows, HaveTheDefaultTheBestAndThePeer) {
  using testing::ElementsAre;
  std::vector<Result> results = {all_reduce_of_1_kb("ring", Memory::symmetric, 100),
                                 all_reduce_of_1_kb("stream", Memory::symmetric, 80),
                                 all_reduce_of_1_kb("default", Memory::symmetric, 64),
                                 all_reduce_of_1_kb("stream", Memory::ordinary, 200),
                                 all_reduce_of_1_kb("peer:nccl", Memory::ordinary, 160),
                                 all_reduce_of_1_kb("peer:nccl-symmetric", Memory::symmetric, 32)};
  results[2].chosen = "ring";
  const auto row = [&](const Result& result) {
    return printed([&](std::FILE* file) { print_row(file, race_of(result), results, Options{}); });
  };
  // The default is no algorithm beside the one that it has chosen, and was faster for the noise.
  EXPECT_THAT(row(results[0]), ElementsAre("all_reduce", "f32", "sum", "1K", "64.00", "ring",
                                           "0.016", "80.00", "stream", "32.00", "0.50x"));
  // In ordinary memory windows don't count, and without a default the best algorithm does.
  EXPECT_THAT(row(results[3]), ElementsAre("all_reduce", "f32", "sum,", "ordinary", "1K", "-", "-",
                                           "0.005", "200.0", "stream", "160.0", "0.80x"));
  EXPECT_THAT(printed([&](std::FILE* file) { print_verdict(file, results); }),
              ElementsAre("#", "checked:", "3072", "elements,", "0", "wrong"));
  results[1].wrong = 7;
  const auto words = row(results[0]);
  EXPECT_THAT(std::vector<std::string>(words.begin() + 11, words.end()),
              ElementsAre("WRONG:", "7", "elements", "of", "stream"));
  EXPECT_THAT(printed([&](std::FILE* file) { print_verdict(file, results); }),
              ElementsAre("#", "checked:", "3072", "elements,", "7", "wrong", "<--", "FAILED"));
  // The choice counts as an algorithm where it was not measured by its name.
  results.erase(results.begin(), results.begin() + 2);
  EXPECT_THAT(row(results[0]), ElementsAre("all_reduce", "f32", "sum", "1K", "64.00", "ring",
                                           "0.016", "-", "-", "32.00", "0.50x"));
}

TEST(Tasks, BeginAtTheOffset) {
  run_ranks(1, [](Communicator& comm, int) {
    const Arena arena(ordinary_memory(comm), 4096 + 12);
    const Task task =
        make_task({.collective = Collective::all_reduce}, 4096, false, false, arena, 0, 1, 12);
    EXPECT_EQ(task.offset, 12U);
    EXPECT_EQ(task.send, arena.send() + 12);
    EXPECT_EQ(task.recv, arena.recv() + 12);
    EXPECT_EQ(task.call.bytes(), 4096U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.send()) % 16, 0U);
  });
}

TEST(Tasks, HaveBlocksThatDiffer) {
  run_ranks(1, [](Communicator& comm, int) {
    const Arena arena(ordinary_memory(comm), 4096);
    const auto task = [&](std::size_t mean, int rank, int ranks, bool in_place = false) {
      const Call call{.collective = Collective::reduce_scatter, .type = DataType::f64};
      return with_uneven_blocks(make_task(call,
                                          mean * sizeof(double) * static_cast<unsigned>(ranks),
                                          in_place, false, arena, rank, ranks));
    };
    using Counts = std::vector<std::size_t>;
    EXPECT_EQ(task(10, 0, 4).counts, (Counts{15, 5, 15, 5}));
    EXPECT_EQ(task(10, 0, 3).counts, (Counts{15, 5, 10}));
    EXPECT_EQ(task(1, 0, 2).counts, (Counts{2, 0}));
    EXPECT_EQ(task(8, 0, 1).counts, (Counts{8}));
    const Task second = task(10, 1, 4), in_place = task(10, 2, 4, true);
    EXPECT_EQ(second.own_begin(), 15U);
    EXPECT_EQ(second.recv_bytes(), 5 * sizeof(double));
    EXPECT_EQ(second.send_bytes(), 40 * sizeof(double));
    EXPECT_EQ(in_place.recv, static_cast<const double*>(in_place.send) + 20);
  });
}

// --- the check

/// Plait's call, after which something goes wrong.
class Faulty final : public Contender {
 public:
  /// `spoil` sees the buffers of this rank when the call is done; `calls`: whether there is a call.
  using Spoil = std::function<void(Backend&, const Task&)>;
  Faulty(Communicator& comm, const Arena& arena, bool calls, Spoil spoil)
      : Contender("faulty", Memory::symmetric, arena),
        comm_(comm),
        calls_(calls),
        spoil_(std::move(spoil)) {}

  void enqueue(const Task& task, NativeStream stream) override {
    if (calls_ && task.counts.empty())
      comm_.enqueue(task.call, task.send, task.recv, stream_ref(stream),
                    {.scale = task.call.scale});
    if (calls_ && !task.counts.empty())
      comm_.reduce_scatter_v(task.send, task.counts, task.recv, task.call.type, task.call.op,
                             stream_ref(stream));
    comm_.barrier(stream_ref(stream));
    comm_.synchronize(stream_ref(stream));
    if (spoil_) spoil_(backend_of(comm_), task);
  }

 private:
  Communicator& comm_;
  bool calls_;
  Spoil spoil_;
};

/// Enqueues nothing.
class Missing final : public Contender {
 public:
  explicit Missing(const Arena& arena) : Contender("missing", Memory::ordinary, arena) {}
  void enqueue(const Task& /*task*/, NativeStream /*stream*/) override {}
};

/// The lowest bit of a byte.
void flip(Backend& backend, const void* where) {
  unsigned char byte = 0;
  backend.copy(&byte, where, 1, nullptr);
  backend.synchronize(nullptr);
  byte ^= 1;
  backend.copy(const_cast<void*>(where), &byte, 1, nullptr);
  backend.synchronize(nullptr);
}
const std::byte* at(const void* pointer, std::ptrdiff_t offset) {
  return static_cast<const std::byte*>(pointer) + offset;
}

class Check : public testing::TestWithParam<Collective> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks); }

  using Count =
      std::function<std::size_t(bool calls, const Faulty::Spoil&)>;  // of a call with such a fault
  /// `body` on all ranks, for calls out of place and in place, of several types and roots.
  static void for_each_task(const std::function<void(const Task&, const Count&)>& body) {
    run_ranks(ranks, [&](Communicator& comm, int rank) {
      const Arena arena(symmetric_memory(comm), 4096);
      std::uint32_t seed = 0;
      for (const bool in_place : {false, true})
        for (const DataType type :
             {DataType::i32, DataType::bf16, DataType::u8, DataType::complex_f64}) {
          if (in_place && !has_in_place(GetParam())) continue;
          // Those of bf16 and complex_f64 begin behind an aligned address.
          const std::size_t offset = type == DataType::bf16          ? 2
                                     : type == DataType::complex_f64 ? 8
                                                                     : 0;
          const Call operation{.collective = GetParam(),
                               .type = type,
                               .op = ReduceOp::sum,
                               .root = in_place ? 2 : 1};
          const Task even = make_task(operation, 600, in_place, true, arena, rank, ranks, offset);
          for (const bool uneven : {false, true}) {
            if (uneven && GetParam() != Collective::reduce_scatter) continue;
            const Task task = uneven ? with_uneven_blocks(even) : even;
            SCOPED_TRACE(fmt::format("rank {}, {}, {} place{}", rank, name_of(type),
                                     in_place ? "in" : "out of", uneven ? ", uneven" : ""));
            body(task, [&](bool calls, const Faulty::Spoil& spoil) {
              Faulty contender(comm, arena, calls, spoil);
              return count_wrong(comm, nullptr, contender, task, ++seed);
            });
          }
        }
    });
  }
  /// The last rank that has the buffer.
  static bool is_last(const BufferFacts& buffer, const Task& task) {
    return task.rank == (buffer.root_only ? task.call.root : ranks - 1);
  }

  static constexpr int ranks = 3;
};
std::vector<Collective> those_that_move_data() {
  std::vector<Collective> all(test::collectives.begin(), test::collectives.end());
  all.push_back(Collective::send_recv);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, Check, testing::ValuesIn(those_that_move_data()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// A contender that does nothing lets the others leave before the late rank has come, unless the
/// machine is so busy that none of them is run until then: so it gets several tries.
TEST(Barrier, IsOneOnlyIfItWaitsForAllRanks) {
  constexpr int ranks = 3;
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  run_ranks(ranks, [](Communicator& comm, int rank) {
    const Arena arena(ordinary_memory(comm), 0);
    const Task task = make_task({.collective = Collective::barrier, .type = DataType::u8}, 4096,
                                false, false, arena, rank, ranks);
    EXPECT_EQ(task.call.bytes(), 0U);
    const auto real = make_plait(comm, "barrier", Memory::ordinary, arena, {});
    EXPECT_EQ(count_wrong(comm, nullptr, *real, task, 1), 0U);
    Missing missing(arena);
    std::size_t early = 0;
    for (int tries = 0; early == 0 && tries < 100; ++tries)
      early = count_wrong(comm, nullptr, missing, task, 1);
    EXPECT_GT(early, 0U);
  });
}

TEST_P(Check, FindsNothingWhereAllIsRight) {
  for_each_task([](const Task&, const Count& count) { EXPECT_EQ(count(true, {}), 0u); });
}

TEST_P(Check, SeesACallThatDoesNothing) {
  for_each_task([](const Task& task, const Count& count) {
    const std::size_t wrong = count(false, {});
    // In place, the block that a rank has from itself is there already. Some other bytes are right
    // by chance, because the numbers are small.
    const CollectiveFacts facts = facts_of(task.call.collective);
    const bool moves_own = !facts.reduces && task.call.collective != Collective::send_recv;
    const std::size_t blocks = facts.recv.size == BufferFacts::Size::one_per_rank ? ranks : 1,
                      receivers = facts.recv.root_only ? 1 : ranks;
    // Nothing is the right thing for rank 0 of an exclusive scan, and in place for that of a scan.
    const std::size_t idle = task.call.collective == Collective::exscan ||
                                     (task.call.collective == Collective::scan && task.in_place)
                                 ? 1
                                 : 0;
    const std::size_t own = !moves_own ? 0 : facts.rooted ? 1 : ranks;
    EXPECT_GE(wrong, task.call.count * (blocks * receivers - own - idle) * 3 / 4);
  });
}

TEST_P(Check, SeesOneBitOfTheOutput) {
  for_each_task([](const Task& task, const Count& count) {
    const BufferFacts recv = facts_of(task.call.collective).recv;
    const auto spoilt_at = [&](std::ptrdiff_t offset) {
      return count(true, [&, offset](Backend& backend, const Task& of) {
        if (is_last(recv, of)) flip(backend, at(of.recv, offset));
      });
    };
    const auto size = static_cast<std::ptrdiff_t>(size_of(task.call.type)),
               bytes = static_cast<std::ptrdiff_t>(recv_bytes(task.call));
    EXPECT_EQ(spoilt_at(0), 1u);
    EXPECT_EQ(spoilt_at(bytes - size), 1u);
    EXPECT_EQ(spoilt_at(bytes / 2 / size * size), 1u);
  });
}

TEST_P(Check, SeesAByteBesideTheOutput) {
  for_each_task([](const Task& task, const Count& count) {
    const CollectiveFacts facts = facts_of(task.call.collective);
    if (task.in_place && send_bytes(task.call) > recv_bytes(task.call))
      return;  // there it is input
    const auto bytes = static_cast<std::ptrdiff_t>(recv_bytes(task.call));
    for (const std::ptrdiff_t offset : {std::ptrdiff_t{-1}, bytes})
      EXPECT_EQ(count(true,
                      [&](Backend& backend, const Task& of) {
                        if (is_last(facts.recv, of)) flip(backend, at(of.recv, offset));
                      }),
                1u)
          << offset;
  });
}

TEST_P(Check, SeesAnInputThatHasChanged) {
  for_each_task([](const Task& task, const Count& count) {
    if (task.in_place) return;
    EXPECT_EQ(count(true,
                    [&](Backend& backend, const Task& of) {
                      const BufferFacts send = facts_of(of.call.collective).send;
                      if (is_last(send, of))
                        flip(backend, at(of.send, static_cast<std::ptrdiff_t>(
                                                      of.send_bytes() - size_of(of.call.type))));
                    }),
              1u);
  });
}

}  // namespace
}  // namespace plait::bench
