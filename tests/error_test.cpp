// Bad input: one clear error, everywhere the same, before anything is enqueued; and a communicator that works afterwards.
#include "plait/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Matcher;

constexpr std::size_t count = 100;

class Errors : public testing::TestWithParam<int> {
 protected:
  using Call = std::function<void(Communicator&, Arena&)>;
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }

  /// Every rank makes `call`, which must throw `code` on all, write nothing and leave the communicator in order.
  void expect_refused(ErrorCode code, const Matcher<std::string>& message, const Call& call) const {
    RankGroup::cached(GetParam()).run([&](Communicator& comm, Arena& arena) {
      for (DeviceArray* array : {&arena.send, &arena.recv, &arena.symmetric_send, &arena.symmetric_recv}) {
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
INSTANTIATE_TEST_SUITE_P(All, Errors, testing::Values(1, 2, 3), [](const auto& test) { return fmt::format("n{}", test.param); });

/// One rank agrees with itself.
using ErrorsOfSeveral = Errors;
INSTANTIATE_TEST_SUITE_P(All, ErrorsOfSeveral, testing::Values(2, 3), [](const auto& test) { return fmt::format("n{}", test.param); });

/// "rank R" for some rank.
Matcher<std::string> names_a_rank() { return testing::ContainsRegex("rank [0-9]"); }

TEST_P(Errors, NullPointers) {
  expect_refused(
      ErrorCode::invalid_argument, AllOf(HasSubstr("all_reduce"), HasSubstr("send"), HasSubstr("null"), HasSubstr("100"), names_a_rank()),
      [](Communicator& comm, Arena& arena) { comm.all_reduce(nullptr, arena.recv.device(), count, DataType::f32, ReduceOp::sum); });
  expect_refused(
      ErrorCode::invalid_argument, AllOf(HasSubstr("recv"), HasSubstr("null"), names_a_rank()),
      [](Communicator& comm, Arena& arena) { comm.all_reduce(arena.send.device(), nullptr, count, DataType::f32, ReduceOp::sum); });
}

TEST_P(Errors, NullPointersWithoutElementsAreFine) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    EXPECT_NO_THROW(comm.all_reduce(nullptr, nullptr, 0, DataType::f32, ReduceOp::sum));
    for (const std::string& algorithm : all_reduce_algorithms())
      EXPECT_NO_THROW(comm.all_reduce(arena.symmetric_send.device(), arena.symmetric_recv.device(), 0, DataType::f32, ReduceOp::sum, {},
                                      {.algorithm = algorithm}))
          << algorithm;
    comm.synchronize();
    check(comm, arena, {.algorithm = {}, .count = 5});
  });
}

TEST_P(Errors, CountOverflow) {
  for (const std::size_t large :
       {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() / 4, std::size_t{1} << 61})
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr(std::to_string(large)), HasSubstr("overflow"), names_a_rank()),
                   [large](Communicator& comm, Arena& arena) {
                     comm.all_reduce(arena.send.device(), arena.send.device(), large, DataType::f64, ReduceOp::sum);
                   });
  expect_refused(ErrorCode::invalid_argument, HasSubstr("overflow"),
                 [](Communicator& comm, Arena&) { comm.allocate<double>(std::numeric_limits<std::size_t>::max() / 4); });
}

TEST_P(Errors, UnknownAlgorithm) {
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("\"rign\""), HasSubstr("oneshot_ll"), HasSubstr("ring")),
                 [](Communicator& comm, Arena& arena) {
                   comm.all_reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, ReduceOp::sum, {},
                                   {.algorithm = "rign"});
                 });
  // Names are those of a collective's own algorithms.
  expect_refused(
      ErrorCode::invalid_argument, AllOf(HasSubstr("\"barrier\""), HasSubstr("all_reduce")), [](Communicator& comm, Arena& arena) {
        comm.all_reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, ReduceOp::sum, {}, {.algorithm = "barrier"});
      });
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("\"ring\""), HasSubstr("broadcast"), HasSubstr("direct_ll")),
                 [](Communicator& comm, Arena& arena) {
                   comm.broadcast(arena.send.device(), arena.recv.device(), count, DataType::f32, 0, {}, {.algorithm = "ring"});
                 });
}

TEST_P(Errors, UnknownTypeOrOperation) {
  for (const int wrong : {data_type_count, 255})
    for (const std::size_t elements : {count, std::size_t{0}})
      expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr(std::to_string(wrong)), HasSubstr("type"), names_a_rank()),
                     [&](Communicator& comm, Arena& arena) {
                       comm.all_reduce(arena.send.device(), arena.recv.device(), elements, static_cast<DataType>(wrong), ReduceOp::sum);
                     });
  for (const int wrong : {reduce_op_count, 255})
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr(std::to_string(wrong)), HasSubstr("operation"), names_a_rank()),
                   [&](Communicator& comm, Arena& arena) {
                     comm.all_reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, static_cast<ReduceOp>(wrong));
                   });
}

