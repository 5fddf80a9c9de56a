// Reductions by a function of the program that fail: refused on GPUs, different on two ranks,
// without memory, and without a rank's terms.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "communicator/host_reductions/host_reducer.hpp"
#include "plait/host_operation.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

const CommunicatorOptions on_the_host{.backend = BackendKind::host};

HostOperation no_op(std::size_t bytes) {
  return {.function = [](const void*, void*, std::size_t, void*) {}, .element_bytes = bytes};
}

TEST(HostOperation, IsRefusedOnGpus) {
  const int from = 0;
  int to = 0;
  for (const BackendKind gpu : {BackendKind::cuda, BackendKind::hip})
    expect_throws(
        ErrorCode::unsupported,
        [&] {
          check_host_operation({Collective::all_reduce, &from, &to, 1, no_op(sizeof to), 0}, 0, gpu,
                               1, 2);
        },
        "all_reduce: rank 1: " + std::string(name_of(gpu)), "docs/adding-an-algorithm.md");
}

TEST(HostOperation, IsComparedWithPlaitCheck) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  run_ranks(2, on_the_host, [](Communicator& comm, int rank) {
    std::array<std::uint32_t, 12> x{};
    // Of equal size together.
    expect_throws(
        ErrorCode::mismatch,
        [&] {
          if (rank == 0) comm.all_reduce(x.data(), x.data(), 6, no_op(8));
          else comm.all_reduce(x.data(), x.data(), 4, no_op(12));
        },
        "rank 1 calls all_reduce of 4 elements of 12 bytes",
        "rank 0 calls all_reduce of 6 elements of 8 bytes");
    expect_throws(
        ErrorCode::mismatch, [&] { comm.reduce(x.data(), x.data(), 6, no_op(8), rank); }, "root 1");
    expect_invalid([&] { comm.all_reduce(x.data(), x.data(), 6, no_op(rank == 1 ? 0 : 8)); },
                   "rank 1: the operation's elements");
    comm.all_reduce(x.data(), x.data(), 6, no_op(8));
    comm.synchronize();
  });
}

/// The other ranks may have begun when a rank finds that it has no memory.
TEST(HostOperation, BreaksTheCommunicatorIfThereIsNoMemory) {
  if (under_tsan) GTEST_SKIP() << "a sanitizer ends the program instead";
  run_ranks(2, on_the_host, [](Communicator& comm, int) {
    std::byte x{};
    const auto error = error_of([&] { comm.all_reduce(&x, &x, 1, no_op(std::size_t{1} << 50)); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("there is no memory for elements of 1125899906842624"));
    EXPECT_TRUE(heard(comm, patience));
  });
}

/// Terms of a rank that did not come are no terms: the function must not see them.
TEST(HostOperation, IsNotCalledWithoutTerms) {
  CommunicatorOptions options = on_the_host;
  options.timeout = std::chrono::milliseconds(300);
  std::atomic<int> seen = 0;
  run_ranks(2, options, [&](Communicator& comm, int rank) {
    const HostOperation op{
        .function = [](const void*, void*, std::size_t,
                       void* calls) { ++*static_cast<std::atomic<int>*>(calls); },
        .element_bytes = 24,
        .context = &seen};
    std::vector<std::byte> x(24 * 5000);
    if (rank == 0)
      for (const std::size_t count : {1, 5000}) comm.all_reduce(x.data(), x.data(), count, op);
    EXPECT_TRUE(heard(comm, patience));
    EXPECT_TRUE(error_of([&] { comm.synchronize(); }));
  });
  EXPECT_EQ(seen, 0);
}

}  // namespace
}  // namespace plait::test
