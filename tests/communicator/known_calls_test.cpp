// Calls that are made again: the communicator repeats what it launched for them, as long as that
// is still right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "communicator/communicator_state.hpp"
#include "fault/deadline.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t count = 300;
constexpr std::size_t bytes = count * sizeof(int);

/// What a rank sends in a round: other values in each place, so that a launch which repeats an
/// address of another call gives something else.
std::vector<int> sent(int round, int rank, std::size_t size = count) {
  std::vector<int> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = element<int>(static_cast<std::uint64_t>(round), rank, i, ReduceOp::sum);
  return values;
}

/// Device memory of one rank, read and written through the communicator's stream.
class Numbers {
 public:
  Numbers(Backend& backend, std::size_t size)
      : backend_(backend), owned_(backend.allocate(size * sizeof(int))), at_(owned_), size_(size) {}
  Numbers(Backend& backend, void* memory, std::size_t size)
      : backend_(backend), at_(memory), size_(size) {}
  ~Numbers() {
    if (owned_ != nullptr) backend_.deallocate(owned_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  int* data() const { return static_cast<int*>(at_); }
  /// With what the rank sends in that round.
  void fill(int round, int rank) {
    const std::vector<int> values = sent(round, rank, size_);
    move(at_, values.data());
  }
  std::vector<int> read() const {
    std::vector<int> values(size_);
    move(values.data(), at_);
    return values;
  }

 private:
  void move(void* to, const void* from) const {
    backend_.copy(to, from, size_ * sizeof(int), nullptr);
    backend_.synchronize(nullptr);
  }
  Backend& backend_;
  void* owned_ = nullptr;
  void* at_;
  std::size_t size_;
};

class Known : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
  int ranks() const { return GetParam(); }
  /// What `sent` comes to.
  std::vector<int> reduced(int round, std::size_t size = count, ReduceOp op = ReduceOp::sum) const {
    std::vector<int> values(size);
    for (std::size_t i = 0; i < size; ++i)
      values[i] =
          static_cast<int>(expected<int>(static_cast<std::uint64_t>(round), ranks(), i, op, 1));
    return values;
  }

  static void enqueue(CommunicatorState& state, const Call& call, const void* send, void* recv,
                      const CallOptions& options = {}) {
    state.collectives.call({.call = call, .send = send, .recv = recv, .options = options}, {});
  }
  /// `body(state)` for the inside of a communicator on each rank.
  void run_states(const std::function<void(CommunicatorState&)>& body) const {
    auto bootstraps = make_thread_bootstraps(ranks());
    on_threads(ranks(), [&](int rank) {
      auto& bootstrap = bootstraps[static_cast<std::size_t>(rank)];
      CommunicatorState state(std::move(bootstrap), test_options());
      const DeviceScope device(*state.resources.backend);
      body(state);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, Known, testing::Values(1, 2, 3),
                         [](const auto& test) { return "n" + std::to_string(test.param); });

using KnownByOthers = Known;
INSTANTIATE_TEST_SUITE_P(All, KnownByOthers, testing::Values(2, 3),
                         [](const auto& test) { return "n" + std::to_string(test.param); });

const Call sum_of_ints{.collective = Collective::all_reduce, .type = DataType::i32, .count = count};

/// The first call is noted, the second one kept; from the third on they are repeated. Statistics
/// don't tell the difference.
TEST_P(Known, CallsAreRepeatedFromTheThirdOn) {
  run_states([&](CommunicatorState& state) {
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count);
    for (int round = 1; round <= 6; ++round) {
      send.fill(round, state.resources.rank());
      enqueue(state, sum_of_ints, send.data(), recv.data());
      state.synchronize({});
      ASSERT_EQ(recv.read(), reduced(round)) << round;
      EXPECT_EQ(state.path.repeated_calls(), static_cast<unsigned>(round < 3 ? 0 : round - 2));
    }
    EXPECT_EQ(state.path.statistics().calls, 6U);
    EXPECT_EQ(state.path.statistics().launches, 6U);
  });
}

/// Each of these differs in one thing from the call that is known.
TEST_P(Known, ACallThatDiffersIsAnother) {
  run_states([&](CommunicatorState& state) {
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count),
        other(*state.resources.backend, count);
    send.fill(1, state.resources.rank());
    other.fill(2, state.resources.rank());
    const auto call = [&](const Call& wanted, const Numbers& from, Numbers& to,
                          const CallOptions& options = {}) {
      enqueue(state, wanted, from.data(), to.data(), options);
      state.synchronize({});
      return to.read();
    };
    for (int i = 0; i < 3; ++i) ASSERT_EQ(call(sum_of_ints, send, recv), reduced(1));
    ASSERT_EQ(state.path.repeated_calls(), 1U);

    Call differs = sum_of_ints;
    differs.op = ReduceOp::max;
    EXPECT_EQ(call(differs, send, recv), reduced(1, count, ReduceOp::max));
    differs.op = ReduceOp::prod;
    EXPECT_EQ(call(differs, send, recv), reduced(1, count, ReduceOp::prod));
    differs = sum_of_ints;
    differs.count = count - 1;
    std::vector<int> wanted = reduced(1);
    wanted.back() = reduced(1, count, ReduceOp::prod).back();
    EXPECT_EQ(call(differs, send, recv), wanted);
    EXPECT_EQ(call(sum_of_ints, other, recv), reduced(2));
    Numbers elsewhere(*state.resources.backend, count);
    EXPECT_EQ(call(sum_of_ints, send, elsewhere), reduced(1));
    EXPECT_EQ(call(sum_of_ints, send, recv, {.algorithm = "oneshot_ll"}), reduced(1));
    EXPECT_EQ(call(sum_of_ints, send, recv, {.blocks = 1}), reduced(1));
    differs = sum_of_ints;
    differs.collective = Collective::broadcast;
    differs.root = ranks() - 1;
    EXPECT_EQ(call(differs, send, recv), sent(1, ranks() - 1));
    if (ranks() > 1) {
      differs.root = 0;
      EXPECT_EQ(call(differs, send, recv), sent(1, 0));
    }
    EXPECT_EQ(state.path.repeated_calls(), 1U);
    EXPECT_EQ(call(sum_of_ints, send, recv), reduced(1));
    EXPECT_EQ(state.path.repeated_calls(), 2U) << "one that came between is taken for it";
    // One that is refused is refused each time, beside the one that is known.
    for (int i = 0; i < 4; ++i)
      expect_error(error_of([&] { call(sum_of_ints, send, recv, {.algorithm = "nothing"}); }),
                   ErrorCode::invalid_argument, HasSubstr("nothing"));
  });
}

/// Calls in turns: as many as have room, and more.
TEST_P(Known, ManyCallsInTurns) {
  for (const std::size_t calls : {std::size_t{20}, std::size_t{200}})
    run_states([&](CommunicatorState& state) {
      Numbers send(*state.resources.backend, calls), recv(*state.resources.backend, calls);
      for (int round = 1; round <= 5; ++round) {
        send.fill(round, state.resources.rank());
        recv.fill(0, state.resources.rank());
        Call one = sum_of_ints;
        one.count = 1;
        for (std::size_t i = 0; i < calls; ++i)
          enqueue(state, one, send.data() + i, recv.data() + i);
        state.synchronize({});
        ASSERT_EQ(recv.read(), reduced(round, calls)) << round;
      }
      EXPECT_EQ(state.path.statistics().calls, 5 * calls);
      EXPECT_EQ(state.path.statistics().launches, 5 * calls);
      // Addresses differ from run to run, and so do the sets in which the calls meet.
      EXPECT_LE(state.path.repeated_calls(), 3 * calls);
      if (calls == 20) {
        EXPECT_GT(state.path.repeated_calls(), 2 * calls);
      }
    });
}

/// Messages of a call to the next rank and from the one before, to the rank itself, and empty ones.
TEST_P(Known, Messages) {
  run_states([&](CommunicatorState& state) {
    const int n = ranks(), next = (state.resources.rank() + 1) % n,
              before = (state.resources.rank() + n - 1) % n;
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count),
        own(*state.resources.backend, count);
    const std::vector<MessageEnd> ends = {
        {.sends = true, .peer = next, .buffer = send.data(), .count = count, .always = true},
        {.sends = true, .peer = next, .buffer = nullptr, .count = 0, .always = true},
        {.sends = true, .peer = state.resources.rank(), .buffer = send.data(), .count = 7},
        {.sends = true, .peer = proc_null, .buffer = nullptr, .count = 7},
        {.sends = false, .peer = before, .buffer = recv.data(), .count = count, .always = true},
        {.sends = false, .peer = before, .buffer = nullptr, .count = 0, .always = true},
        {.sends = false, .peer = state.resources.rank(), .buffer = own.data(), .count = 7},
    };
    for (int round = 1; round <= 5; ++round) {
      send.fill(round, state.resources.rank());
      own.fill(0, state.resources.rank());
      state.messages.call("test",
                          {.call = {.collective = Collective::send_recv, .type = DataType::i32},
                           .ends = ends,
                           .options = {}},
                          {});
      state.synchronize({});
      ASSERT_EQ(recv.read(), sent(round, before)) << round;
      std::vector<int> wanted = sent(0, state.resources.rank());
      const std::vector<int> mine = sent(round, state.resources.rank(), 7);
      std::copy(mine.begin(), mine.end(), wanted.begin());
      ASSERT_EQ(own.read(), wanted) << round;
      EXPECT_EQ(state.path.repeated_calls(), static_cast<unsigned>(round < 3 ? 0 : round - 2));
    }
    EXPECT_EQ(state.path.statistics().calls, 5U);
    EXPECT_EQ(state.path.statistics().launches, 5U);
    EXPECT_EQ(state.path.statistics().in_arguments.launches, 5U)
        << "four ends have work of their own";
    // To another peer it is another call.
    std::vector<MessageEnd> back = ends;
    for (MessageEnd& end : back)
      if (end.peer == (end.sends ? next : before)) end.peer = end.sends ? before : next;
    state.messages.call("test",
                        {.call = {.collective = Collective::send_recv, .type = DataType::i32},
                         .ends = back,
                         .options = {}},
                        {});
    state.synchronize({});
    EXPECT_EQ(recv.read(), sent(5, next));
  });
}

/// The symmetric memory of a known call is freed, and other symmetric memory comes in its place.
TEST_P(Known, SymmetricMemoryThatIsFreed) {
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    for (int round = 1; round <= 5; ++round) {
      const auto data = comm.allocate<int>(count);
      Numbers numbers(backend_of(comm), data.data(), count);
      for (int again = 0; again < 4; ++again) {
        numbers.fill(4 * round + again, rank);
        comm.all_reduce(data.data(), data.data(), count, DataType::i32, ReduceOp::sum);
        comm.synchronize();
        ASSERT_EQ(numbers.read(), reduced(4 * round + again)) << round;
      }
    }
  });
}

