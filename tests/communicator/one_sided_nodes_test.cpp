// One-sided calls between nodes: what the proxies and their servers must keep to.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "communicator/one_sided.hpp"
#include "plait/group.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

class OneSidedNodes : public OneSided {
 protected:
  /// The ranks after and before this one, of which one or both are on another node.
  struct Ring {
    explicit Ring(const Communicator& comm)
        : next((comm.rank() + 1) % comm.size()),
          last((comm.rank() + comm.size() - 1) % comm.size()) {}
    int next, last;
  };
};
INSTANTIATE_TEST_SUITE_P(Ranks, OneSidedNodes,
                         testing::Values(Sizes{1, 1}, Sizes{2, 1}, Sizes{2, 2}, Sizes{1, 1, 1}),
                         name_of_sizes);

/// Longer than all slots together: in large slots, and in the smallest.
TEST_P(OneSidedNodes, SlotsAreFilledAgain) {
  for (const std::size_t scratch : {std::size_t{0}, std::size_t{3} << 20}) {
    CommunicatorOptions options = test_options();
    if (scratch != 0) options.scratch_bytes = scratch;
    const std::size_t bytes = scratch == 0 ? 3'000'001 : 150'001;
    run(
        [&](Communicator& comm, int rank) {
          Peer own(comm, bytes);
          const Ring ring(comm);
          for (std::uint64_t seed = 1; seed < 4; ++seed) {
            own.fill(own.own(), seed, rank, bytes);
            comm.put(own.window(), ring.next, own.offset(rank), own.own(), bytes, true);
            comm.wait_signal(ring.last);
            EXPECT_TRUE(own.holds(own.at(ring.last), seed, ring.last, bytes));
            comm.get(own.window(), ring.next, own.offset(rank), own.own() + bytes, bytes);
            EXPECT_TRUE(own.holds(own.own() + bytes, seed, rank, bytes));
            comm.barrier();
          }
        },
        options);
  }
}

/// Puts and signals of all sizes without a wait between them, more than there are slots.
TEST_P(OneSidedNodes, CreditsCarryManyCalls) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const Ring ring(comm);
    constexpr int calls = under_tsan ? 60 : 200;
    const auto size = [](int call) { return 1 + hash(3, static_cast<unsigned>(call), 0) % 1900; };
    for (int call = 0; call < calls; ++call)
      own.fill(own.own() + call * 2000, static_cast<unsigned>(call), rank, size(call));
    for (int call = 0; call < calls; ++call) {
      const auto place = static_cast<std::size_t>(call) * 2000;
      comm.put(own.window(), ring.next, own.offset(rank) + place, own.own() + place, size(call),
               call % 3 == 0);
      if (call % 3 == 1)
        for (int i = 0; i < 5; ++i) comm.signal(ring.next);
    }
    constexpr int puts = (calls + 2) / 3, others = (calls + 1) / 3;
    comm.wait_signal(ring.last, puts + 5 * others);
    comm.barrier();  // which the last put precedes
    for (int call = 0; call < calls; ++call)
      EXPECT_TRUE(own.holds(own.at(ring.last) + call * 2000, static_cast<unsigned>(call), ring.last,
                            size(call)));
  });
}

/// A put without a signal, and one whose signal is not awaited.
TEST_P(OneSidedNodes, ABarrierComesBehindPuts) {
  run([](Communicator& comm, int rank) {
    constexpr std::size_t bytes = 70'001;
    Peer own(comm);
    const Ring ring(comm);
    for (std::uint64_t seed = 1; seed < (under_tsan ? 10 : 40); ++seed) {
      own.fill(own.own(), seed, rank, bytes);
      if (seed % 4 < 2) {
        comm.put(own.window(), ring.next, own.offset(rank), own.own(), bytes, seed % 2 == 0);
      } else {
        const Group group;
        comm.put(own.window(), ring.next, own.offset(rank), own.own(), bytes / 2);
        comm.put(own.window(), ring.next, own.offset(rank) + bytes / 2, own.own() + bytes / 2,
                 bytes - bytes / 2);
      }
      comm.barrier();
      EXPECT_TRUE(own.holds(own.at(ring.last), seed, ring.last, bytes));
      comm.barrier();
    }
  });
}

