// Calls that one rank makes alone: put, get and signals, by ranks that are threads, on one node or
// several.
#include "communicator/one_sided.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "algorithms/messages/one_sided/kernel.hpp"
#include "fault/deadline.hpp"
#include "plait/group.hpp"
#include "support/errors.hpp"
#include "symm_mem/window.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t room = 400000;  // as Peer has it

INSTANTIATE_TEST_SUITE_P(Ranks, OneSided,
                         testing::Values(Sizes{1}, Sizes{2}, Sizes{3}, Sizes{4}, Sizes{8},
                                         Sizes{1, 1}, Sizes{2, 1}, Sizes{2, 2}),
                         name_of_sizes);

/// Any lengths, any alignment. The peers' memory beside the bytes stays as it is.
TEST_P(OneSided, PutsArriveWithTheirSignals) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size(), next = (rank + 1) % n, last = (rank + n - 1) % n;
    std::uint64_t seed = 0;
    for (const std::size_t bytes : {1, 3, 8, 64, 1000, 4096, 65536 + 13, 300000})
      for (const std::size_t shift : {0, 1, 8}) {
        ++seed;
        own.fill(own.at(last), 1000 + seed, rank, bytes + 100);
        own.fill(own.own() + shift, seed, rank, bytes);
        comm.barrier();
        comm.put(own.window(), next, own.offset(rank) + 16 + shift, own.own() + shift, bytes, true);
        comm.wait_signal(last);
        EXPECT_TRUE(own.holds(own.at(last) + 16 + shift, seed, last, bytes));
        EXPECT_TRUE(own.holds(own.at(last), 1000 + seed, rank, 16));
        const auto behind = Peer::content(1000 + seed, rank, bytes + 100);
        std::byte after{};
        comm.copy(&after, own.at(last) + 16 + shift + bytes, 1);
        comm.synchronize();
        EXPECT_EQ(after, behind[16 + shift + bytes]);
      }
  });
}

TEST_P(OneSided, GetsReadThePeersMemory) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size(), next = (rank + 1) % n;
    for (const std::size_t bytes : {1, 7, 4096, 300001}) {
      own.fill(own.at(0) + 5, bytes, rank, bytes);
      comm.barrier();
      comm.get(own.window(), next, 5, own.own() + 3, bytes);
      EXPECT_TRUE(own.holds(own.own() + 3, bytes, next, bytes));
      comm.barrier();  // before the next one is filled
      comm.synchronize();
    }
  });
}

/// Attached memory has another size and address on each rank.
TEST_P(OneSided, ReachesAttachedMemory) {
  run([](Communicator& comm, int rank) {
    const int n = comm.size(), next = (rank + 1) % n, last = (rank + n - 1) % n;
    Peer own(comm);
    const auto size = [](int of) { return room + 16 * static_cast<std::size_t>(of); };
    std::byte* const memory = own.own() + 16 * (rank % 3);
    const auto window = comm.attach(memory, size(rank), WindowUse::one_sided);
    EXPECT_FALSE(comm.is_symmetric(memory, 16));
    own.fill(own.at(0), 9, rank, 5000);
    comm.put(window, next, size(next) - 5000, own.at(0), 5000, true);
    comm.wait_signal(last);
    EXPECT_TRUE(own.holds(memory + size(rank) - 5000, 9, last, 5000));
    expect_invalid([&] { comm.put(window, next, size(next) - 5000, own.at(0), 5001); }, "put: rank",
                   fmt::format("the window of rank {} has {}", next, size(next)));
    for (int peer = 0; peer < n; ++peer)
      EXPECT_EQ(window->reaches(peer), nodes_of(GetParam())[static_cast<std::size_t>(peer)] ==
                                           nodes_of(GetParam())[static_cast<std::size_t>(rank)]);
    own.fill(own.at(0), 10, rank, 300000);
    comm.put(window, next, 0, own.at(0), 300000);
    comm.detach(window);  // waits for all ranks' puts
    EXPECT_TRUE(own.holds(memory, 10, last, 300000));
    expect_invalid([&] { comm.put(window, next, 0, own.at(0), 1); }, "was detached");
  });
}