/// Ordinary memory comes where symmetric memory was when the call became known. The peers have no
/// way into that.
TEST_P(Known, OrdinaryMemoryWhereSymmetricMemoryWas) {
  if (target() != BackendKind::host) GTEST_SKIP() << "addresses can be chosen on the host alone";
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    constexpr std::size_t size = std::size_t{1} << 16;
    int* at = nullptr;
    const auto call = [&] {
      comm.all_reduce(at, at, count, DataType::i32, ReduceOp::sum, {}, {.algorithm = "twoshot"});
    };
    {
      const auto data = comm.allocate<std::byte>(size);
      at = reinterpret_cast<int*>(data.data());
      Numbers numbers(backend_of(comm), at, count);
      for (int again = 0; again < 4; ++again) {
        numbers.fill(again, rank);
        call();
        comm.synchronize();
        ASSERT_EQ(numbers.read(), reduced(again));
      }
    }
    comm.bootstrap().barrier();  // all ranks have unmapped it
    auto* const page =
        reinterpret_cast<std::byte*>(at) - (reinterpret_cast<std::uintptr_t>(at) & 0xfffu);
    void* const mapped = mmap(page, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    const auto all = comm.bootstrap().all_gather(mapped == page ? 1 : 0);
    for (const int there : all) ASSERT_EQ(there, 1) << "the addresses are in use";
    for (int again = 0; again < 4; ++again)
      expect_error(error_of(call), ErrorCode::unsupported, HasSubstr("symmetric"));
    comm.bootstrap().barrier();
    munmap(mapped, size);
  });
}

