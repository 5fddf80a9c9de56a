// Aborts: from any thread, on all ranks, in under a second, whatever the ranks are doing; and what
// is left afterwards works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_algorithm.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

void expect_aborted(const std::optional<Error>& error, const std::string& by) {
  expect_error(error, ErrorCode::aborted, HasSubstr(by));
}

class Abort : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const std::string& algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Abort,
                         testing::Combine(testing::ValuesIn(all_reduce_algorithms()),
                                          testing::Values(3)),
                         TestName());

/// The last rank never calls; rank 0's other thread aborts while its kernels wait.
TEST_P(Abort, EndsCallsUnderWayOnAllRanks) {
  run_ranks(ranks(), patient(), [&](Communicator& comm, int rank) {
    Arena arena(comm);
    void* data = arena.symmetric_send.device();
    comm.bootstrap().barrier();
    const auto call = [&] {
      comm.all_reduce(data, data, 1000, DataType::f32, ReduceOp::max, {},
                      {.algorithm = algorithm()});
    };
    if (rank != ranks() - 1)
      for (int i = 0; i < 20; ++i) call();
    std::thread other;
    if (rank == 0)
      other = std::thread([&] {
        std::this_thread::sleep_for(50ms);
        comm.abort("enough");
      });
    const auto start = Clock::now();
    if (rank != ranks() - 1) static_cast<void>(error_of([&] { comm.synchronize(); }));
    expect_aborted(heard(comm), "rank 0 has aborted the communicator: enough");
    EXPECT_LT(Clock::now() - start, promised);
    if (other.joinable()) other.join();
    expect_aborted(error_of(call), "enough");
    expect_aborted(error_of([&] { comm.barrier(); }), "enough");
  });
}

PLAIT_FOR_RANKS(AbortOf, testing::Values(1, 2, 3, 4));

/// One rank waits for no peer.
PLAIT_FOR_RANKS(AbortOfSeveral, testing::Values(2, 3, 4));

TEST_P(AbortOf, IdleRanks) {
  run_ranks(GetParam(), patient(), [](Communicator& comm, int rank) {
    comm.barrier();
    comm.synchronize();
    if (rank == comm.size() - 1) comm.abort();
    expect_aborted(heard(comm),
                   fmt::format("rank {} has aborted the communicator", comm.size() - 1));
  });
}

/// The last rank never calls; the others are destroying the communicator when it aborts.
TEST_P(AbortOfSeveral, EndsDestruction) {
  constexpr auto late = 200ms;
  run_ranks(GetParam(), [&](Communicator& comm, int rank) {
    const bool aborts = rank == comm.size() - 1;
    if (!aborts) comm.barrier();
    comm.bootstrap().barrier();
    if (aborts) {
      std::this_thread::sleep_for(late);
      return comm.abort("enough");
    }
    const auto start = Clock::now();
    { const Communicator gone = std::move(comm); }
    EXPECT_LT(Clock::now() - start, late + promised);
  });
}

/// They wait for the last rank on the host.
TEST_P(AbortOfSeveral, EndsSetUp) {
  const std::function<void(Communicator&)> steps[] = {
      [](Communicator& comm) { comm.allocate<int>(100); },
      [](Communicator& comm) { comm.duplicate(); },
      [](Communicator& comm) { comm.split(comm.rank() % 2, 0); },
      [](Communicator& comm) { comm.bootstrap().barrier(); }};
  for (const auto& step : steps)
    run_ranks(GetParam(), patient(), [&](Communicator& comm, int rank) {
      comm.bootstrap().barrier();
      const auto start = Clock::now();
      if (rank == comm.size() - 1) comm.abort("enough");
      else expect_aborted(error_of([&] { step(comm); }), "enough");
      EXPECT_LT(Clock::now() - start, promised);
      expect_aborted(error_of([&] { step(comm); }), "enough");
    });
}

TEST_P(AbortOfSeveral, EndsChecks) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  run_ranks(GetParam(), patient(), [&](Communicator& comm, int rank) {
    comm.bootstrap().barrier();
    const auto start = Clock::now();
    if (rank == comm.size() - 1) comm.abort("enough");
    expect_aborted(error_of([&] { comm.barrier(); }), "enough");
    EXPECT_LT(Clock::now() - start, promised);
  });
}

