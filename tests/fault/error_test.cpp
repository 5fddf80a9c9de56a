// Bad input: one clear error, everywhere the same, before anything is enqueued; and a communicator
// that works afterwards.
#include "plait/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "support/by_name.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/mistakes.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Matcher;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t count = 100;

class Errors : public testing::TestWithParam<int> {
 protected:
  using Call = std::function<void(Communicator&, Arena&)>;
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }

  /// Every rank makes `call`, which must throw `code` on all, write nothing and leave the
  /// communicator in order.
  void expect_refused(ErrorCode code, const Matcher<std::string>& message, const Call& call) const {
    RankGroup::cached(GetParam()).run([&](Communicator& comm, Arena& arena) {
      for (DeviceArray* array :
           {&arena.send, &arena.recv, &arena.symmetric_send, &arena.symmetric_recv}) {
        array->place(0, count * 8);
        array->upload({});
      }
      comm.synchronize();
      const auto error = error_of([&] { call(comm, arena); });
      EXPECT_TRUE(error.has_value()) << "no error was thrown";
      if (error) {
        EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
        EXPECT_THAT(std::string(error->what()), message);
      }
      for (DeviceArray* array : {&arena.recv, &arena.symmetric_recv}) {
        array->download({});
        comm.synchronize();
        EXPECT_TRUE(array->untouched());
      }
      EXPECT_FALSE(comm.async_error().has_value());
      check(comm, arena, {.algorithm = {}, .count = 321, .symmetric = true});
      check(comm, arena, {.algorithm = "ring", .count = 321});
    });
  }
};
INSTANTIATE_TEST_SUITE_P(All, Errors, testing::Values(1, 2, 3),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// One rank agrees with itself.
using ErrorsOfSeveral = Errors;
INSTANTIATE_TEST_SUITE_P(All, ErrorsOfSeveral, testing::Values(2, 3),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// "rank R" for some rank.
Matcher<std::string> names_a_rank() { return testing::ContainsRegex("rank [0-9]"); }

/// Every collective, by its own function.
class Mistakes : public testing::TestWithParam<std::tuple<int, Collective>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(std::get<0>(GetParam())); }

  /// Runs `body` on all ranks, with a call in which every rank would be the root. Nothing of what
  /// `body` tries may be enqueued.
  static void on_each_rank(const std::function<void(Communicator&, const Call&, Arena&)>& body) {
    const auto [ranks, collective] = GetParam();
    RankGroup::cached(ranks).run(
        [&, ranks = ranks, collective = collective](Communicator& comm, Arena& arena) {
          const Call call{.collective = collective,
                          .type = DataType::f64,
                          .count = 4,
                          .root = comm.rank(),
                          .parts = parts_of(collective, ranks)};
          for (DeviceArray* array : {&arena.send, &arena.recv}) {
            array->place(0, call.bytes());
            array->upload({});
          }
          comm.synchronize();
          const std::uint64_t calls = comm.statistics().calls;
          body(comm, call, arena);
          EXPECT_EQ(comm.statistics().calls, calls) << "something was enqueued";
          arena.recv.download({});
          comm.synchronize();
          EXPECT_TRUE(arena.recv.untouched());
          EXPECT_FALSE(comm.async_error().has_value());
          check(comm, arena, {.collective = collective, .algorithm = {}, .count = 321});
        });
  }
};
INSTANTIATE_TEST_SUITE_P(All, Mistakes,
                         testing::Combine(testing::Values(1, 2, 3), testing::ValuesIn(collectives)),
                         [](const auto& test) {
                           return fmt::format("n{}_{}", std::get<0>(test.param),
                                              name_of(std::get<1>(test.param)));
                         });

TEST_P(Mistakes, AreRefused) {
  on_each_rank([](Communicator& comm, const Call& call, Arena& arena) {
    for (const Mistake& m :
         mistakes(call, arena.send.device(), arena.recv.device(), comm.rank(), comm.size())) {
      SCOPED_TRACE(m.why);
      expect_error(
          error_of([&] { enqueue_by_name(comm, m.call, m.send, m.recv, StreamRef(), m.options); }),
          m.code,
          AllOf(StartsWith(refused_by(call.collective) + std::to_string(comm.rank()) + ": "),
                HasSubstr(m.why)));
    }
  });
}

