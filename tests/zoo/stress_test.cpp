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
  Series(Communicator& comm, DeviceArray& memory, std::size_t calls, std::size_t count)
      : comm_(comm), memory_(memory), calls_(calls), count_(count) {
    memory_.place(0, calls * count * sizeof(T));
    for (std::size_t i = 0; i < calls * count; ++i)
      put(i, element<T>(seed, comm.rank(), i, ReduceOp::sum));
  }
  T* message(std::size_t call) const { return static_cast<T*>(memory_.device()) + call * count_; }
  void upload(StreamRef stream) { memory_.upload(stream); }

  /// After all calls: downloads and compares.
  void check(const std::string& what, StreamRef stream) {
    memory_.download(stream);
    comm_.synchronize(stream);
    for (std::size_t i = 0; i < calls_ * count_; ++i) {
      T got;
      std::memcpy(&got, memory_.image() + i * sizeof(T), sizeof(T));
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
  void put(std::size_t i, T x) { std::memcpy(memory_.image() + i * sizeof(T), &x, sizeof(T)); }

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
                         [](const auto& test) {
                           return fmt::format("{}_n{}", std::get<1>(test.param),
                                              std::get<0>(test.param));
                         });

TEST_P(Stress, BackToBackCallsWithDifferentData) {
  constexpr std::size_t calls = under_tsan ? 60 : 200;
  run([&](Communicator& comm, Arena& arena) {
    for (const std::size_t count : {1u, 37u, 700u}) {
      Series<float> series(comm, arena.symmetric_send, calls, count);
      series.upload({});
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
    words.upload({});
    halves.upload({});
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

/// Captured once, replayed with other data each time, other calls between the replays.
TEST_P(Stress, GraphReplays) {
  constexpr std::size_t replays = under_tsan ? 20 : 60, count = 333;
  run([&](Communicator& comm, Arena& arena) {
    Backend& backend = backend_of(comm);
    const Stream stream = comm.create_stream();
    DeviceArray &messages = arena.symmetric_send, &work = arena.symmetric_recv;
    Series<double> series(comm, messages, replays, count);
    series.upload(stream);
    work.place(0, 3 * count * sizeof(double));
    work.upload(stream);
    auto* input = static_cast<double*>(work.device());
    const CallOptions options{.algorithm = algorithm()};
    comm.synchronize(stream);

    backend.begin_capture(stream.native());
    comm.all_reduce(input, input + count, count, DataType::f64, ReduceOp::sum, stream, options);
    comm.all_reduce(input + count, input + 2 * count, count, DataType::f64, ReduceOp::max, stream,
                    options);  // equal on all ranks: a copy
    const auto graph = backend.end_capture(stream.native());
    for (std::size_t replay = 0; replay < replays; ++replay) {
      backend.copy(input, series.message(replay), count * sizeof(double), stream.native());
      graph->launch(stream.native());
      backend.copy(series.message(replay), input + 2 * count, count * sizeof(double),
                   stream.native());
      if (replay % 3 == 0)
        comm.all_reduce(input, input, 77, DataType::f64, ReduceOp::sum, stream, options);
    }
    series.check(algorithm() + " in a graph", stream);
  });
}

/// Calls go to two streams in turn; each stream's own work stays in order around them.
TEST_P(Stress, TwoStreams) {
  constexpr std::size_t calls = under_tsan ? 30 : 80, count = 211;
  run([&](Communicator& comm, Arena& arena) {
    const Stream a = comm.create_stream(), b = comm.create_stream();
    Series<float> first(comm, arena.symmetric_send, calls, count),
        second(comm, arena.symmetric_recv, calls, count);
    first.upload(a);
    second.upload(b);
    for (std::size_t call = 0; call < calls; ++call) {
      comm.all_reduce(first.message(call), first.message(call), count, DataType::f32, ReduceOp::sum,
                      a, {.algorithm = algorithm()});
      comm.all_reduce(second.message(call), second.message(call), count, DataType::f32,
                      ReduceOp::sum, b, {.algorithm = algorithm()});
    }
    first.check(algorithm() + " on stream a", a);
    second.check(algorithm() + " on stream b", b);
  });
}

}  // namespace
}  // namespace plait::test