TEST_P(Errors, AnOperationATypeLacks) {
  using enum DataType;
  for (const DataType type : {i8, u8, i32, u32, i64, u64})
    expect_refused(ErrorCode::unsupported, AllOf(HasSubstr("premul_sum"), HasSubstr(std::string(name_of(type))), names_a_rank()),
                   [&](Communicator& comm, Arena& arena) {
                     comm.all_reduce(arena.send.device(), arena.recv.device(), count, type, ReduceOp::premul_sum);
                   });
}

TEST_P(Errors, OverlappingBuffers) {
  for (const std::ptrdiff_t shift : {std::ptrdiff_t{1}, static_cast<std::ptrdiff_t>(count) - 1}) {
    const auto call = [shift](Communicator& comm, Arena& arena, bool up) {
      auto* base = static_cast<float*>(arena.send.device());
      comm.all_reduce(up ? base : base + shift, up ? base + shift : base, count, DataType::f32, ReduceOp::sum);
    };
    for (const bool up : {true, false})
      expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("overlap"), names_a_rank()),
                     [&](Communicator& comm, Arena& arena) { call(comm, arena, up); });
  }
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {  // side by side is fine
    arena.send.place(0, 2 * count * sizeof(float));
    arena.send.upload({});
    auto* base = static_cast<float*>(arena.send.device());
    EXPECT_NO_THROW(comm.all_reduce(base, base + count, count, DataType::f32, ReduceOp::sum));
    comm.synchronize();
  });
}

TEST_P(Errors, RootsOutOfRange) {
  const int ranks = GetParam();
  for (const int root : {-1, ranks, 1000000}) {
    const auto message = AllOf(HasSubstr("root " + std::to_string(root)), HasSubstr(std::to_string(ranks - 1)), names_a_rank());
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("broadcast"), message), [&](Communicator& comm, Arena& arena) {
      comm.broadcast(arena.send.device(), arena.recv.device(), count, DataType::f32, root);
    });
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("reduce"), message), [&](Communicator& comm, Arena& arena) {
      comm.reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, ReduceOp::sum, root);
    });
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("gather"), message), [&](Communicator& comm, Arena& arena) {
      comm.gather(arena.send.device(), arena.recv.device(), 1, DataType::f32, root);
    });
    expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("scatter"), message), [&](Communicator& comm, Arena& arena) {
      comm.scatter(arena.send.device(), arena.recv.device(), 1, DataType::f32, root);
    });
  }
}

/// Of buffers of several blocks, one may lie in the other at one place alone.
TEST_P(Errors, BlocksThatOverlap) {
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("all_gather"), HasSubstr("overlap"), HasSubstr("block"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   auto* recv = static_cast<float*>(arena.send.device());
                   comm.all_gather(recv + 2 * comm.rank() + 1, recv, 2, DataType::f32);
                 });
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("reduce_scatter"), HasSubstr("overlap"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   auto* send = static_cast<float*>(arena.send.device());
                   comm.reduce_scatter(send, send + 2 * comm.rank() + 1, 2, DataType::f32, ReduceOp::sum);
                 });
}

TEST_P(Errors, BlocksThatOverflow) {
  // Alone they would fit.
  const std::size_t large = std::numeric_limits<std::size_t>::max() / 4 / sizeof(double) / static_cast<unsigned>(GetParam()) + 1;
  expect_refused(
      ErrorCode::invalid_argument, AllOf(HasSubstr(std::to_string(large)), HasSubstr("overflow"), names_a_rank()),
      [&](Communicator& comm, Arena& arena) { comm.all_to_all(arena.send.device(), arena.recv.device(), large, DataType::f64); });
}

TEST_P(Errors, SpansThatDoNotFit) {
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("all_gather"), HasSubstr("4 elements"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   auto* recv = static_cast<float*>(arena.recv.device());
                   comm.all_gather(std::span<const float>(static_cast<float*>(arena.send.device()), 4),
                                   std::span(recv, 4 * static_cast<std::size_t>(comm.size()) + 1));
                 });
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("scatter"), names_a_rank()), [](Communicator& comm, Arena& arena) {
    const std::span send(static_cast<float*>(arena.send.device()), 4 * static_cast<std::size_t>(comm.size()) - 1);
    comm.scatter(send, std::span(static_cast<float*>(arena.recv.device()), 4), 0);
  });
}

TEST_P(Errors, MisalignedPointers) {
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("send"), HasSubstr("aligned"), HasSubstr("8"), names_a_rank()),
                 [](Communicator& comm, Arena& arena) {
                   comm.all_reduce(static_cast<std::byte*>(arena.send.device()) + 4, arena.recv.device(), count - 1, DataType::f64,
                                   ReduceOp::sum);
                 });
  expect_refused(
      ErrorCode::invalid_argument, AllOf(HasSubstr("recv"), HasSubstr("aligned"), names_a_rank()), [](Communicator& comm, Arena& arena) {
        comm.all_reduce(arena.send.device(), static_cast<std::byte*>(arena.recv.device()) + 1, count - 1, DataType::bf16, ReduceOp::sum);
      });
}