TEST_P(Mistakes, OfSpansAreRefused) {
  on_each_rank([](Communicator& comm, const Call& call, Arena& arena) {
    auto* const send = static_cast<double*>(arena.send.device());
    auto* const recv = static_cast<double*>(arena.recv.device());
    const std::size_t sent = send_bytes(call) / sizeof(double),
                      received = recv_bytes(call) / sizeof(double);
    for (const auto& [from, to] : {std::pair(sent + 1, received),
                                   {sent, received + 1},
                                   {sent - 1, received},
                                   {sent, received - 1},
                                   {sent, 0}}) {
      const std::string why = fmt::format("send has {} elements, recv {}", from, to);
      const auto error = error_of([&, from = from, to = to] {
        enqueue_buffers_by_name(comm, call, std::span<const double>(send, from),
                                std::span(recv, to), StreamRef());
      });
      expect_error(error, ErrorCode::invalid_argument,
                   AllOf(StartsWith(refused_by(call.collective)), HasSubstr(why)));
    }
  });
}

TEST_P(Errors, NullPointersWithoutElementsAreFine) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    EXPECT_NO_THROW(comm.all_reduce(nullptr, nullptr, 0, DataType::f32, ReduceOp::sum));
    for (const std::string& algorithm : all_reduce_algorithms())
      EXPECT_NO_THROW(comm.all_reduce(arena.symmetric_send.device(), arena.symmetric_recv.device(),
                                      0, DataType::f32, ReduceOp::sum, {},
                                      {.algorithm = algorithm}))
          << algorithm;
    comm.synchronize();
    check(comm, arena, {.algorithm = {}, .count = 5});
  });
}

TEST_P(Errors, AllocationsThatOverflow) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("allocate"), HasSubstr("overflow")),
                 [](Communicator& comm, Arena&) { comm.allocate<double>(most / 4); });
  for (const std::size_t bytes : {most, most - 1, most / 2})
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr(std::to_string(bytes)), HasSubstr("overflow")),
                   [&](Communicator& comm, Arena&) { comm.allocate_bytes(bytes); });
}

/// All ranks hear of it at once, even those whose own number is right.
TEST_P(ErrorsOfSeveral, AnAllocationThatOverflowsOnOneRank) {
  expect_refused(
      ErrorCode::mismatch,
      AllOf(HasSubstr("rank 1 passed"), HasSubstr("or more"), HasSubstr("rank 0 passed 800 bytes")),
      [](Communicator& comm, Arena&) {
        comm.allocate<double>(comm.rank() == 1 ? std::numeric_limits<std::size_t>::max() / 2 : 100);
      });
}

TEST_P(Errors, BuffersThatEndBeyondSymmetricMemory) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    const auto buffer = comm.allocate<float>(10);
    arena.recv.place(0, count * sizeof(float));
    auto* other = static_cast<float*>(arena.recv.device());
    const auto refused = [&](std::size_t offset, std::size_t bytes,
                             const std::function<void()>& call) {
      expect_error(
          error_of(call), ErrorCode::invalid_argument,
          AllOf(names_a_rank(),
                HasSubstr(fmt::format("offset {} of a symmetric buffer of 40 bytes", offset)),
                HasSubstr(fmt::format("no room for {} bytes", bytes))));
    };
    const auto n = static_cast<std::size_t>(comm.size());
    float* const x = buffer.data();
    refused(0, 44, [&] { comm.all_reduce(x, x, 11, DataType::f32, ReduceOp::sum); });
    refused(4, 40, [&] { comm.all_reduce(x + 1, other, 10, DataType::f32, ReduceOp::sum); });
    refused(36, 8, [&] { comm.all_reduce(other, x + 9, 2, DataType::f32, ReduceOp::sum); });
    refused(0, 44 * n, [&] { comm.gather(other, x, 11, DataType::f32, comm.rank()); });
    refused(8, 40, [&] { comm.send(x + 2, 10, DataType::f32, (comm.rank() + 1) % comm.size()); });
    refused(8, 40, [&] { comm.recv(x + 2, 10, DataType::f32, (comm.rank() + 1) % comm.size()); });
    EXPECT_NO_THROW(comm.all_reduce(x + 1, x + 1, 9, DataType::f32, ReduceOp::sum));
    comm.synchronize();
  });
}

