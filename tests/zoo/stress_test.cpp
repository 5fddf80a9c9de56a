// Many calls without a host between them: what goes wrong when buffers, epochs or slots are reused
// too early.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

constexpr std::uint64_t seed = 4711;

/// Messages one after another in one array, each filled with data of its own.
template <class T>
class Series {
 public:
  Series(Communicator& comm, DeviceArray& memory, std::size_t calls, std::size_t count,
         StreamRef stream = {})
      : comm_(comm), memory_(memory), calls_(calls), count_(count) {
    memory_.put<T>(
        calls * count,
        [&](std::size_t i) { return element<T>(seed, comm.rank(), i, ReduceOp::sum); }, stream);
  }
  T* message(std::size_t call) const { return static_cast<T*>(memory_.device()) + call * count_; }

  /// After all calls: downloads and compares.
  void check(const std::string& what, StreamRef stream) {
    memory_.download(stream);
    comm_.synchronize(stream);
    for (std::size_t i = 0; i < calls_ * count_; ++i) {
      const T got = memory_.get<T>(i);
      const auto wanted = expected<T>(seed, comm_.size(), i, ReduceOp::sum, 1);
      bool right = false;
      if constexpr (std::is_integral_v<T>) right = got == wanted;  // f64 can't hold all of 64 bits
      else right = static_cast<double>(widen(got)) == wanted;
      if (right) continue;
      return report(comm_, fmt::format("{}: call {}, element {} is {} instead of {}", what,
                                       i / count_, i % count_, static_cast<double>(widen(got)),
                                       static_cast<double>(wanted)));
    }
  }

 private:
  Communicator& comm_;
  DeviceArray& memory_;
  std::size_t calls_, count_;
};

class Stress : public testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const std::string& algorithm() const { return std::get<1>(GetParam()); }
  int ranks() const { return std::get<0>(GetParam()); }
  /// Threads of a small block on this target.
  static unsigned unit() { return target() == BackendKind::host ? 4 : 64; }
  void run(const RankGroup::Body& body) const { RankGroup::cached(ranks()).run(body); }
};
// Ordered by ranks: a group of communicators is made once for all algorithms, and not before each.
INSTANTIATE_TEST_SUITE_P(All, Stress,
                         testing::Combine(testing::ValuesIn(under_tsan ? std::vector{2, 3, 4}
                                                                       : std::vector{2, 3, 8}),
                                          testing::ValuesIn(all_reduce_algorithms())),
                         TestName());

TEST_P(Stress, BackToBackCallsWithDifferentData) {
  constexpr std::size_t calls = under_tsan ? 60 : 200;
  run([&](Communicator& comm, Arena& arena) {
    for (const std::size_t count : {1u, 37u, 700u}) {
      Series<float> series(comm, arena.symmetric_send, calls, count);
      for (std::size_t call = 0; call < calls; ++call)
        comm.all_reduce(series.message(call), series.message(call), count, DataType::f32,
                        ReduceOp::sum, {}, {.algorithm = algorithm()});
      series.check(algorithm(), {});
    }
  });
}

/// The same buffer over and over: call k + 1 must not read or write it before call k is done on all
/// ranks.
TEST_P(Stress, RepeatedCallsInPlace) {
  constexpr int calls = under_tsan ? 50 : 200;
  run([&](Communicator& comm, Arena& arena) {
    for (const std::size_t count : {1u, 130u, 5001u})
      check_repeated_in_place(comm, arena, count, calls, {.algorithm = algorithm()});
  });
}

/// A message of one full round of packets and one more packet, so that most threads have nothing to
/// do in the last round: a block must not run two rounds ahead of a slow thread of its peer. (It
/// did, before rounds synchronised the block: a hang within some thousand calls.)
TEST_P(Stress, ShortLastRound) {
  constexpr std::size_t packets = 513;
  const int calls = under_tsan ? 60 : ranks() <= 3 ? 1000 : 100;
  run([&](Communicator& comm, Arena& arena) {
    check_repeated_in_place(comm, arena, packets, calls,
                            {.algorithm = algorithm(), .blocks = 1, .threads = unit()});
  });
}

/// Other algorithms, types, sizes and launch shapes between the calls.
TEST_P(Stress, AlternatingCalls) {
  constexpr std::size_t calls = under_tsan ? 40 : 100, count = 401;
  const auto algorithms = all_reduce_algorithms();
  run([&](Communicator& comm, Arena& arena) {
    Series<float> words(comm, arena.symmetric_send, calls, count);
    Series<bf16> halves(comm, arena.symmetric_recv, calls, count);
    for (std::size_t call = 0; call < calls; ++call) {
      const std::uint64_t h = hash(seed, 0, call);  // the same on all ranks
      const auto& other = algorithms[h % algorithms.size()];
      const auto blocks = static_cast<unsigned>((h >> 8) % 5),
                 threads = static_cast<unsigned>((h >> 16) % 4);
      const std::size_t part = 1 + (h >> 24) % (count - 1);  // a call in two chunks
      CallOptions options{.algorithm = h % 2 == 0 ? algorithm() : other,
                          .scale = 1,
                          .blocks = blocks,
                          .threads = threads};
      comm.all_reduce(words.message(call), words.message(call), part, DataType::f32, ReduceOp::sum,
                      {}, options);
      options.algorithm = other;
      comm.all_reduce(halves.message(call), halves.message(call), count, DataType::bf16,
                      ReduceOp::sum, {}, options);
      options = {.algorithm = algorithm(), .scale = 1, .blocks = threads, .threads = blocks};
      comm.all_reduce(words.message(call) + part, words.message(call) + part, count - part,
                      DataType::f32, ReduceOp::sum, {}, options);
      if (h % 7 == 0) comm.barrier();
    }
    words.check(algorithm() + " alternating", {});
    halves.check("the algorithms between " + algorithm(), {});
  });
}

}  // namespace
}  // namespace plait::test