/// `reserve` moves the memory of messages on GPUs, so what was launched before may not be right.
TEST_P(Known, ScratchMemoryThatIsGrantedAgain) {
  run_states([&](CommunicatorState& state) {
    Numbers send(*state.resources.backend, count), recv(*state.resources.backend, count);
    const auto call = [&](int round) {
      send.fill(round, state.resources.rank());
      enqueue(state, sum_of_ints, send.data(), recv.data());
      state.synchronize({});
      ASSERT_EQ(recv.read(), reduced(round));
    };
    for (int round = 1; round <= 3; ++round) call(round);
    EXPECT_EQ(state.path.repeated_calls(), 1U);
    state.reserve();
    call(4);
    EXPECT_EQ(state.path.repeated_calls(), 1U);
    for (int round = 5; round <= 7; ++round) call(round);  // call 4 was kept at once
    EXPECT_EQ(state.path.repeated_calls(), 4U);
  });
}

/// The parts of an uneven reduce-scatter are known each by itself, and together they overlap.
TEST(KnownCalls, PartsThatMayNotComeTogether) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [&](Communicator& comm, int rank) {
    Numbers send(backend_of(comm), 5);
    int* const begin = send.data();
    int* const to = begin + 2;  // rank 1's own block, and on rank 0 another's
    for (int round = 0; round < 4; ++round)
      for (int root = 0; root < 2; ++root)
        comm.reduce(begin + 2 * root, to, root == 0 ? 2 : 3, DataType::i32, ReduceOp::sum, root);
    comm.synchronize();
    const std::array<std::size_t, 2> counts{2, 3};
    if (rank == 0)
      expect_error(
          error_of([&] { comm.reduce_scatter_v(begin, counts, to, DataType::i32, ReduceOp::sum); }),
          ErrorCode::invalid_argument,
          testing::AllOf(HasSubstr("reduce_scatter_v: rank 0: the block of rank"),
                         HasSubstr("use the same memory")));
  });
}

