// The exchange of descriptors over the threads bootstrap.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/memory_files.hpp"
#include "bootstrap/thread_ranks.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/interfering_bootstrap.hpp"
#include "symm_mem/descriptor_letter.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::InterferingBootstrap;
using test::message_of;

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
    for (const std::size_t descriptors : {2, 1, 0}) {
      // From rank 0, with a descriptor.
      const std::array<std::uint64_t, 2> junk{1, std::uint64_t{1} << 32};
      const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 6);
      const auto* name = reinterpret_cast<const sockaddr*>(&address);
      // Fails once the rank has all its letters, because then it no longer listens.
      if (::connect(socket.get(), name, length) != 0) continue;
      constexpr std::array standard_input{0, 0};
      if (descriptors > 0)
        send_descriptors(socket.get(), junk.data(), std::span(standard_input).first(descriptors));
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

/// A rank that can't connect to one that is ending blames no network namespace. Rank 0's address is
/// that of a process whose socket is closed, and which ends soon.
TEST(DescriptorExchange, NamesARankThatIsEnding) {
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    ::usleep(50'000);
    ::_exit(0);
  }
  run_ranks(2, [child](auto& bootstrap) {
    InterferingBootstrap interfering(*bootstrap, {}, [&](void* addresses) {
      if (bootstrap->rank() == 0) return;
      auto& address = *static_cast<ExchangeAddress*>(addresses);
      address.process = child;
      address.name.sun_path[1] = 'x';  // the kernel's names have hexadecimal digits
    });
    const std::string text =
        message_of(ErrorCode::bootstrap, [&] { exchange_descriptors(interfering, make_memfd(0)); });
    expect_contains(text, "rank 1 got no descriptor from rank 0: it has ended");
  });
  ::waitpid(child, nullptr, 0);
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