TEST_P(Errors, MessagesThatOverlapAreNamed) {
  expect_refused(
      ErrorCode::invalid_argument,
      AllOf(HasSubstr("send_recv: rank"), HasSubstr("send and recv use the same memory")),
      [](Communicator& comm, Arena& arena) {
        auto* x = static_cast<float*>(arena.send.device());
        comm.send_recv(x, 10, comm.rank(), x + 5, 10, comm.rank(), DataType::f32);
      });
  expect_refused(
      ErrorCode::invalid_argument,
      AllOf(HasSubstr("all_to_all_v: rank"),
            HasSubstr("the block for rank 0 and the block from rank 0 use the same memory")),
      [](Communicator& comm, Arena& arena) {
        std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size())),
            displacements(counts.size());
        counts[0] = 10;
        auto* x = static_cast<float*>(arena.send.device());
        comm.all_to_all_v(x, {counts, displacements}, x + 5, {counts, displacements},
                          DataType::f32);
      });
}

TEST_P(Errors, CopiesFromOrToNowhere) {
  expect_refused(
      ErrorCode::invalid_argument,
      AllOf(HasSubstr("copy: rank"), HasSubstr("to is null, with 10 bytes")),
      [](Communicator& comm, Arena& arena) { comm.copy(nullptr, arena.send.device(), 10); });
  expect_refused(
      ErrorCode::invalid_argument, HasSubstr("from is null, with 10 bytes"),
      [](Communicator& comm, Arena& arena) { comm.copy(arena.send.device(), nullptr, 10); });
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena&) {
    EXPECT_NO_THROW(comm.copy(nullptr, nullptr, 0));
  });
  for (const bool to : {true, false})
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr("copy: rank"), HasSubstr(to ? ": to = " : ": from = "),
                         HasSubstr("offset 8"), HasSubstr("no room for 1000 bytes")),
                   [to](Communicator& comm, Arena& arena) {
                     const Buffer<std::byte> buffer = comm.allocate<std::byte>(1000);
                     if (to) comm.copy(buffer.data() + 8, arena.send.device(), 1000);
                     else comm.copy(arena.send.device(), buffer.data() + 8, 1000);
                   });
}

TEST_P(Errors, TheOptionSymmetricOfASend) {
  expect_refused(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("send: rank"), HasSubstr("`symmetric` is for send_recv")),
                 [](Communicator& comm, Arena& arena) {
                   comm.send(arena.send.device(), count, DataType::f32, 0, {}, {.symmetric = true});
                 });
}

TEST_P(Errors, AnAlgorithmOfAnotherCollective) {
  for (const std::size_t elements : {count, std::size_t{0}})
    expect_refused(ErrorCode::unsupported,
                   AllOf(HasSubstr("\"ring\" serves"), HasSubstr("broadcast, which has"),
                         HasSubstr("direct_ll")),
                   [&](Communicator& comm, Arena& arena) {
                     comm.broadcast(arena.send.device(), arena.recv.device(), elements,
                                    DataType::f32, 0, {}, {.algorithm = "ring"});
                   });
}