/// Fails the first time on rank 0 when all is checked, like a launch that the runtime refuses.
struct RefusedOnce final : ForwardingAlgorithm {
  RefusedOnce() : ForwardingAlgorithm("refused_once", "oneshot_ll") {}
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    if (context.rank() == 0 && refuses.exchange(false))
      throw Error(ErrorCode::out_of_memory, "the launch was refused");
    ForwardingAlgorithm::enqueue(call, buffers, shape, context);
  }
  static inline std::atomic<bool> refuses = false;
};
const AlgorithmRegistration<RefusedOnce> refused_once;

/// The other ranks count on a call that this one could not enqueue: they must not take its next one
/// for that.
TEST_P(AbortOfSeveral, IsWhatACallMeansThatCannotBeEnqueued) {
  for (const std::size_t grouped : {0u, 1u, 5u}) {
    RefusedOnce::refuses = true;
    run_ranks(GetParam(), patient(), [&](Communicator& comm, int rank) {
      Arena arena(comm);
      auto* const data = static_cast<std::byte*>(arena.symmetric_send.device());
      const auto call = [&](std::size_t i) {
        comm.all_reduce(data + i * 512, data + i * 512, 100, DataType::i32, ReduceOp::sum, {},
                        {.algorithm = "refused_once"});
      };
      const auto first = error_of([&] {
        if (grouped == 0) return call(0);
        const Group group;
        for (std::size_t i = 0; i < grouped; ++i) call(i);
      });
      if (rank == 0)
        expect_error(first, ErrorCode::out_of_memory, HasSubstr("the launch was refused"));
      expect_aborted(heard(comm),
                     "rank 0 has aborted the communicator: a call could not be enqueued: the "
                     "launch was refused");
      expect_aborted(error_of([&] { call(0); }), "the launch was refused");
    });
  }
}

/// A captured launch ends as well, and so does a launch after it.
TEST_P(AbortOfSeveral, Replays) {
  run_ranks(GetParam(), patient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    void* data = arena.symmetric_send.device();
    Backend& backend = backend_of(comm);
    const DeviceScope device(backend);
    Stream stream = comm.create_stream();
    const auto graph = captured(comm, stream, [&] {
      for (int i = 0; i < 5; ++i)
        comm.all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum, stream);
    });
    for (int i = 0; i < 3; ++i) graph->launch(stream.native());
    backend.synchronize(stream.native());
    comm.bootstrap().barrier();
    const auto start = Clock::now();
    if (rank != 0) {
      for (int i = 0; i < 3; ++i) graph->launch(stream.native());
    } else {
      std::this_thread::sleep_for(20ms);
      comm.abort("in a replay");
    }
    static_cast<void>(error_of([&] { comm.synchronize(stream); }));
    expect_aborted(heard(comm), "in a replay");
    graph->launch(stream.native());
    backend.synchronize(stream.native());
    EXPECT_LT(Clock::now() - start, promised);
  });
}

/// The device and its memory are as good as new.
TEST_P(AbortOf, ANewCommunicatorWorks) {
  auto first = make_thread_bootstraps(GetParam()), second = make_thread_bootstraps(GetParam());
  on_threads(GetParam(), [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    Communicator broken = Communicator::create(std::move(first[index]), patient());
    Arena in_broken(broken);
    void* data = in_broken.symmetric_send.device();
    if (rank != 0 || broken.size() == 1)
      broken.all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum);
    broken.bootstrap().barrier();  // a call after the abort would throw
    if (rank == 0) broken.abort();
    static_cast<void>(error_of([&] { broken.synchronize(); }));
    static_cast<void>(heard(broken));
    Communicator comm = Communicator::create(std::move(second[index]), test_options());
    Arena arena(comm);
    for (std::uint64_t i = 0; i < 5; ++i)
      check(comm, arena, {.algorithm = {}, .count = 1000, .symmetric = true, .seed = i});
    comm.bootstrap().barrier();
  });
}

