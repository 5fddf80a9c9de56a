// The exchange of descriptors between processes, also where one has no room for more.
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/mpi_world.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/resource_limit.hpp"
#include "symm_mem/descriptor_exchange.hpp"

namespace plait {
namespace {

using test::expect_contains;
using test::message_of;

TEST(Processes, DescriptorsReachEveryProcess) {
  auto world = make_world();
  for (int round = 0; round < 10; ++round) exchange_and_check(*world, 10);
}

/// For the socket, for the connection, for what comes over it.
class DescriptorLimit : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Left, DescriptorLimit, testing::Values(-1, 0, 1));

TEST_P(DescriptorLimit, OfOneRankFailsOnAll) {
  const int more = GetParam();
  auto world = make_world();
  if (world->size() == 1) GTEST_SKIP() << "needs two ranks";
  exchange_and_check(*world, 10);
  const UniqueFd mine = make_memfd(1);
  std::optional<test::ResourceLimit> tight;
  if (world->rank() == 1) {
    const int next =
        ::dup(mine.get());  // the lowest free descriptor: left for the socket, and `more` beyond it
    ::close(next);
    tight.emplace(RLIMIT_NOFILE, static_cast<rlim_t>(next + 1 + more));
  }
  const std::string text =
      message_of(ErrorCode::bootstrap, [&] { exchange_descriptors(*world, mine); });
  tight.reset();
  const bool binds = more >= 0, connects = more == 0;
  expect_contains(text, !binds     ? "rank 1 can't create a socket"
                        : connects ? "rank 1 can't connect to rank 0"
                                   : "rank 1 can't take the descriptor of ");
  expect_contains(text, "open files reached?");
  exchange_and_check(*world, 10);  // the group is still in order
}

}  // namespace
}  // namespace plait