TEST_P(Errors, OrdinaryMemoryForAnAlgorithmThatNeedsSymmetric) {
  for (const bool half : {false, true})  // one of two is not enough
    expect_refused(ErrorCode::unsupported, AllOf(HasSubstr("twoshot"), HasSubstr("symmetric")), [half](Communicator& comm, Arena& arena) {
      comm.all_reduce(half ? arena.symmetric_send.device() : arena.send.device(), arena.recv.device(), count, DataType::f32, ReduceOp::sum,
                      {}, {.algorithm = "twoshot"});
    });
}

TEST_P(Errors, SpansOfDifferentExtents) {
  expect_refused(ErrorCode::invalid_argument, AllOf(HasSubstr("all_reduce"), HasSubstr("100"), HasSubstr("99")),
                 [](Communicator& comm, Arena& arena) {
                   comm.all_reduce(std::span(static_cast<const float*>(arena.send.device()), count),
                                   std::span(static_cast<float*>(arena.recv.device()), count - 1), ReduceOp::sum);
                 });
}

TEST_P(Errors, LaunchShapesBeyondTheTarget) {
  expect_refused(ErrorCode::invalid_argument, HasSubstr("100000"), [](Communicator& comm, Arena& arena) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), count, DataType::f32, ReduceOp::sum, {},
                    {.algorithm = {}, .threads = 100000});
  });
}

TEST_P(ErrorsOfSeveral, UnequalSizesOfSymmetricMemory) {
  expect_refused(ErrorCode::mismatch, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("1000"), HasSubstr("1024")),
                 [](Communicator& comm, Arena&) { comm.allocate<std::byte>(comm.rank() == 1 ? 1024 : 1000); });
}

TEST_P(Errors, MoreMemoryThanThereIs) {
  expect_refused(ErrorCode::out_of_memory, names_a_rank(),
                 [](Communicator& comm, Arena&) { comm.allocate<std::byte>(std::size_t{1} << 50); });
}

/// Every rank tries to make a communicator; all must get this error.
void expect_no_communicator(
    int ranks, ErrorCode code, const Matcher<std::string>& message,
    const std::function<CommunicatorOptions(int)>& options = [](int) { return test_options(); }) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    bootstraps[static_cast<std::size_t>(rank)]->set_timeout(std::chrono::seconds(20));
    const auto error = error_of([&] { Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options(rank)); });
    EXPECT_TRUE(error.has_value()) << "no error was thrown on rank " << rank;
    if (!error) return;
    EXPECT_EQ(name_of(error->code()), name_of(code)) << error->what();
    EXPECT_THAT(std::string(error->what()), message);
  });
}

TEST(Settings, UnknownAlgorithmInTheEnvironment) {
  const ScopedEnvironment variable("PLAIT_ALGO", "0-64K=oneshot_ll;rign");
  expect_no_communicator(2, ErrorCode::invalid_argument, AllOf(HasSubstr("PLAIT_ALGO"), HasSubstr("rign"), HasSubstr("oneshot_ll")));
}

TEST(Settings, MalformedValues) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"PLAIT_ALGO", "64K=ring"},
                                                                                    {"PLAIT_TIMEOUT", "soon"},
                                                                                    {"PLAIT_TIMEOUT", "-1"},
                                                                                    {"PLAIT_SCRATCH_BYTES", "lots"},
                                                                                    {"PLAIT_CHECK", "yes"}}) {
    const ScopedEnvironment variable(name, value);
    expect_no_communicator(2, ErrorCode::invalid_argument, AllOf(HasSubstr(name), HasSubstr(value)), [](int) {
      auto options = test_options();
      options.timeout.reset();  // so that PLAIT_TIMEOUT counts
      return options;
    });
  }
}

TEST(Settings, UnknownBackend) {
  static_cast<void>(target());  // reads the variable
  const ScopedEnvironment variable("PLAIT_BACKEND", "abacus");
  expect_no_communicator(1, ErrorCode::invalid_argument, AllOf(HasSubstr("abacus"), HasSubstr("host")),
                         [](int) { return CommunicatorOptions{}; });
}

TEST(Settings, ABackendWithoutDevice) {
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip})
    if (device_count(kind) == 0)
      expect_no_communicator(1, ErrorCode::unsupported, HasSubstr(std::string(name_of(kind))), [kind](int) {
        CommunicatorOptions options;
        options.backend = kind;
        return options;
      });
}

TEST(Settings, RanksThatDisagree) {
  expect_no_communicator(3, ErrorCode::mismatch, AllOf(HasSubstr("PLAIT_TIMEOUT"), HasSubstr("rank 2"), HasSubstr("rank 0")), [](int rank) {
    CommunicatorOptions options;
    options.timeout = std::chrono::seconds(rank == 2 ? 11 : 10);
    return test_options(options);
  });
  expect_no_communicator(2, ErrorCode::mismatch, AllOf(HasSubstr("backend"), HasSubstr("rank 1"), HasSubstr("host")), [](int rank) {
    CommunicatorOptions options;
    options.timeout = std::chrono::seconds(10);
    options.backend = rank == 0 ? BackendKind::host : BackendKind::cuda;
    return options;
  });
}

}  // namespace
}  // namespace plait::test