TEST_P(Known, InAGraph) {
  run_ranks(ranks(), [&](Communicator& comm, int rank) {
    Backend& backend = backend_of(comm);
    Numbers send(backend, count), recv(backend, count);
    const Stream stream = comm.create_stream();
    const auto call = [&] {
      comm.all_reduce(send.data(), recv.data(), count, DataType::i32, ReduceOp::sum, stream);
    };
    for (int round = 0; round < 3; ++round) call();
    comm.synchronize(stream);
    backend.begin_capture(stream.native());
    call();
    const auto graph = backend.end_capture(stream.native());
    for (int round = 1; round <= 3; ++round) {
      send.fill(round, rank);
      graph->launch(stream.native());
      comm.synchronize(stream);
      ASSERT_EQ(recv.read(), reduced(round));
      send.fill(10 + round, rank);
      call();
      comm.synchronize(stream);
      ASSERT_EQ(recv.read(), reduced(10 + round));
    }
  });
}

/// What a stream, a group or a broken communicator forbid is forbidden for known calls, too.
TEST_P(Known, IsRefusedAsAnyOther) {
  run_ranks(ranks(), [&](Communicator& comm, int) {
    Numbers send(backend_of(comm), count), recv(backend_of(comm), count);
    const auto call = [&](StreamRef stream, const CallOptions& options = {}) {
      comm.all_reduce(send.data(), recv.data(), count, DataType::i32, ReduceOp::sum, stream,
                      options);
    };
    for (int round = 0; round < 4; ++round) call({}, {.blocking = true});
    NativeStream gone = nullptr;
    {
      const Stream stream = comm.create_stream();
      gone = stream.native();
      for (int round = 0; round < 3; ++round) call(stream);
      comm.synchronize(stream);
      if (target() == BackendKind::host) {
        backend_of(comm).begin_capture(gone);
        expect_error(error_of([&] { call(stream, {.blocking = true}); }),
                     ErrorCode::invalid_argument, HasSubstr("a stream that is being captured"));
        backend_of(comm).end_capture(gone);
      }
    }
    if (target() == BackendKind::host)
      expect_error(error_of([&] { call({static_cast<CUstream_st*>(gone)}); }),
                   ErrorCode::invalid_argument, HasSubstr("is no stream"));
    {
      Group group;
      const Statistics before = comm.statistics();
      call({});
      EXPECT_EQ(comm.statistics().launches, before.launches) << "a group collects its calls";
      group.end();
      EXPECT_EQ(comm.statistics().launches, before.launches + 1);
    }
    comm.synchronize();
    comm.bootstrap().barrier();
    comm.abort("the test says so");
    EXPECT_TRUE(error_of([&] { call({}); }).has_value());
  });
}