/// Ordinary memory that is gone once it is freed: a late access ends the process.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(data_, bytes_); }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Rank 0 frees its buffers after its call has failed, and only then rank 1 begins the call. Rank
/// 1's stream waits that long for a message of another communicator.
TEST(AbortInOneProcess, PeersReadFreedBuffersNoMore) {
  if (target() != BackendKind::host) GTEST_SKIP() << "GPUs read no ordinary memory of peers";
  constexpr std::size_t count = 1 << 18;
  using Call = std::function<void(Communicator&, void*, void*, StreamRef)>;
  const Call calls[] = {[](Communicator& comm, void* send, void* recv, StreamRef stream) {
                          comm.all_gather(send, recv, count, DataType::f32, stream,
                                          {.algorithm = "pull"});
                        },
                        [](Communicator& comm, void* send, void* recv, StreamRef stream) {
                          comm.all_reduce(send, recv, count, DataType::f32, ReduceOp::sum, stream,
                                          {.algorithm = "pull"});
                        },
                        [](Communicator& comm, void* send, void* recv, StreamRef stream) {
                          const int peer = 1 - comm.rank();
                          comm.send_recv(send, count, peer, recv, count, peer, DataType::f32,
                                         stream, {.algorithm = "pairwise_pull"});
                        }};
  for (const Call& call : calls) {
    auto first = make_thread_bootstraps(2), second = make_thread_bootstraps(2);
    on_threads(2, [&](int rank) {
      const auto index = static_cast<std::size_t>(rank);
      Communicator broken = Communicator::create(std::move(first[index]), patient());
      Communicator other = Communicator::create(std::move(second[index]), patient());
      std::int32_t token = 0;
      Stream stream = broken.create_stream();
      if (rank == 1) other.recv(&token, 1, DataType::i32, 0, stream);
      {
        const Pages send(count * sizeof(float)), recv(2 * count * sizeof(float));
        call(broken, send.data(), recv.data(), stream);
        broken.bootstrap().barrier();
        if (rank == 0) broken.abort("enough");
        expect_aborted(error_of([&] { broken.synchronize(stream); }), "enough");
      }
      if (rank == 0) {
        other.send(&token, 1, DataType::i32, 1);
        other.synchronize();
      }
    });
  }
}

TEST_P(AbortOf, ReachesPartsAndTheirParts) {
  std::atomic<int> past = 0;
  run_ranks(GetParam(), patient(), [&](Communicator& comm, int rank) {
    std::optional<Communicator> half = comm.split(rank % 2, 0);
    Communicator part = half->duplicate();
    Communicator sibling = comm.duplicate();
    comm.bootstrap().barrier();
    if (rank == 0) half->abort("only a half");
    if (rank % 2 == 0) {
      expect_aborted(heard(part), "only a half");
      expect_aborted(heard(*half), "only a half");
    } else {
      std::this_thread::sleep_for(150ms);
      EXPECT_FALSE(half->async_error() || part.async_error());
    }
    EXPECT_FALSE(comm.async_error() || sibling.async_error()) << "an abort goes down, not up";
    comm.bootstrap().barrier();
    ++past;  // an abort ends the barrier on a rank that has not left it yet
    if (rank == comm.size() - 1) {
      while (past != comm.size()) std::this_thread::yield();
      comm.abort("everything");
    }
    expect_aborted(heard(comm), "everything");
    expect_aborted(heard(sibling), "everything");
    if (rank % 2 == 1) expect_aborted(heard(part), "everything");
  });
}

PLAIT_FOR_RANKS(Split, testing::Values(1, 2, 3, 4, 5));

TEST_P(Split, PartsWorkBesideTheWhole) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    std::optional<Communicator> part = comm.split(rank % 2, -rank);
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->size(), (comm.size() + (rank % 2 == 0 ? 1 : 0)) / 2);
    EXPECT_EQ(part->rank(), (comm.size() - 1 - rank) / 2) << "the highest key comes last";
    Arena whole_arena(comm), part_arena(*part);
    for (std::uint64_t i = 0; i < 3; ++i) {
      check(*part, part_arena, {.algorithm = {}, .count = 1000, .seed = i});
      check(comm, whole_arena, {.algorithm = {}, .count = 77, .symmetric = true, .seed = i});
    }
    comm.bootstrap().barrier();
  });
}

TEST_P(Split, NoneForANegativeColour) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    std::optional<Communicator> part = comm.split(rank == 0 ? -1 : 3, rank);
    EXPECT_EQ(part.has_value(), rank != 0);
    EXPECT_EQ(part ? part->size() : comm.size() - 1, comm.size() - 1);
    comm.bootstrap().barrier();
  });
}

TEST_P(Split, PartsOutliveTheWhole) {
  with_bootstraps(GetParam(), [](std::unique_ptr<Bootstrap> bootstrap, int) {
    std::optional<Communicator> whole = Communicator::create(std::move(bootstrap), test_options());
    Communicator part = whole->duplicate();
    whole.reset();
    Arena arena(part);
    check(part, arena, {.algorithm = {}, .count = 500, .symmetric = true});
    part.bootstrap().barrier();
  });
}

}  // namespace
}  // namespace plait::test