TEST_P(OneSided, SignalsCount) {
  run([](Communicator& comm, int rank) {
    const int n = comm.size();
    for (int round = 1; round <= 3; ++round) {
      for (int peer = 0; peer < n; ++peer)
        for (int i = 0; i < round * (rank + 1); ++i) comm.signal(peer);
      for (int peer = 0; peer < n; ++peer) {
        comm.wait_signal(peer, static_cast<std::uint32_t>(round * (peer + 1) - round + 1));
        if (round > 1) comm.wait_signal(peer, static_cast<std::uint32_t>(round - 1));
      }
      comm.synchronize();
    }
  });
}

/// In a group the waits come last, whatever the order of the calls.
TEST_P(OneSided, GroupsExchange) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size();
    for (std::uint64_t seed = 1; seed < 4; ++seed) {
      own.fill(own.own(), seed, rank, 10000);
      comm.barrier();
      {
        const Group group;
        for (int peer = 0; peer < n; ++peer) comm.wait_signal(peer);
        for (int peer = 0; peer < n; ++peer)
          comm.put(own.window(), peer, own.offset(rank), own.own(), 10000, true);
      }
      for (int peer = 0; peer < n; ++peer) EXPECT_TRUE(own.holds(own.at(peer), seed, peer, 10000));
    }
  });
}

/// A peer may signal once it has the messages and the collectives of the group.
TEST_P(OneSided, WaitsComeBehindAllElse) {
  if (ranks() == 1) return;
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    own.fill(own.own(), 3, rank, 5000);
    {
      const Group group;
      if (rank == 0) comm.wait_signal(1);
      if (rank == 0) comm.send(own.own(), 5000, DataType::u8, 1);
      if (rank == 1) comm.recv(own.at(0), 5000, DataType::u8, 0);
      comm.all_reduce(own.own() + 8192, own.own() + 8192, 100, DataType::u8, ReduceOp::max);
      if (rank == 0) comm.wait_signal(1);
    }
    comm.synchronize();
    if (rank != 1) return;
    EXPECT_TRUE(own.holds(own.at(0), 3, 0, 5000));
    comm.signal(0);
    comm.signal(0);
  });
}

/// Symmetric memory to put from lives until the group's end.
TEST_P(OneSided, GroupsKeepTheirMemory) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size(), next = (rank + 1) % n, last = (rank + n - 1) % n;
    {
      const Group group;
      const auto source = comm.allocate<std::byte>(5000);
      own.fill(source.data(), 4, rank, 5000);
      comm.put(own.window(), next, 0, source.data(), 5000, true);
    }
    comm.wait_signal(last);
    EXPECT_TRUE(own.holds(own.at(0), 4, last, 5000));
  });
}

TEST_P(OneSided, GraphsReplayIt) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size(), next = (rank + 1) % n, last = (rank + n - 1) % n;
    const Stream stream = comm.create_stream();
    Backend& backend = backend_of(comm);
    std::unique_ptr<Graph> graph;
    {
      const DeviceScope device(backend);
      backend.begin_capture(stream.native());
      comm.put(own.window(), next, 0, own.own(), 200000, true, stream);
      comm.wait_signal(last, 1, stream);
      graph = backend.end_capture(stream.native());
    }
    for (std::uint64_t seed = 1; seed < 5; ++seed) {
      own.fill(own.own(), seed, rank, 200000, stream);
      comm.barrier(stream);
      {
        const DeviceScope device(backend);
        graph->launch(stream.native());
      }
      EXPECT_TRUE(own.holds(own.at(0), seed, last, 200000, stream));
    }
  });
}

TEST_P(OneSided, AMissingPeerIsNamed) {
  if (ranks() == 1) return;
  run(
      [](Communicator& comm, int rank) {
        for (int peer = 0; rank == 1 && peer < comm.size(); ++peer) comm.signal(peer);
        if (rank == 1) return stay(comm);
        comm.wait_signal(1, 2);
        const std::string text = message_of(ErrorCode::timeout, [&] { comm.synchronize(); });
        EXPECT_THAT(text, testing::ContainsRegex("rank 1( on node [^ ]*)? is missing"));
        EXPECT_THAT(text, HasSubstr("one_sided"));
        EXPECT_THAT(text, HasSubstr("(expected 2, saw 1)"));
      },
      impatient());
}

