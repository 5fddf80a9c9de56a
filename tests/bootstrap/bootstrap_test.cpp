// The threads bootstrap, and the exchange of descriptors over it.
#include "plait/bootstrap.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/interfering_bootstrap.hpp"
#include "symm_mem/descriptor_exchange.hpp"
#include "symm_mem/descriptor_letter.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::InterferingBootstrap;
using test::message_of;
using Body = std::function<void(std::unique_ptr<Bootstrap>&)>;

/// Runs `body` on a thread per rank. The pointer is the thread's own: the body may destroy its
/// bootstrap.
void run_ranks(int size, const Body& body, std::chrono::nanoseconds timeout = 60s) {
  auto bootstraps = make_thread_bootstraps(size);
  std::vector<std::thread> threads;
  for (auto& bootstrap : bootstraps) {
    bootstrap->set_timeout(timeout);
    threads.emplace_back([&bootstrap, &body] { body(bootstrap); });
  }
  for (auto& thread : threads) thread.join();
}

class ThreadRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks, testing::Range(1, 9));

TEST_P(ThreadRanks, KnowTheirPlace) {
  const int size = GetParam();
  auto bootstraps = make_thread_bootstraps(size);
  ASSERT_EQ(static_cast<int>(bootstraps.size()), size);
  for (int rank = 0; rank < size; ++rank) {
    const Bootstrap& bootstrap = *bootstraps[static_cast<std::size_t>(rank)];
    EXPECT_EQ(bootstrap.rank(), rank);
    EXPECT_EQ(bootstrap.size(), size);
    EXPECT_EQ(bootstrap.local_rank(), rank);
    EXPECT_EQ(bootstrap.local_size(), size);
    EXPECT_EQ(bootstrap.nodes(), 1);
    EXPECT_EQ(bootstrap.node(), 0);
  }
}

TEST_P(ThreadRanks, GatherManyTimesInRankOrder) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    for (int round = 0; round < 300; ++round) {
      const std::vector<int> all =
          bootstrap->template all_gather<int>(round * 100 + bootstrap->rank());
      for (int peer = 0; peer < bootstrap->size(); ++peer)
        ASSERT_EQ(all[static_cast<std::size_t>(peer)], round * 100 + peer);
    }
    bootstrap->all_gather(nullptr, nullptr, 0);
  });
}

TEST_P(ThreadRanks, GatherInPlace) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    std::vector<int> all(static_cast<std::size_t>(bootstrap->size()), -1);
    int& mine = all[static_cast<std::size_t>(bootstrap->rank())];
    mine = 7 * bootstrap->rank();
    bootstrap->all_gather(&mine, all.data(), sizeof mine);
    for (int peer = 0; peer < bootstrap->size(); ++peer)
      EXPECT_EQ(all[static_cast<std::size_t>(peer)], 7 * peer);
  });
}

TEST_P(ThreadRanks, BroadcastFromEveryRoot) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    for (int root = 0; root < bootstrap->size(); ++root) {
      std::vector<int> data(1000, bootstrap->rank() == root ? root + 5 : -1);
      bootstrap->broadcast(data.data(), data.size() * sizeof(int), root);
      EXPECT_EQ(data, std::vector<int>(1000, root + 5));
    }
  });
}

TEST_P(ThreadRanks, BarrierHoldsEveryRank) {
  std::atomic<int> arrived{0};
  run_ranks(GetParam(), [&](auto& bootstrap) {
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      bootstrap->barrier();
      EXPECT_EQ(arrived.load(), round * bootstrap->size());
      bootstrap->barrier();
    }
  });
}

TEST_P(ThreadRanks, SplitByColorInOrderOfKey) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    const int rank = bootstrap->rank(), size = bootstrap->size();
    for (int round = 0; round < 5; ++round) {
      const int color = rank % 2 == 0 ? -3 : 4;  // any color will do
      auto half = bootstrap->split(color, -rank);
      const int members = rank % 2 == 0 ? (size + 1) / 2 : size / 2;
      ASSERT_EQ(half->size(), members);
      EXPECT_EQ(half->rank(), members - 1 - rank / 2);
      EXPECT_EQ(half->timeout(), bootstrap->timeout());
      const std::vector<int> ranks = half->template all_gather<int>(rank);
      for (int place = 0; place < members; ++place) {
        EXPECT_EQ(ranks[static_cast<std::size_t>(place)], 2 * (members - 1 - place) + rank % 2);
      }
    }
    auto node = bootstrap->split_by_node();
    EXPECT_EQ(node->rank(), rank);
    EXPECT_EQ(node->size(), size);
    bootstrap.reset();  // a part does not need the whole
    node->barrier();
  });
}