/// One rank makes another call in the place of a known one.
TEST_P(KnownByOthers, AMismatchIsNoticed) {
  run_ranks(
      ranks(),
      [&](Communicator& comm, int rank) {
        Numbers send(backend_of(comm), count), recv(backend_of(comm), count);
        const auto call = [&](std::size_t elements) {
          comm.all_reduce(send.data(), recv.data(), elements, DataType::i32, ReduceOp::sum);
        };
        for (int round = 0; round < 4; ++round) call(count);
        comm.synchronize();
        call(rank == 0 ? count - 1 : count);
        const auto error = heard(comm);
        EXPECT_TRUE(error_of([&] { comm.synchronize(); }).has_value());  // nothing uses the buffers
        expect_error(error, ErrorCode::mismatch,
                     testing::AllOf(HasSubstr("call 5"), HasSubstr("299"), HasSubstr("300")));
      },
      impatient());
}

/// The kernel that waits in vain says which call it is.
TEST_P(KnownByOthers, ATimeoutNamesTheCall) {
  run_ranks(
      ranks(),
      [&](Communicator& comm, int rank) {
        Numbers send(backend_of(comm), count), recv(backend_of(comm), count);
        const auto call = [&] {
          comm.all_reduce(send.data(), recv.data(), count, DataType::i32, ReduceOp::sum);
        };
        for (int round = 0; round < 5; ++round) call();
        comm.synchronize();
        comm.bootstrap().barrier();
        if (rank == 0) return stay(comm);
        call();
        expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
                     testing::AllOf(testing::ContainsRegex("rank 0 .*last call 5, all_reduce"),
                                    HasSubstr("in call 6 ")));
      },
      impatient());
}

/// An algorithm of the program, which counts how often it is asked and lets the library's do the
/// work.
class Asked final : public Algorithm {
 public:
  StaticName name() const override { return "asked"; }
  Collective collective() const override { return Collective::broadcast; }
  std::string_view summary() const override { return "counts its calls"; }
  Support supports(const Call& call, const Topology& topology) const override {
    return library().supports(call, topology);
  }
  Resources resources(const Topology& topology) const override {
    return library().resources(topology);
  }
  SharedResources shared(const Topology& topology) const override {
    return library().shared(topology);
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return library().shapes(call, topology);
  }
  double estimate(const Call&, const Topology&) const override { return 1e9; }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    ++times;
    library().enqueue(call, buffers, shape, context);
  }
  static inline std::atomic<int> times = 0;

 private:
  static const Algorithm& library() {
    return *Registry::instance().find("direct_ll", Collective::broadcast);
  }
};
const AlgorithmRegistration<Asked> asked;