/// `explain` checks the call in question as it checks a call that is made.
TEST_P(Errors, ExplainingWhatIsNoCall) {
  struct Wrong {
    plait::Call call;
    const char* why;
    CallOptions options = {};
  };
  for (const Wrong& wrong :
       {Wrong{{.collective = static_cast<Collective>(55), .count = 10}, "55 is no collective"},
        {{.type = static_cast<DataType>(55), .count = 10}, "55 is no data type"},
        {{.op = static_cast<ReduceOp>(55), .count = 10}, "55 is no operation"},
        {{.collective = Collective::broadcast, .count = 10, .root = 99},
         "root 99 is none of the ranks"},
        {{.collective = Collective::reduce, .count = 10, .root = -1},
         "root -1 is none of the ranks"},
        {{.count = std::numeric_limits<std::size_t>::max()}, "overflows"},
        {{.collective = Collective::send_recv, .count = std::size_t{1} << 62}, "overflows"},
        {{.count = 10}, "symmetric", {.symmetric = true}},
        {{.op = ReduceOp::premul_sum, .count = 10, .scale = 2},
         "scale 2 of the call and 3 of the options",
         {.scale = 3}}})
    for (const bool name : {true, false})
      expect_refused(ErrorCode::invalid_argument,
                     AllOf(HasSubstr(wrong.why), names_a_rank(), Not(HasSubstr("\n"))),
                     [&](Communicator& comm, Arena&) {
                       if (name) comm.chosen(wrong.call, wrong.options);
                       else comm.explain(wrong.call, wrong.options);
                     });
  RankGroup::cached(GetParam())
      .run([](Communicator& comm, Arena&) {  // what a collective does not have is not looked at
        EXPECT_NO_THROW(comm.explain({.collective = Collective::all_gather,
                                      .op = ReduceOp::premul_sum,
                                      .count = 10,
                                      .root = 99}));
        EXPECT_NO_THROW(
            comm.explain({.collective = Collective::barrier, .type = static_cast<DataType>(55)}));
        EXPECT_NO_THROW(comm.explain(
            {.collective = Collective::all_gather, .count = 10, .scale = 2}, {.scale = 3}));
      });
}

TEST_P(Errors, TwoScales) {
  expect_refused(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("scale 2 of the call and 3 of the options"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   comm.enqueue({.op = ReduceOp::premul_sum, .count = count, .scale = 2},
                                arena.send.device(), arena.recv.device(), {}, {.scale = 3});
                 });
}

TEST_P(Errors, BuffersSideBySideAreFine) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    arena.send.place(0, 2 * count * sizeof(float));
    arena.send.upload({});
    auto* base = static_cast<float*>(arena.send.device());
    EXPECT_NO_THROW(comm.all_reduce(base, base + count, count, DataType::f32, ReduceOp::sum));
    comm.synchronize();
  });
}

/// If only the root has a buffer, the others may pass anything.
TEST_P(Errors, SpansThatAreNotLookedAt) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    const auto n = static_cast<std::size_t>(comm.size());
    const int root = comm.size() - 1;
    const bool is_root = comm.rank() == root;
    for (DeviceArray* array : {&arena.send, &arena.recv}) array->place(0, 4 * n * sizeof(float));
    auto* send = static_cast<float*>(arena.send.device());
    auto* recv = static_cast<float*>(arena.recv.device());
    const auto anything = [&](float* data, std::size_t wanted) {
      return std::span(data, is_root ? wanted : 3);
    };
    EXPECT_NO_THROW(comm.broadcast(anything(send, 4), std::span(recv, 4), root));
    EXPECT_NO_THROW(comm.reduce(std::span(send, 4), anything(recv, 4), ReduceOp::sum, root));
    EXPECT_NO_THROW(comm.gather(std::span(send, 4), anything(recv, 4 * n), root));
    EXPECT_NO_THROW(comm.scatter(anything(send, 4 * n), std::span(recv, 4), root));
    comm.synchronize();
    if (!is_root) return;
    EXPECT_THROW(comm.gather(std::span(send, 4), std::span<float>(), root), Error);
  });
}

TEST_P(Errors, OrdinaryMemoryForAnAlgorithmThatNeedsSymmetric) {
  for (const bool half : {false, true})  // one of two is not enough
    expect_refused(ErrorCode::unsupported, AllOf(HasSubstr("twoshot"), HasSubstr("symmetric")),
                   [half](Communicator& comm, Arena& arena) {
                     comm.all_reduce(half ? arena.symmetric_send.device() : arena.send.device(),
                                     arena.recv.device(), count, DataType::f32, ReduceOp::sum, {},
                                     {.algorithm = "twoshot"});
                   });
}