/// Rank 0 puts to the last rank and signals rank 1, which then finds the bytes there.
TEST_P(OneSidedNodes, ASignalToAThirdRankComesBehindPuts) {
  run([](Communicator& comm, int rank) {
    constexpr std::size_t bytes = 50'001;
    const int owner = comm.size() - 1;
    Peer own(comm);
    for (std::uint64_t seed = 1; seed < (under_tsan ? 10 : 40); ++seed) {
      if (rank == 0) {
        own.fill(own.own(), seed, 0, bytes);
        comm.put(own.window(), owner, 0, own.own(), bytes);
        comm.signal(1);
      } else if (rank == 1) {
        comm.wait_signal(0);
        comm.get(own.window(), owner, 0, own.own(), bytes);
        EXPECT_TRUE(own.holds(own.own(), seed, 0, bytes));
      }
      comm.barrier();
    }
    comm.synchronize();
  });
}

/// In both directions at once, on several streams, and in one group.
TEST_P(OneSidedNodes, GetsAndPutsDoNotBlockEachOther) {
  run([](Communicator& comm, int rank) {
    constexpr std::size_t bytes = 1'500'000;
    const int n = comm.size();
    Peer own(comm, bytes);
    const Stream one = comm.create_stream(), two = comm.create_stream();
    own.fill(own.at(rank), 100, rank, bytes);
    own.fill(own.own(), 200, rank, bytes);
    comm.barrier();
    const auto exchange = [&](int peer, StreamRef stream) {
      comm.get(own.window(), peer, own.offset(peer), own.own() + bytes, bytes, stream);
      EXPECT_TRUE(own.holds(own.own() + bytes, 100, peer, bytes, stream));
      comm.put(own.window(), peer, own.offset(rank), own.own(), bytes, true, stream);
      comm.wait_signal(peer, 1, stream);
      EXPECT_TRUE(own.holds(own.at(peer), 200, peer, bytes, stream));
    };
    for (int step = 1; step < n; ++step) {
      const int peer = (2 * n + step - rank) % n;  // whose peer this rank is
      if (peer != rank) exchange(peer, step % 2 == 0 ? one : two);
    }
    comm.barrier();
    own.fill(own.own(), 300, rank, bytes);
    {
      const Group group;
      for (int peer = 0; peer < n; ++peer) {
        comm.wait_signal(peer);
        if (peer == (rank + 1) % n)
          comm.get(own.window(), peer, own.offset(peer), own.own() + bytes, bytes);
        if (peer != rank) comm.put(own.window(), peer, own.offset(rank), own.own(), bytes, true);
        else comm.signal(rank);
      }
    }
    EXPECT_TRUE(own.holds(own.own() + bytes, 100, (rank + 1) % n, bytes));
    for (int step = 1; step < n; ++step) {
      const int peer = (rank + step) % n;
      EXPECT_TRUE(own.holds(own.at(peer), 300, peer, bytes));
    }
  });
}

/// The peer's window may not be there yet.
TEST_P(OneSidedNodes, PutsFollowAnAllocationAtOnce) {
  run([](Communicator& comm, int rank) {
    const Ring ring(comm);
    Peer own(comm, 3000);
    own.fill(own.own(), 7, rank, 3000);
    for (std::size_t round = 0; round < (under_tsan ? 5 : 20); ++round) {
      const auto window = comm.allocate<std::byte>(3000 + round);
      comm.put(window.window(), ring.next, round, own.own(), 3000, true);
      comm.wait_signal(ring.last);
      EXPECT_TRUE(own.holds(window.data() + round, 7, ring.last, 3000));
    }
  });
}

