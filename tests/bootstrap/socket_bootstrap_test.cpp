// How ranks meet by a unique id: what goes wrong, many groups, and processes that end.
#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/processes.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "plait/unique_id.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::message_of;
using test::on_threads;
using test::Process;
using test::ScopedEnvironment;
using Clock = std::chrono::steady_clock;

TEST(UniqueIds, AreNeverEqualAndNameAVersion) {
  const UniqueId first = UniqueId::create(), second = UniqueId::create();
  EXPECT_NE(first, second);
  const auto a = detail::contents_of(first), b = detail::contents_of(second);
  EXPECT_NE(a.secret.of_caller, b.secret.of_caller);
  EXPECT_NE(a.secret.of_called, b.secret.of_called);
  EXPECT_NE(a.root.port, b.root.port);
  EXPECT_EQ(detail::to_id(a), first);
}

TEST(UniqueIds, ThatMakeNoSenseAreRefused) {
  const auto refusal = [](const UniqueId& id, int rank = 1, int size = 2) {
    return message_of(ErrorCode::invalid_argument, [&] { make_socket_bootstrap(id, rank, size); });
  };
  EXPECT_EQ(refusal({}).find("make_socket_bootstrap: rank 1: the unique id is empty"), 0U);
  UniqueId id = UniqueId::create();
  expect_contains(refusal(id, 2), "rank 2: there are 2 ranks");
  expect_contains(refusal(id, -1), "rank -1: there are 2 ranks");
  expect_contains(refusal(id, 0, 0), "0 ranks, but at least 1 is needed");
  const auto changed = [&](std::size_t byte, std::uint8_t bits) {
    UniqueId other = id;
    other.bytes[byte] = static_cast<decltype(other.bytes)::value_type>(other.bytes[byte] ^ bits);
    return other;
  };
  expect_contains(refusal(changed(8, 8)), "of version 9, and this library knows version 1");
  expect_contains(refusal(changed(0, 1)), "none of Plait's");
  expect_contains(refusal(changed(12, 0xf7)), "damaged");  // the kind of address
  // The secret: no listener of this process has it.
  expect_contains(refusal(changed(40, 1), 0), "rank 0 must be in the process that created the id");
  EXPECT_EQ(make_socket_bootstrap(id, 0, 1)->size(), 1);
  expect_contains(refusal(id, 0, 1), "an id serves one group");
}

TEST(UniqueIds, AddressIsThatOfTheInterface) {
  const auto address = [] { return detail::contents_of(UniqueId::create()).root; };
  {
    const ScopedEnvironment variable("PLAIT_SOCKET_IFNAME", "lo");
    EXPECT_TRUE(is_loopback(address()));
  }
  {
    const ScopedEnvironment variable("NCCL_SOCKET_IFNAME", "=lo");
    EXPECT_TRUE(is_loopback(address()));
    const ScopedEnvironment mine("PLAIT_SOCKET_IFNAME", "=l");  // counts before NCCL's
    const std::string refused = message_of(ErrorCode::invalid_argument, [&] { address(); });
    expect_contains(refused,
                    "PLAIT_SOCKET_IFNAME=\"=l\": no interface that is up has such a name; there "
                    "are: ");
    // Each once, also if it has several addresses.
    auto names = split(std::string_view(refused).substr(refused.rfind(": ") + 1), ',');
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << refused;
  }
  ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  bool has_other = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    has_other = has_other || (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                              std::strncmp(one->ifa_name, "lo", 2) != 0);
  ::freeifaddrs(all);
  EXPECT_EQ(is_loopback(address()), !has_other);
  if (has_other) {
    const ScopedEnvironment variable("PLAIT_SOCKET_IFNAME", "^lo");
    EXPECT_FALSE(is_loopback(address()));
  }
}

TEST(SocketGroups, OneRankNeedsNobody) {
  auto alone = make_socket_bootstrap(UniqueId::create(), 0, 1);
  EXPECT_EQ(alone->all_gather(7), std::vector<int>{7});
  EXPECT_EQ(alone->split(3, 0)->size(), 1);
}