TEST(ThreadBootstrap, RefusesBadArguments) {
  expect_contains(message_of(ErrorCode::invalid_argument, [] { make_thread_bootstraps(0); }),
                  "0 ranks");
  auto one = std::move(make_thread_bootstraps(1).front());
  int value = 0;
  expect_contains(
      message_of(ErrorCode::invalid_argument, [&] { one->broadcast(&value, sizeof value, 1); }),
      "root 1");
  expect_contains(message_of(ErrorCode::invalid_argument, [&] { one->broadcast(nullptr, 4, 0); }),
                  "null pointer");
  expect_contains(
      message_of(ErrorCode::invalid_argument, [&] { one->all_gather(&value, nullptr, 4); }),
      "null pointer");
}

TEST(ThreadBootstrap, TimeoutNamesTheMissingRanks) {
  run_ranks(
      5,
      [](auto& bootstrap) {
        bootstrap->barrier();
        if (bootstrap->rank() == 1 || bootstrap->rank() == 4) return;  // present, but never comes
        const std::string text =
            message_of(ErrorCode::bootstrap, [&] { bootstrap->template all_gather<int>(1); });
        expect_contains(text, "Bootstrap::all_gather: rank " + std::to_string(bootstrap->rank()));
        expect_contains(text, "ranks 1, 4 did not arrive");
        expect_contains(text, "0.2 s");
        message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });  // stays broken
      },
      200ms);
}

TEST(ThreadBootstrap, DestroyedRankFailsTheWaiters) {
  run_ranks(4, [](auto& bootstrap) {
    bootstrap->barrier();
    if (bootstrap->rank() == 2) return bootstrap.reset();
    const std::string text = message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });
    expect_contains(text, "Bootstrap::barrier: rank " + std::to_string(bootstrap->rank()));
    expect_contains(text, "rank 2 left");
  });
}

TEST(ThreadBootstrap, LeavingAfterTheLastCallHarmsNobody) {
  for (int round = 0; round < 200; ++round) {
    run_ranks(3, [](auto& bootstrap) {
      bootstrap->barrier();
      bootstrap.reset();
    });
  }
}

TEST(ThreadBootstrap, MismatchIsSeenByAllRanks) {
  run_ranks(3, [](auto& bootstrap) {
    std::array<int, 2> in{};
    std::array<int, 6> out{};
    const std::size_t bytes = bootstrap->rank() == 1 ? 8 : 4;
    const std::string text = message_of(
        ErrorCode::mismatch, [&] { bootstrap->all_gather(in.data(), out.data(), bytes); });
    expect_contains(text, "8 bytes");
    expect_contains(text, "4 bytes");
  });
}

class Conduct : public testing::TestWithParam<test::Conduct> {};
INSTANTIATE_TEST_SUITE_P(Threads, Conduct, testing::ValuesIn(test::bootstrap_conduct()),
                         [](const auto& conduct) { return conduct.param.name; });

TEST_P(Conduct, IsThatOfEveryBootstrap) {
  for (const int size : {3, 4}) {
    std::barrier meeting(size);
    run_ranks(size, [&](auto& bootstrap) {
      GetParam().body(bootstrap, [&] { meeting.arrive_and_wait(); });
    });
  }
}

TEST(ThreadBootstrap, TimeoutIsThatOfTheEnvironment) {
  const auto limit = [] { return make_thread_bootstraps(1).front()->timeout(); };
  EXPECT_EQ(limit(), 10min);
  ::setenv("PLAIT_TIMEOUT", "2.5", 1);
  EXPECT_EQ(limit(), 2500ms);
  ::setenv("PLAIT_TIMEOUT", "soon", 1);
  EXPECT_EQ(limit(), 10min);  // a communicator refuses it
  ::unsetenv("PLAIT_TIMEOUT");
}