/// Rank 0 and the last rank, which are on different nodes, both get the error of rank 0's call.
/// `spoil`: the last rank takes its memory away.
template <class Spoil>
void expect_refusal(Communicator& comm, int rank, const std::shared_ptr<Window>& window, bool puts,
                    const char* why, const Spoil& spoil) {
  const int owner = comm.size() - 1;
  comm.barrier();
  comm.synchronize();
  if (rank == owner) spoil();
  comm.bootstrap().barrier();
  auto* const own = static_cast<std::byte*>(backend_of(comm).allocate(5000));
  const auto expect = [&](const Error& error) {
    expect_error(
        error, ErrorCode::invalid_argument,
        testing::AllOf(testing::ContainsRegex(fmt::format(
                           "{}: rank 0 on node [^ ]* {} 5000 bytes at offset 100 of window",
                           puts ? "put" : "get", puts ? "stores" : "reads")),
                       testing::HasSubstr(fmt::format("of rank {} on node", owner)),
                       testing::HasSubstr(why)));
  };
  if (rank == 0) {
    const auto error = error_of([&] {
      if (puts) comm.put(window, owner, 100, own, 5000, true);
      else comm.get(window, owner, 100, own, 5000);
      comm.synchronize();
    });
    ASSERT_TRUE(error.has_value());
    expect(*error);
  } else {
    const auto error = heard(comm);
    ASSERT_TRUE(error.has_value());
    expect(*error);
  }
  backend_of(comm).deallocate(own);
}

TEST_P(OneSidedNodes, AWindowThatIsGoneIsAnErrorOnBoth) {
  for (const bool puts : {true, false})
    run(
        [&](Communicator& comm, int rank) {
          auto buffer = comm.allocate<std::byte>(8000);
          expect_refusal(comm, rank, buffer.window(), puts, "detached or destroyed there",
                         [&] { buffer = {}; });
        },
        patient());
}

/// Memory that the program has freed is not touched: that would end the process.
TEST_P(OneSidedNodes, MemoryThatWasFreedIsAnErrorOnBoth) {
  if (target() != BackendKind::host) GTEST_SKIP() << "takes memory of the host";
  for (const bool puts : {true, false})
    run(
        [&](Communicator& comm, int rank) {
          constexpr std::size_t bytes = 8192;
          const int fd = memfd_create("program", MFD_CLOEXEC);
          ASSERT_EQ(ftruncate(fd, bytes), 0);
          void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
          ASSERT_NE(memory, MAP_FAILED);
          const auto window = comm.attach(memory, bytes);
          const bool frees = rank == comm.size() - 1;
          expect_refusal(comm, rank, window, puts, "freed since, without `detach`",
                         [&] { munmap(memory, bytes); });
          if (!frees) munmap(memory, bytes);
          close(fd);
        },
        patient());
}

/// The window goes at some moment of a row of puts. From then on its memory stays as it is.
TEST_P(OneSidedNodes, AWindowGoesWhilePutsAreOnTheirWay) {
  for (int round = 0; round < 4; ++round)
    run(
        [&](Communicator& comm, int rank) {
          constexpr std::size_t bytes = 400'000;
          const int owner = comm.size() - 1;
          Peer own(comm, bytes);
          auto window = comm.attach(own.own(), bytes);
          comm.barrier();
          comm.synchronize();
          std::optional<Error> error;
          if (rank == owner) {
            std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
            window.reset();
            error = error_of([&] { own.fill(own.own(), 5, rank, bytes); });
            if (!error) error = heard(comm);
            if (target() == BackendKind::host) {
              const auto mine = Peer::content(5, rank, bytes);
              EXPECT_TRUE(std::equal(mine.begin(), mine.end(), own.own()));
            }
          } else {
            const auto until = std::chrono::steady_clock::now() + patience;
            error = error_of([&] {
              while (rank == 0 && std::chrono::steady_clock::now() < until) {
                comm.put(window, owner, 0, own.at(rank), bytes);
                comm.synchronize();
              }
            });
            if (!error) error = heard(comm);
          }
          EXPECT_TRUE(error && error->code() == ErrorCode::invalid_argument);
        },
        patient());
}

}  // namespace
}  // namespace plait::test