TEST_P(OneSided, BadArgumentsAreRefused) {
  run([](Communicator& comm, int rank) {
    Peer own(comm);
    const int n = comm.size();
    const std::size_t all = room * static_cast<std::size_t>(n);
    const auto& window = own.window();
    expect_invalid([&] { comm.put(nullptr, 0, 0, own.own(), 1); }, "put: rank", "window is null");
    expect_invalid([&] { comm.get(nullptr, 0, 0, own.own(), 1); }, "get: rank", "window is null");
    expect_invalid([&] { comm.put(window, 0, 0, nullptr, 1); }, "the pointer is null");
    expect_invalid([&] { comm.put(window, 0, all, own.own(), 1); }, "put: rank", "has");
    expect_invalid([&] { comm.get(window, 0, ~std::size_t{0}, own.own(), 2); }, "get: rank");
    for (const int peer : {-1, n}) {
      expect_invalid([&] { comm.put(window, peer, 0, own.own(), 1); }, "none of the ranks");
      expect_invalid([&] { comm.signal(peer); }, "signal: rank", "none of the ranks");
      expect_invalid([&] { comm.wait_signal(peer); }, "wait_signal: rank", "none of the ranks");
    }
    expect_invalid([&] { comm.wait_signal(0, 0); }, "0 signals");
    expect_invalid([&] { comm.wait_signal(0, 1u << 31); }, "2147483648 signals");
    Communicator copy = comm.duplicate();
    expect_invalid([&] { copy.put(window, 0, 0, own.own(), 1); }, "another communicator's");
    expect_invalid(
        [&] {
          const Group group;
          comm.signal((rank + 1) % n);
          comm.put(window, n, 0, own.own(), 1);
          comm.signal(rank);
        },
        "none of the ranks", "nothing of the group was enqueued");
    expect_invalid([&] { comm.put(window, 0, 0, own.at(0) + all - 10, 11); }, "put: rank",
                   "source = ", "no room for 11 bytes");
    expect_invalid([&] { comm.get(window, 0, 0, own.at(0) + all - 10, 11); }, "target = ");
    expect_invalid([&] { comm.put(window, rank, 8, own.at(0), 100); }, "overlap");
    expect_invalid(
        [&] {
          const Group group;
          comm.get(window, (rank + 1) % n, 0, own.own(), 100);
          comm.put(window, rank, all - 200, own.own() + 50, 100);
        },
        "same memory");
    // No other rank has counted on any of these.
    comm.send_recv(own.own(), 100, (rank + 1) % n, own.own() + 100, 100, (rank + n - 1) % n,
                   DataType::u8);
    // None of these does anything, or waits.
    comm.put(window, proc_null, 0, nullptr, 1);
    comm.wait_signal(proc_null);
    comm.put(window, rank, all, nullptr, 0);
    comm.put(window, rank, 0, nullptr, 0, true);  // but this signals
    comm.wait_signal(rank, 1, {}, {.blocking = true});
  });
}

/// Two ranks' launches by themselves, with counters that are about to wrap.
TEST(OneSidedKernel, SignalsWrap) {
  const auto backend = open_backend(BackendKind::host, 0);
  const KernelHandle kernel = backend->find_kernel("one_sided", DataType::u64);
  ASSERT_NE(kernel, nullptr);
  std::uint32_t words[2] = {0xfffffffeu, 0xfffffffeu}, sent[2] = {0xfffffffeu, 0xfffffffeu},
                seen[2] = {0xfffffffeu, 0xfffffffeu};
  std::uint32_t abort = 0, claimed = 0;
  DiagnosticRecord record{};
  const Watch watch{
      .abort = &abort, .record = &record, .claimed = &claimed, .timeout_ns = 1000000000};
  one_sided::Args args{};
  args.reader_handle = -1;
  args.words = {.own = reinterpret_cast<std::byte*>(words), .stride = 0, .rank = 0};
  args.sent = sent;
  args.seen = seen;
  const NativeStream stream = backend->create_stream();
  const auto launch = [&](bool signals, std::uint32_t awaited) {
    args.signals = signals;
    args.awaited = awaited;
    backend->launch(kernel, {1, 1}, &args, sizeof args, watch, stream);
    backend->synchronize(stream);
  };
  for (int i = 0; i < 5; ++i) launch(true, 0);
  EXPECT_EQ(words[0], 3u);
  launch(false, 2);
  launch(false, 3);
  EXPECT_EQ(seen[0], 3u);
  EXPECT_EQ(record.state, 0u);
  launch(false, 1);  // there is no more
  EXPECT_EQ(record.state, static_cast<std::uint32_t>(out_of_time));
  backend->destroy_stream(stream);
}

}  // namespace
}  // namespace plait::test