TEST(SocketGroups, ExchangeMoreThanASocketHolds) {
  const UniqueId id = UniqueId::create();
  on_threads(3, [&](int rank) {
    auto group = make_socket_bootstrap(id, rank, 3);
    const std::size_t words = (std::size_t{30} << 20) / sizeof(std::uint64_t);  // in two messages
    const auto of = [&](std::size_t peer) {
      std::vector<std::uint64_t> data(words);
      for (std::size_t i = 0; i < words; ++i) data[i] = test::hash(1, peer, i);
      return data;
    };
    std::vector<std::uint64_t> all(3 * words);
    group->all_gather(of(static_cast<std::size_t>(rank)).data(), all.data(), words * sizeof all[0]);
    for (std::size_t peer = 0; peer < 3; ++peer)
      EXPECT_EQ(std::memcmp(all.data() + peer * words, of(peer).data(), words * sizeof all[0]), 0);
  });
}

TEST(SocketGroups, AThousandLeaveNothingBehind) {
  const auto meet_once = [] {
    const UniqueId id = UniqueId::create();
    on_threads(2, [&](int rank) {
      auto group = make_socket_bootstrap(id, rank, 2);
      EXPECT_EQ(group->all_gather(rank), (std::vector<int>{0, 1}));
    });
  };
  meet_once();
  const int before = open_descriptors();
  for (int round = 0; round < 1000; ++round) meet_once();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(SocketGroups, AHundredAtOnce) {
  constexpr int groups = 100;
  std::vector<UniqueId> ids(groups);
  for (UniqueId& id : ids) id = UniqueId::create();
  on_threads(2, [&](int rank) {
    std::vector<std::unique_ptr<Bootstrap>> all;
    for (const UniqueId& id : ids) all.push_back(make_socket_bootstrap(id, rank, 2));
    for (int turn = 0; turn < groups; ++turn)
      EXPECT_EQ(all[static_cast<std::size_t>(turn)]->broadcast(turn + rank, 0), turn);
  });
}

TEST(SocketGroups, CreationNamesTheMissingRanks) {
  const UniqueId id = UniqueId::create();
  on_threads(5, [&](int rank) {
    if (rank == 2 || rank == 4) return;
    const auto start = Clock::now();
    expect_contains(
        message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, rank, 5, 300ms); }),
        "make_socket_bootstrap: rank " + std::to_string(rank) +
            ": ranks 2, 4 did not arrive at make_socket_bootstrap within 0.3 s");
    EXPECT_LT(Clock::now() - start, 2s);
  });
  const auto start = Clock::now();
  expect_contains(message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 2, 5); }),
                  "rank 2: nothing listens at ");
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(SocketGroups, CreationNamesRankZero) {
  const UniqueId id = UniqueId::create();  // listens, and never comes
  on_threads(3, [&](int rank) {
    if (rank != 0)
      expect_contains(
          message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, rank, 3, 200ms); }),
          "rank 0 did not arrive at make_socket_bootstrap within 0.2 s");
  });
}

TEST(SocketGroups, RanksThatDisagreeAllHearOfIt) {
  const auto meet = [](const std::function<std::optional<std::pair<int, int>>(int)>& rank_and_size,
                       const std::string& words) {
    const UniqueId id = UniqueId::create();
    on_threads(3, [&](int rank) {
      const auto given = rank_and_size(rank);
      expect_contains(message_of(ErrorCode::mismatch,
                                 [&] { make_socket_bootstrap(id, given->first, given->second); }),
                      words);
    });
  };
  using Given = std::pair<int, int>;
  meet([](int rank) { return Given(rank, rank == 2 ? 4 : 3); },
       "rank 2 passed size 4, rank 0 passed 3");
  meet([](int rank) { return Given(rank == 2 ? 1 : rank, 3); }, "two ranks passed rank 1");
}

TEST(SocketGroups, MalformedTimeoutOfOneRankIsToldToAll) {
  const UniqueId id = UniqueId::create();
  test::run_processes(3, [&](int rank) {
    if (rank == 1) ::setenv("PLAIT_TIMEOUT", "soon", 1);
    expect_contains(
        message_of(ErrorCode::invalid_argument, [&] { make_socket_bootstrap(id, rank, 3); }),
        "rank 1: PLAIT_TIMEOUT=\"soon\"");
  });
}

/// Also if other processes still have the listener.
TEST(SocketGroups, ARankThatComesTooLateDoesNotWait) {
  const UniqueId id = UniqueId::create();
  test::run_processes(2, [&](int rank) { make_socket_bootstrap(id, rank, 2)->barrier(); });
  const auto start = Clock::now();
  expect_contains(message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 1, 2); }),
                  "nothing listens at ");
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(SocketGroups, OnlyOneProcessIsRankZero) {
  const UniqueId id = UniqueId::create();
  Process zero([&] { make_socket_bootstrap(id, 0, 2)->barrier(); });
  std::this_thread::sleep_for(200ms);
  expect_contains(message_of(ErrorCode::invalid_argument, [&] { make_socket_bootstrap(id, 0, 2); }),
                  "rank 0 must be in the process that created the id");
  make_socket_bootstrap(id, 1, 2)->barrier();
  EXPECT_EQ(zero.wait(), 0);
}