/// `explain` shows the algorithm that would run.
TEST_P(Errors, LaunchShapesAreCut) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena&) {
    const auto told = [&](Collective collective, const char* algorithm, std::size_t bytes,
                          unsigned blocks) {
      plait::Call call{.collective = collective, .type = DataType::u8, .count = bytes};
      call.symmetric = true;
      CallOptions options{.algorithm = algorithm, .blocks = blocks};
      options.symmetric = collective == Collective::send_recv;
      return comm.explain(call, options);
    };
    EXPECT_THAT(told(Collective::broadcast, "direct_put", 1000, 5000),
                HasSubstr("takes direct_put with 256 blocks"));
    if (backend_of(comm).info().facts.peer_access) {
      EXPECT_THAT(told(Collective::broadcast, "direct_copy", 1000, 5000),
                  HasSubstr("takes direct_copy with 1 blocks"));
    }
    // Loops over packs count with 32 bits there.
    EXPECT_THAT(told(Collective::broadcast, "direct_put", std::size_t{70} << 30, 1),
                HasSubstr("takes direct_put with 5 blocks"));
    EXPECT_THAT(told(Collective::send_recv, "pairwise_put", std::size_t{70} << 30, 1),
                HasSubstr("takes pairwise_put with 5 blocks"));
  });
}

TEST_P(ErrorsOfSeveral, UnequalSizesOfSymmetricMemory) {
  expect_refused(
      ErrorCode::mismatch,
      AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("1000"), HasSubstr("1024")),
      [](Communicator& comm, Arena&) { comm.allocate<std::byte>(comm.rank() == 1 ? 1024 : 1000); });
}

TEST_P(Errors, MoreMemoryThanThereIs) {
  expect_refused(ErrorCode::out_of_memory, names_a_rank(), [](Communicator& comm, Arena&) {
    comm.allocate<std::byte>(std::size_t{1} << 50);
  });
}

/// Every rank tries to make a communicator; all must get this error.
void expect_no_communicator(
    int ranks, ErrorCode code, const Matcher<std::string>& message,
    const std::function<CommunicatorOptions(int)>& options = [](int) { return test_options(); }) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    bootstraps[static_cast<std::size_t>(rank)]->set_timeout(std::chrono::seconds(20));
    const auto error = error_of([&] {
      Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options(rank));
    });
    EXPECT_TRUE(error.has_value()) << "no error was thrown on rank " << rank;
    if (!error) return;
    EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
    EXPECT_THAT(std::string(error->what()), message);
  });
}

TEST(Communicators, MadeOfNothing) {
  expect_error(error_of([] { Communicator::create(nullptr); }), ErrorCode::invalid_argument,
               HasSubstr("the bootstrap is null"));
}

TEST(Communicators, MovedFrom) {
  run_ranks(1, [](Communicator& comm, int) {
    Communicator part = comm.duplicate();
    const Communicator moved = std::move(part);
    float x = 0;
    const auto refused = [](const std::string& call, const std::function<void()>& body) {
      expect_error(error_of(body), ErrorCode::invalid_argument,
                   HasSubstr(call + ": this communicator was moved from"));
    };
    refused("rank", [&] {
      part.rank();
    });  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): asked for
    refused("all_reduce", [&] { part.all_reduce(&x, &x, 1, DataType::f32, ReduceOp::sum); });
    refused("send", [&] { part.send(&x, 1, DataType::f32, 0); });
    refused("allocate", [&] { part.allocate<float>(1); });
    refused("synchronize", [&] { part.synchronize(); });
    refused("async_error", [&] { part.async_error(); });
    refused("duplicate", [&] { part.duplicate(); });
    const std::span<float> span(&x, 1);
    refused("all_gather", [&] { part.all_gather(span, span); });
  });
}

TEST(Settings, UnknownAlgorithmInTheEnvironment) {
  const ScopedEnvironment variable("PLAIT_ALGO", "0-64K=oneshot_ll;rign");
  expect_no_communicator(
      2, ErrorCode::invalid_argument,
      AllOf(HasSubstr("PLAIT_ALGO"), HasSubstr("rign"), HasSubstr("oneshot_ll")));
}

