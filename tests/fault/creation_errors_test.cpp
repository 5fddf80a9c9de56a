// Communicators that can't be made or used: wrong settings, ranks that disagree or do not come. And
// memory that is refused: allocations, and buffers that are too short or of the wrong kind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <latch>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fault/refused.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Matcher;
using testing::StartsWith;

/// Every rank tries to make a communicator; all must get this error.
void expect_no_communicator(
    int ranks, ErrorCode code, const Matcher<std::string>& message,
    const std::function<CommunicatorOptions(int)>& options = [](int) { return test_options(); }) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  auto bootstraps = make_thread_bootstraps(ranks);
  on_threads(ranks, [&](int rank) {
    bootstraps[static_cast<std::size_t>(rank)]->set_timeout(std::chrono::seconds(20));
    SCOPED_TRACE(rank);
    expect_error(error_of([&] {
                   Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]),
                                        options(rank));
                 }),
                 code, message);
  });
}

TEST(Communicators, MadeOfNothing) {
  expect_invalid([] { Communicator::create(nullptr); }, "the bootstrap is null");
}

TEST(Communicators, MovedFrom) {
  run_ranks(1, [](Communicator& comm, int) {
    Communicator part = comm.duplicate();
    const Communicator moved = std::move(part);
    float x = 0;
    const auto refused = [](const std::string& call, const std::function<void()>& body) {
      expect_invalid(body, call + ": this communicator was moved from");
    };
    // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): asked for
    refused("rank", [&] { part.rank(); });
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

/// The sentence names the variable, its value and, in the last column, what it should be.
TEST(Settings, MalformedValues) {
  const std::array<std::string, 3> wrong[] = {
      {"PLAIT_ALGO", "rign", "oneshot_ll"}, {"PLAIT_ALGO", "64K=ring", ""},
      {"PLAIT_TIMEOUT", "soon", ""},        {"PLAIT_TIMEOUT", "-1", ""},
      {"PLAIT_TIMEOUT", "0x10", ""},        {"PLAIT_TIMEOUT", "1e10", "from 0 to 1e9"},
      {"PLAIT_TIMEOUT", " 5", ""},          {"PLAIT_TIMEOUT", "0,5", ""},
      {"PLAIT_SCRATCH_BYTES", "lots", ""},  {"PLAIT_CHECK", "yes", ""}};
  for (const auto& [name, value, hint] : wrong) {
    const ScopedEnvironment variable(name, value);
    expect_no_communicator(2, ErrorCode::invalid_argument,
                           AllOf(HasSubstr(name), HasSubstr(value), HasSubstr(hint)), [](int) {
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
  auto bootstraps = make_thread_bootstraps(2);
  // An option by its name: compilers must not warn of the others.
  expect_error(error_of([&] {
                 Communicator::create(std::move(bootstraps[0]),
                                      test_options({.timeout = std::chrono::milliseconds(200)}));
               }),
               ErrorCode::bootstrap,
               AllOf(StartsWith("creating a communicator: "), HasSubstr("rank 1")));
}

/// One rank agrees with itself.
using ErrorsOfSeveral = Errors;
INSTANTIATE_TEST_SUITE_P(All, ErrorsOfSeveral, testing::Values(2, 3), TestName());

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
  run([](Communicator& comm, Arena& arena) {
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

TEST_P(Errors, OrdinaryMemoryForAnAlgorithmThatNeedsSymmetric) {
  for (const bool half : {false, true})  // one of two is not enough
    expect_refused(ErrorCode::unsupported, AllOf(HasSubstr("twoshot"), HasSubstr("symmetric")),
                   [half](Communicator& comm, Arena& arena) {
                     comm.all_reduce(half ? arena.symmetric_send.device() : arena.send.device(),
                                     arena.recv.device(), count, DataType::f32, ReduceOp::sum, {},
                                     {.algorithm = "twoshot"});
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

}  // namespace
}  // namespace plait::test