/// A memory file that says whose it is.
UniqueFd make_memfd(int content) {
  UniqueFd fd(::memfd_create("plait-test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), &content, sizeof content), static_cast<ssize_t>(sizeof content));
  return fd;
}

int content_of(const UniqueFd& fd) {
  int content = -1;
  EXPECT_EQ(::pread(fd.get(), &content, sizeof content, 0), static_cast<ssize_t>(sizeof content));
  return content;
}

void exchange_and_check(Bootstrap& bootstrap, int salt) {
  const std::vector<UniqueFd> fds =
      exchange_descriptors(bootstrap, make_memfd(salt + bootstrap.rank()));
  ASSERT_EQ(static_cast<int>(fds.size()), bootstrap.size());
  for (int peer = 0; peer < bootstrap.size(); ++peer) {
    const UniqueFd& fd = fds[static_cast<std::size_t>(peer)];
    ASSERT_EQ(fd.valid(), peer != bootstrap.rank());
    if (!fd.valid()) continue;
    EXPECT_EQ(content_of(fd), salt + peer);
    EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

class DescriptorRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, DescriptorRanks, testing::Values(1, 2, 3, 4, 5, 8, 16));

TEST_P(DescriptorRanks, EveryRankGetsEveryOther) {
  const int before = open_descriptors();
  run_ranks(GetParam(), [](auto& bootstrap) {
    for (int round = 0; round < 10; ++round) exchange_and_check(*bootstrap, 1000 * round);
  });
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorExchange, TwoGroupsAtOnce) {
  run_ranks(6, [](auto& bootstrap) {
    auto half = bootstrap->split(bootstrap->rank() % 2, 0);
    for (int round = 0; round < 10; ++round)
      exchange_and_check(*half, 100 * (bootstrap->rank() % 2) + 1000 * round);
  });
}

TEST(DescriptorExchange, BadDescriptorFailsOnAllRanks) {
  run_ranks(3, [](auto& bootstrap) {
    const UniqueFd mine = bootstrap->rank() == 1 ? UniqueFd{} : make_memfd(0);
    const std::string text =
        message_of(ErrorCode::bootstrap, [&] { exchange_descriptors(*bootstrap, mine); });
    expect_contains(text, "rank 1 passed descriptor -1");
    bootstrap->barrier();  // the group is still in order
    exchange_and_check(*bootstrap, 5);
  });
}

/// Connects to the listening sockets of this network namespace that have names by the kernel, as
/// another program of the same user may, and sends two descriptors, a letter with another number,
/// or nothing.
void send_strays() {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.find(" @");
    if (at == std::string::npos || line.size() != at + 2 + 5) continue;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    line.copy(address.sun_path + 1, 5, at + 2);
    for (const int descriptors : {2, 1, 0}) {
      std::array<std::uint64_t, 2> junk{1,
                                        std::uint64_t{1} << 32};  // from rank 0, with a descriptor
      iovec data{junk.data(), sizeof junk};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &data;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = CMSG_LEN(static_cast<std::size_t>(descriptors) * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = message.msg_controllen;  // of descriptors 0 and 0
      const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 6);
      const auto* name = reinterpret_cast<const sockaddr*>(&address);
      // Fails once the rank has all its letters, because then it no longer listens.
      if (::connect(socket.get(), name, length) != 0) continue;
      if (descriptors > 0) (void)::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }
}

TEST(DescriptorExchange, StraysAreDropped) {
  const int before = open_descriptors();
  run_ranks(4, [](auto& bootstrap) {
    InterferingBootstrap interfering(*bootstrap, send_strays);
    exchange_and_check(interfering, 50);
  });
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorExchange, LettersAreChecked) {
  const auto parse = [](const DescriptorLetter& letter) {
    return parse_letter(std::as_bytes(std::span(&letter, 1)), 7, 2, 4);
  };
  const auto letter = parse({7, 3, 1});
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->sender, 3);
  EXPECT_EQ(letter->descriptors, 1);
  EXPECT_TRUE(parse({7, 0, 0}));
  EXPECT_FALSE(parse({8, 3, 1}));  // of another exchange
  EXPECT_FALSE(parse({7, 2, 1}));  // the receiver itself
  EXPECT_FALSE(parse({7, 4, 1}));
  EXPECT_FALSE(parse({7, -1, 1}));
  EXPECT_FALSE(parse({7, 3, 2}));
  const std::array<std::byte, sizeof(DescriptorLetter) + 1> longer{};
  EXPECT_FALSE(parse_letter(longer, 0, 2, 4));
  EXPECT_FALSE(parse_letter({longer.data(), 3}, 0, 2, 4));
  EXPECT_FALSE(parse_letter({}, 0, 2, 4));
}

/// In any wait of an exchange.
TEST(DescriptorExchange, IsInterrupted) {
  for (const bool bound : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    run_ranks(
        3,
        [&](auto& bootstrap) {
          std::function<void()> before;
          std::function<void(void*)> after;
          if (bound) after = [](void*) { throw std::runtime_error("gone"); };
          else before = [] { throw std::runtime_error("gone"); };
          InterferingBootstrap leaving(*bootstrap, before, after);
          if (bootstrap->rank() == 2) {
            EXPECT_THROW(exchange_descriptors(leaving, make_memfd(0)), std::runtime_error);
            std::this_thread::sleep_for(300ms);  // as long as it lives the others can't tell
          } else {
            BootstrapHooks::set_interrupt(*bootstrap, [start] {
              if (std::chrono::steady_clock::now() - start > 100ms)
                throw Error(ErrorCode::aborted, "enough");
            });
            expect_contains(message_of(ErrorCode::aborted,
                                       [&] { exchange_descriptors(*bootstrap, make_memfd(0)); }),
                            "enough");
          }
        },
        20s);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  }
}

TEST(DescriptorExchange, MissingRankIsNamed) {
  run_ranks(
      3,
      [](auto& bootstrap) {
        const bool lost = bootstrap->rank() == 2;
        InterferingBootstrap interfering(*bootstrap, [&] {
          if (lost) throw std::runtime_error("lost");
        });
        if (lost) {
          EXPECT_THROW(exchange_descriptors(interfering, make_memfd(0)), std::runtime_error);
        } else {
          expect_contains(message_of(ErrorCode::bootstrap,
                                     [&] { exchange_descriptors(interfering, make_memfd(0)); }),
                          "rank 2");
        }
      },
      300ms);
}

}  // namespace
}  // namespace plait
