// Communicators that share their devices have no order among each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "communicator/order/pipeline.hpp"
#include "communicator/order/rounds.hpp"
#include "support/data.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

/// Two communicators with the same devices, and a message of each for each kind of launch.
class Pair {
 public:
  Pair(Communicator& first, bool duplicate)
      : first_(first), second_(duplicate ? first.duplicate() : *first.split(0, -first.rank())) {
    for (Side& side : sides_) {
      for (const std::size_t count : {std::size_t{100}, std::size_t{20'000}, large()})
        side.messages.push_back(std::make_unique<Message>(comm(side), count));
      side.stream.emplace(comm(side).create_stream());
    }
    first_.bootstrap().barrier();
  }

  /// Call number `index` of one of the two: mostly small ones.
  void enqueue(int which, std::uint64_t index) {
    Side& side = sides_[which];
    const std::size_t kind = index % 16 == 5 ? 2 : index % 4 == 1 ? 1 : 0;
    (*side.messages[kind])->round(comm(side), *side.stream);
    ++side.rounds[kind];
  }
  void capture_graph(int which) {
    Side& side = sides_[which];
    side.graph = captured(comm(side), *side.stream, [&] {
      for (const auto& message : side.messages) (*message)->round(comm(side), *side.stream);
    });
  }
  void replay(int which) {
    Side& side = sides_[which];
    launch(comm(side), *side.graph, *side.stream);
    for (int& rounds : side.rounds) ++rounds;
  }
  void check(int which) {
    Side& side = sides_[which];
    for (std::size_t kind = 0; kind < 3; ++kind)
      expect_right(comm(side), **side.messages[kind], *side.stream, side.rounds[kind]);
  }
  const Stream& stream(int which) const { return *sides_[which].stream; }
  std::shared_ptr<Backend> device() const { return backend_of(first_).again(); }
  int rank() const { return first_.rank(); }
  void meet() { first_.bootstrap().barrier(); }

 private:
  struct Side {
    int which;
    std::vector<std::unique_ptr<Message>> messages{};
    std::optional<Stream> stream{};
    std::unique_ptr<Graph> graph{};
    int rounds[3] = {};
  };
  Communicator& comm(const Side& side) { return side.which == 0 ? first_ : second_; }

  Communicator& first_;
  Communicator second_;
  Side sides_[2] = {{.which = 0}, {.which = 1}};
};

class TwoCommunicators : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  static int ranks() { return std::get<0>(GetParam()); }
  /// A deadlock ends here as an error.
  static void run(const std::function<void(Pair&)>& body) {
    CommunicatorOptions options;
    options.timeout = under_tsan ? 60s : 15s;
    run_ranks(ranks(), options, [&](Communicator& comm, int) {
      Pair pair(comm, std::get<1>(GetParam()));
      body(pair);
      pair.meet();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, TwoCommunicators,
                         testing::Combine(testing::Values(2, 3, 4), testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("n{}_{}", std::get<0>(test.param),
                                              std::get<1>(test.param) ? "duplicate" : "split");
                         });

/// Calls in one order on one rank and in another on the next.
void in_any_order(const Pair& pair, int each, const std::function<void(int, std::uint64_t)>& call) {
  std::uint64_t done[2] = {};
  const auto enough = static_cast<std::uint64_t>(each);
  for (std::uint64_t turn = 0; done[0] < enough || done[1] < enough; ++turn) {
    const int which = static_cast<int>(turn + static_cast<unsigned>(pair.rank())) %
                      2;  // some of one, then some of the other
    for (auto burst = 1 + hash(7, static_cast<std::uint64_t>(pair.rank()), turn) % 20;
         burst > 0 && done[which] < enough; --burst)
      call(which, done[which]++);
  }
}

TEST_P(TwoCommunicators, NeedNoOrderBetweenThem) {
  run([](Pair& pair) {
    for (int repetition = 0; repetition < 2; ++repetition) {
      in_any_order(pair, many / 2,
                   [&](int which, std::uint64_t index) { pair.enqueue(which, index); });
      pair.check(pair.rank() % 2);
      pair.check(1 - pair.rank() % 2);
    }
  });
}

TEST_P(TwoCommunicators, NeedNoOrderBetweenTheirGraphs) {
  run([](Pair& pair) {
    pair.capture_graph(0);
    pair.capture_graph(1);
    in_any_order(pair, many / 10, [&](int which, std::uint64_t index) {
      if (index % 3 == 2) pair.enqueue(which, index);
      else pair.replay(which);
    });
    pair.check(0);
    pair.check(1);
  });
}

/// One rank is held up in one communicator, so the kernels of its peers wait there, and those
/// behind them. The other goes on.
TEST_P(TwoCommunicators, OneGoesOnWhileTheOtherWaits) {
  run([](Pair& pair) {
    OrderKernel gate(pair.device(), pair.rank());
    pair.meet();
    for (const int waits : {0, 1}) {
      if (pair.rank() == waits) gate.hold(pair.stream(waits));
      const std::uint64_t first =
          waits == 0 ? 0 : 5;  // a small call is the one that waits, or a large one
      for (std::uint64_t i = 0; i < 32; ++i) pair.enqueue(waits, first + i);
      for (std::uint64_t i = 0; i < 32; ++i) pair.enqueue(1 - waits, i);
      pair.check(1 - waits);
      pair.meet();
      if (pair.rank() == waits) gate.open();
      pair.check(waits);
      pair.meet();
    }
  });
}

/// Whether kernels start early depends on it.
TEST(DevicesInUse, CountTheirCommunicators) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  std::shared_ptr<Backend> devices[2] = {};
  run_ranks(2, [&](Communicator& comm, int rank) {
    devices[rank] = backend_of(comm).again();
    const auto expect = [&](int communicators) {
      comm.bootstrap().barrier();
      EXPECT_EQ(devices[rank]->use().communicators, communicators);
      comm.bootstrap().barrier();
    };
    expect(1);
    {
      const Communicator twin = comm.duplicate(), part = *comm.split(0, 0);
      expect(3);
    }
    expect(1);
  });
  for (const auto& device : devices) EXPECT_EQ(device->use().communicators, 0);
}

}  // namespace
}  // namespace plait::test