/// Whatever the user passes makes a difference, except for `blocking`.
TEST(KnownCalls, AnswerEqualRequestsAlone) {
  std::array<int, 2> memory{};
  const CallOptions plain{.algorithm = "ring"};
  const MessageEnd end{.sends = true, .peer = 1, .buffer = memory.data(), .count = 1};
  const std::array one_end{end};
  const Request first{.call = sum_of_ints,
                      .send = memory.data(),
                      .recv = memory.data(),
                      .ends = one_end,
                      .options = plain};
  const MemoryState now{.allocations = 3, .grants = 1};
  KnownCall known;
  EXPECT_FALSE(known.answers(first, now)) << "nothing is known yet";
  known.keep(first, now);
  EXPECT_TRUE(known.answers(first, now));
  EXPECT_FALSE(known.answers(first, {.allocations = 4, .grants = 1}));
  EXPECT_FALSE(known.answers(first, {.allocations = 3, .grants = 2}));

  const auto answers = [&](auto change) {
    Request other = first;
    change(other);
    return known.answers(other, now);
  };
  EXPECT_FALSE(answers([&](Request& other) { other.send = &memory[1]; }));
  EXPECT_FALSE(answers([&](Request& other) { other.recv = &memory[1]; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.collective = Collective::scan; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.type = DataType::u32; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.op = ReduceOp::max; }));
  EXPECT_FALSE(answers([](Request& other) { ++other.call.count; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.scale = 2; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.root = 1; }));
  EXPECT_FALSE(answers([](Request& other) { other.call.order = ArrayOrder::last_fastest; }));
  EXPECT_FALSE(answers([](Request& other) { other.ends = {}; }));

  const auto with_end = [&](auto change) {
    std::array ends{end};
    change(ends.front());
    return answers([&](Request& other) { other.ends = ends; });
  };
  EXPECT_TRUE(with_end([](MessageEnd&) {}));
  EXPECT_FALSE(with_end([](MessageEnd& other) { other.sends = false; }));
  EXPECT_FALSE(with_end([](MessageEnd& other) { other.peer = 2; }));
  EXPECT_FALSE(with_end([&](MessageEnd& other) { other.buffer = &memory[1]; }));
  EXPECT_FALSE(with_end([](MessageEnd& other) { other.count = 2; }));
  EXPECT_FALSE(with_end([&](MessageEnd& other) { other.receiver = memory.data(); }));
  EXPECT_FALSE(with_end([](MessageEnd& other) { other.always = true; }));
  const std::array two_ends{end, end};
  EXPECT_FALSE(answers([&](Request& other) { other.ends = two_ends; }));

  const auto with_options = [&](const CallOptions& options) {
    const Request other{.call = first.call,
                        .send = first.send,
                        .recv = first.recv,
                        .ends = first.ends,
                        .options = options};
    return known.answers(other, now);
  };
  EXPECT_TRUE(with_options({.algorithm = "ring", .blocking = true}));
  EXPECT_FALSE(with_options({}));
  EXPECT_FALSE(with_options({.algorithm = "tree"}));
  EXPECT_FALSE(with_options({.algorithm = "ring", .scale = 2}));
  EXPECT_FALSE(with_options({.algorithm = "ring", .blocks = 1}));
  const CallOptions zero{.scale = 0.0}, negative_zero{.scale = -0.0};
  known.keep({.call = sum_of_ints, .options = zero}, now);
  EXPECT_TRUE(known.answers({.call = sum_of_ints, .options = zero}, now));
  EXPECT_FALSE(known.answers({.call = sum_of_ints, .options = negative_zero}, now));
  known.keep(first, now);
  EXPECT_FALSE(with_options({.algorithm = "ring", .threads = 32}));
  EXPECT_FALSE(with_options({.algorithm = "ring", .symmetric = true}));

  // The symmetric memory of the call is freed.
  auto window = std::make_shared<const char>();
  known.memory.emplace_back(std::shared_ptr<const Window>(window, nullptr));
  EXPECT_TRUE(known.answers(first, now));
  window.reset();
  EXPECT_FALSE(known.answers(first, now));
}

TEST(KnownCalls, TheProgramsAlgorithmsAreAskedEachTime) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [](Communicator& comm, int rank) {
    Numbers send(backend_of(comm), count), recv(backend_of(comm), count);
    for (int round = 1; round <= 5; ++round) {
      send.fill(round, rank);
      comm.broadcast(send.data(), recv.data(), count, DataType::i32, 0, {}, {.algorithm = "asked"});
      comm.synchronize();
      EXPECT_EQ(recv.read(), sent(round, 0)) << rank;
    }
  });
  EXPECT_EQ(Asked::times, 2 * 5);
}

}  // namespace
}  // namespace plait::test