TEST(Settings, MalformedValues) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"PLAIT_ALGO", "64K=ring"},
                                                        {"PLAIT_TIMEOUT", "soon"},
                                                        {"PLAIT_TIMEOUT", "-1"},
                                                        {"PLAIT_TIMEOUT", "1e10"},
                                                        {"PLAIT_TIMEOUT", "0x10"},
                                                        {"PLAIT_TIMEOUT", " 5"},
                                                        {"PLAIT_TIMEOUT", "0,5"},
                                                        {"PLAIT_SCRATCH_BYTES", "lots"},
                                                        {"PLAIT_CHECK", "yes"}}) {
    const ScopedEnvironment variable(name, value);
    expect_no_communicator(2, ErrorCode::invalid_argument, AllOf(HasSubstr(name), HasSubstr(value)),
                           [](int) {
                             auto options = test_options();
                             options.timeout.reset();  // so that PLAIT_TIMEOUT counts
                             return options;
                           });
  }
}

TEST(Settings, UnknownBackend) {
  static_cast<void>(target());  // reads the variable
  const ScopedEnvironment variable("PLAIT_BACKEND", "abacus");
  expect_no_communicator(1, ErrorCode::invalid_argument,
                         AllOf(HasSubstr("abacus"), HasSubstr("host")),
                         [](int) { return CommunicatorOptions{}; });
}

TEST(Settings, ATimeoutIsToldItsLimit) {
  const ScopedEnvironment variable("PLAIT_TIMEOUT", "1e10");
  expect_no_communicator(1, ErrorCode::invalid_argument, HasSubstr("from 0 to 1e9"), [](int) {
    auto options = test_options();
    options.timeout.reset();
    return options;
  });
}

TEST(Settings, OptionsThatAreNone) {
  for (const bool backend : {true, false})
    expect_no_communicator(
        2, ErrorCode::invalid_argument,
        AllOf(HasSubstr(backend ? "9 is no backend" : "-7 is no device"), names_a_rank()),
        [&](int rank) {
          auto options = test_options();
          if (rank == 1 && backend) options.backend = static_cast<BackendKind>(9);
          if (rank == 1 && !backend) options.device = -7;
          return options;
        });
}

TEST(Settings, ABackendWithoutDevice) {
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip})
    if (device_count(kind) == 0)
      expect_no_communicator(1, ErrorCode::unsupported, HasSubstr(std::string(name_of(kind))),
                             [kind](int) {
                               CommunicatorOptions options;
                               options.backend = kind;
                               return options;
                             });
}

TEST(Settings, RanksThatDisagree) {
  expect_no_communicator(
      3, ErrorCode::mismatch,
      AllOf(HasSubstr("PLAIT_TIMEOUT"), HasSubstr("rank 2"), HasSubstr("rank 0")), [](int rank) {
        CommunicatorOptions options;
        options.timeout = std::chrono::seconds(rank == 2 ? 11 : 10);
        return test_options(options);
      });
  expect_no_communicator(2, ErrorCode::mismatch,
                         AllOf(HasSubstr("backend"), HasSubstr("rank 1"), HasSubstr("host")),
                         [](int rank) {
                           CommunicatorOptions options;
                           options.timeout = std::chrono::seconds(10);
                           options.backend = rank == 0 ? BackendKind::host : BackendKind::cuda;
                           return options;
                         });
}

/// Not the call of the bootstrap that it is made of, which may have a collective's name.
TEST(SetUp, NamesTheCallThatARankDoesNotMake) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const auto expect_named = [](const char* name, const std::function<void(Communicator&)>& call) {
    std::latch failed(2);  // until then the other is there, and in no call
    run_ranks(2, [&](Communicator& comm, int rank) {
      comm.bootstrap().set_timeout(std::chrono::milliseconds(200));
      if (rank == 0)
        expect_error(error_of([&] { call(comm); }), ErrorCode::bootstrap,
                     AllOf(StartsWith(name), HasSubstr("rank 1")));
      failed.arrive_and_wait();
    });
  };
  expect_named("allocate: ", [](Communicator& comm) { comm.allocate<int>(100); });
  expect_named("split: ", [](Communicator& comm) { comm.split(0, 0); });
  auto bootstraps =
      make_thread_bootstraps(2);  // an option by its name: compilers must not warn of the others
  expect_error(error_of([&] {
                 Communicator::create(std::move(bootstraps[0]),
                                      test_options({.timeout = std::chrono::milliseconds(200)}));
               }),
               ErrorCode::bootstrap,
               AllOf(StartsWith("creating a communicator: "), HasSubstr("rank 1")));
}

}  // namespace
}  // namespace plait::test
