// The exchange of descriptors between processes, also where one has no room for more.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bootstrap/mpi_world.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"
#include "symm_mem/descriptor_exchange.hpp"

namespace plait {
namespace {

using test::expect_contains;
using test::message_of;

UniqueFd make_memfd(int content) {
  UniqueFd fd(::memfd_create("plait-test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), &content, sizeof content), static_cast<ssize_t>(sizeof content));
  return fd;
}

void exchange_and_check(Bootstrap& bootstrap) {
  const std::vector<UniqueFd> fds =
      exchange_descriptors(bootstrap, make_memfd(10 + bootstrap.rank()));
  ASSERT_EQ(fds.size(), index(bootstrap.size()));
  for (int peer = 0; peer < bootstrap.size(); ++peer) {
    ASSERT_EQ(fds[index(peer)].valid(), peer != bootstrap.rank());
    if (peer == bootstrap.rank()) continue;
    int content = -1;
    EXPECT_EQ(::pread(fds[index(peer)].get(), &content, sizeof content, 0),
              static_cast<ssize_t>(sizeof content));
    EXPECT_EQ(content, 10 + peer);
  }
}

TEST(MpiBootstrap, DescriptorsReachEveryProcess) {
  auto world = make_world();
  for (int round = 0; round < 10; ++round) exchange_and_check(*world);
}

/// For the socket, for the connection, for what comes over it.
class DescriptorLimit : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Left, DescriptorLimit, testing::Values(-1, 0, 1));

TEST_P(DescriptorLimit, OfOneRankFailsOnAll) {
  const int more = GetParam();
  auto world = make_world();
  if (world->size() == 1) GTEST_SKIP() << "needs two ranks";
  exchange_and_check(*world);
  const UniqueFd mine = make_memfd(1);
  rlimit saved{};
  ::getrlimit(RLIMIT_NOFILE, &saved);
  if (world->rank() == 1) {
    const int next =
        ::dup(mine.get());  // the lowest free descriptor: left for the socket, and `more` beyond it
    ::close(next);
    const rlimit tight{static_cast<rlim_t>(next) + 1 + static_cast<rlim_t>(more), saved.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &tight);
  }
  const std::string text =
      message_of(ErrorCode::bootstrap, [&] { exchange_descriptors(*world, mine); });
  ::setrlimit(RLIMIT_NOFILE, &saved);
  const bool binds = more >= 0, connects = more == 0;
  expect_contains(text, !binds     ? "rank 1 can't create a socket"
                        : connects ? "rank 1 can't connect to rank 0"
                                   : "rank 1 can't take the descriptor of ");
  expect_contains(text, "open files reached?");
  exchange_and_check(*world);  // the group is still in order
}

}  // namespace
}  // namespace plait