/// Groups of forked ranks have different numbers, also if the parent has drawn some.
TEST(SocketGroups, OfForkedRanksDontMeetEachOthersMessages) {
  make_socket_bootstrap(UniqueId::create(), 0, 1)->split(0, 0);
  const UniqueId id = UniqueId::create();
  test::run_processes(4, [&](int rank) {
    auto all = make_socket_bootstrap(id, rank, 4, 10s);
    auto half = all->split(rank / 2, rank);
    auto part = half->split(0, 0);
    if (rank % 2 == 1) part.reset();
    half->barrier();
    all->barrier();
    const auto drawn = all->all_gather(detail::draw_number());
    for (int peer = 0; peer < 4; ++peer)
      EXPECT_EQ(std::count(drawn.begin(), drawn.end(), drawn[static_cast<std::size_t>(peer)]), 1);
  });
}

TEST(SocketGroups, MoreRanksThanOpenFilesAreRefused) {
  const UniqueId id = UniqueId::create();
  expect_contains(
      message_of(ErrorCode::invalid_argument, [&] { make_socket_bootstrap(id, 0, 2'000'000'000); }),
      "2000000000 ranks, but this process may have only ");
}

TEST(SocketGroups, RankZeroMayBeAChildOfTheProcessThatMadeTheId) {
  const UniqueId id = UniqueId::create();
  test::run_processes(4, [&](int rank) {
    auto group = make_socket_bootstrap(id, rank, 4);
    EXPECT_EQ(group->all_gather(rank), (std::vector<int>{0, 1, 2, 3}));
    auto half = group->split(rank % 2, -rank);
    EXPECT_EQ(half->rank(), rank < 2 ? 1 : 0);
  });
}

/// Each process in a node of its own, so nothing but the connection tells that it has ended.
class Ended : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rank, Ended, testing::Range(0, 3));

TEST_P(Ended, IsNamedBeforeTheDeadline) {
  const UniqueId id = UniqueId::create();
  test::run_processes(3, [&](int rank) {
    ::setenv("PLAIT_NODE", std::to_string(rank).c_str(), 1);
    auto group = make_socket_bootstrap(id, rank, 3);
    EXPECT_EQ(group->nodes(), 3);
    group->barrier();
    if (rank == GetParam()) {
      // Its own children don't hide its end.
      if (::fork() == 0) {
        ::sleep(3);
        ::_exit(0);
      }
      ::_exit(0);
    }
    const auto start = Clock::now();
    expect_contains(message_of(ErrorCode::bootstrap, [&] { group->barrier(); }),
                    "rank " + std::to_string(GetParam()) + " ended before it arrived at");
    EXPECT_LT(Clock::now() - start, 2s);
  });
}

TEST_P(Ended, InCreationIsNamed) {
  const UniqueId id = UniqueId::create();
  const int ended = GetParam();
  std::vector<Process> all;
  for (const int rank : {1, 2, 3}) {
    all.emplace_back([&, rank] {
      const auto start = Clock::now();
      // Rank 3 never comes; the end of rank 0, 1 or 2 ends the others' wait for it.
      if (rank == 3 || rank == ended) {
        if (rank == ended) {
          std::thread([&] { make_socket_bootstrap(id, rank, 4); }).detach();
          std::this_thread::sleep_for(200ms);
        }
        ::_exit(0);
      }
      const std::string text =
          message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, rank, 4); });
      expect_contains(text, ended == 0 ? "rank 0 closed the connection"
                                       : "rank " + std::to_string(ended) + " ended before");
      EXPECT_LT(Clock::now() - start, 3s);
    });
  }
  Process root([&] {
    if (ended == 0) {
      std::thread([&] { make_socket_bootstrap(id, 0, 4); }).detach();
      std::this_thread::sleep_for(200ms);
      ::_exit(0);
    }
    expect_contains(message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 0, 4); }),
                    "rank " + std::to_string(ended) + " ended before");
  });
  EXPECT_EQ(root.wait(), 0);
  for (Process& process : all) EXPECT_EQ(process.wait(), 0);
}

}  // namespace
}  // namespace plait
