// Messages between two ranks: send, recv, send_recv, all_to_all_v, in groups, alone and in graphs,
// by every way to move them in ordinary memory (symmetric_messages_test has the others).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Messages, message_ranks(), TestName());
INSTANTIATE_TEST_SUITE_P(All, MessagesOfSeveral, message_ranks(2), TestName());

/// Any rank sends any number of messages of any kind to any other, and to itself, in one group.
TEST_P(Messages, AllToAllInGroups) {
  run([](Communicator& comm, Arena& arena) {
    const auto names = ways();
    for (std::uint64_t round = 0; round < (under_tsan ? 12 : 60); ++round) {
      Round messages(comm, arena, round);
      for (int other = 0; other < comm.size(); ++other)
        for (const bool sends : {true, false}) {
          const auto from = static_cast<std::uint64_t>(sends ? comm.rank() : other),
                     to = static_cast<std::uint64_t>(sends ? other : comm.rank());
          const std::uint64_t h = hash(round, from, to);
          for (std::size_t m = 0; m < h % 4; ++m) {
            const std::uint64_t d = hash(h, 5, m);
            const std::size_t most = d % 5 == 0 ? 9000 : d % 5 == 1 ? 0 : 300;
            messages.add(sends, other, static_cast<DataType>((d >> 8) % data_type_count),
                         most == 0 ? (d >> 16) % 3 : (d >> 16) % most,
                         names[(d >> 40) % names.size()], (d >> 48) % 7);
          }
        }
      messages.begin();
      messages.call_all({}, true);
      messages.expect_right();
    }
  });
}

/// One message at a time; the receiver waits for nothing else.
TEST_P(MessagesOfSeveral, ThereAndBack) {
  run([](Communicator& comm, Arena& arena) {
    for (const std::string& way : ways())
      for (const std::size_t count : odd_counts()) {
        Round messages(comm, arena, count);
        const int last = comm.size() - 1;
        if (comm.rank() == 0) {
          messages.add(true, last, DataType::bf16, count, way, count % 5);
          messages.add(false, last, DataType::f64, count, way);
        } else if (comm.rank() == last) {
          messages.add(false, 0, DataType::bf16, count, way, count % 3);
          messages.add(true, 0, DataType::f64, count, way);
        }
        messages.begin();
        messages.call_all();
        messages.expect_right();
      }
  });
}

/// Long ones go through lanes and slots many times, by any number of channels; both directions at
/// once.
TEST_P(Messages, Large) {
  run([](Communicator& comm, Arena& arena) {
    const int next = (comm.rank() + 1) % comm.size(),
              before = (comm.rank() + comm.size() - 1) % comm.size();
    for (const std::string& way : ways())
      for (const unsigned blocks : {0u, 1u, 3u, 200u}) {
        Round messages(comm, arena, blocks);
        const std::size_t bytes = under_tsan ? 30001 : 600001;
        messages.add(true, next, DataType::u8, bytes, way, blocks % 2);
        messages.add(false, before, DataType::u8, bytes, way, blocks % 3);
        messages.begin();
        comm.send_recv(messages.address(messages.ends()[0]), bytes, next,
                       messages.address(messages.ends()[1]), bytes, before, DataType::u8, {},
                       {.algorithm = way, .blocks = blocks});
        messages.expect_right();
      }
  });
}

/// A rank may run ahead of its peer as far as lanes and slots reach; then it waits on the stream,
/// not on the host.
TEST_P(MessagesOfSeveral, ManyInARow) {
  run([](Communicator& comm, Arena& arena) {
    for (const std::string& way : ways()) {
      Round messages(comm, arena, 3);
      const int last = comm.size() - 1;
      for (std::size_t m = 0; m < (under_tsan ? 40 : 200); ++m)
        if (comm.rank() == 0 || comm.rank() == last)
          messages.add(comm.rank() == 0, comm.rank() == 0 ? last : 0, DataType::i32,
                       1 + hash(m) % 600, way);
      messages.begin();
      if (comm.rank() == last && last != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      messages.call_all();
      messages.expect_right();
    }
  });
}

/// The ends of all ranks' messages, one each, are more than the work memory has room for.
TEST(ManyRanks, InOneGroup) {
  constexpr int ranks = 26;
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "512M");
  const ScopedEnvironment small("PLAIT_WORK_FIFO_BYTES", "4K");
  RankGroup group(ranks);
  group.run([](Communicator& comm, Arena& arena) {
    Round messages(comm, arena, 1);
    for (int peer = 0; peer < comm.size(); ++peer) {
      messages.add(true, peer, DataType::i32, 5, "");
      messages.add(false, peer, DataType::i32, 5, "");
    }
    messages.begin();
    messages.call_all({}, true);
    messages.expect_right();
  });
}

/// More messages than the work memory has room for are cut into several launches, on all ranks
/// alike.
TEST(ManyMessages, InOneGroup) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment small("PLAIT_WORK_FIFO_BYTES", "4K");
  RankGroup group(2);
  group.run([](Communicator& comm, Arena& arena) {
    for (std::uint64_t round = 0; round < 3; ++round) {
      Round messages(comm, arena, round);
      const std::size_t count = 300;
      for (std::size_t m = 0; m < count; ++m) {
        messages.add(true, 1 - comm.rank(), DataType::i32,
                     1 + hash(7, static_cast<unsigned>(comm.rank()), m) % 50, "");
        messages.add(false, 1 - comm.rank(), DataType::i32,
                     1 + hash(7, static_cast<unsigned>(1 - comm.rank()), m) % 50, "");
      }
      const std::uint64_t launches = comm.statistics().launches;
      messages.begin();
      messages.call_all({}, true);
      messages.expect_right();
      EXPECT_GT(comm.statistics().launches - launches, 3u);
      EXPECT_LT(comm.statistics().launches - launches, 60u);
    }
  });
}

/// Ends of a group need not be grouped on the other rank, if their order there can't block.
TEST_P(MessagesOfSeveral, GroupedOnOneSide) {
  run([](Communicator& comm, Arena& arena) {
    for (const std::string& way : ways()) {
      Round messages(comm, arena, 9);
      if (comm.rank() == 0) {
        for (int other = 1; other < comm.size(); ++other)
          for (const std::size_t count : {std::size_t{3}, std::size_t{5000}, std::size_t{70}})
            messages.add(false, other, DataType::f32, count, way);
      } else {
        for (const std::size_t count : {std::size_t{3}, std::size_t{5000}, std::size_t{70}})
          messages.add(true, 0, DataType::f32, count, way);
      }
      messages.begin();
      messages.call_all({}, comm.rank() == 0);
      messages.expect_right();
    }
  });
}

/// Messages and collectives share a stream and nothing else. In a group, messages come first.
TEST_P(Messages, BetweenCollectives) {
  run([](Communicator& comm, Arena& arena) {
    const int next = (comm.rank() + 1) % comm.size(),
              before = (comm.rank() + comm.size() - 1) % comm.size();
    const Buffer<std::uint32_t> sum = comm.allocate<std::uint32_t>(1);
    auto* const host =
        static_cast<std::uint32_t*>(backend_of(comm).allocate_pinned(sizeof(std::uint32_t)));
    for (std::uint64_t round = 0; round < (under_tsan ? 10 : 40); ++round) {
      *host = 1;
      comm.copy(sum.data(), host, sizeof *host);
      Round messages(comm, arena, round);
      const std::size_t count = 1 + hash(round) % 3000;
      messages.add(true, next, DataType::f32, count, "");
      messages.add(false, before, DataType::f32, count, "");
      messages.begin();
      {
        const Group group;
        comm.all_reduce(sum.span(), sum.span(), ReduceOp::sum);
        messages.call_all();
        comm.barrier();
      }
      comm.all_reduce(sum.span(), sum.span(), ReduceOp::sum);
      messages.expect_right();
      comm.copy(host, sum.data(), sizeof *host);
      comm.synchronize();
      EXPECT_EQ(*host, static_cast<std::uint32_t>(comm.size() * comm.size()));
    }
    backend_of(comm).deallocate_pinned(host);
  });
}

/// Empty messages go with others, in their order, and nothing is enqueued for them.
TEST_P(MessagesOfSeveral, AllToAllVBesideOthers) {
  run([](Communicator& comm, Arena& arena) {
    const int next = (comm.rank() + 1) % comm.size(),
              before = (comm.rank() + comm.size() - 1) % comm.size();
    const std::vector<std::size_t> zeros(static_cast<std::size_t>(comm.size()));
    const Stream other = comm.create_stream();
    for (std::uint64_t round = 0; round < 3; ++round) {
      Round messages(comm, arena, round);
      for (const std::size_t count : {std::size_t{7}, std::size_t{3000}}) {
        messages.add(true, next, DataType::f32, count, "");
        messages.add(false, before, DataType::f32, count, "");
      }
      messages.begin();
      comm.synchronize();
      const Statistics start = comm.statistics();
      const auto nothing = [&](StreamRef stream) {
        comm.all_to_all_v(nullptr, {zeros, zeros}, nullptr, {zeros, zeros}, DataType::f32, stream);
      };
      nothing({});
      {
        const Group group;
        nothing(other);
        nothing({});
      }
      const Statistics after = comm.statistics();
      EXPECT_EQ(after.calls, start.calls);
      EXPECT_EQ(after.launches, start.launches);
      EXPECT_EQ(after.groups, start.groups);
      {
        const Group group;
        nothing(other);
        messages.call_all();
        if (round == 1) comm.barrier();
        nothing({});
      }
      comm.synchronize(other);
      messages.expect_right();
      EXPECT_FALSE(comm.async_error().has_value());
    }
  });
}

/// A captured launch counts its rounds and chunks anew at every replay.
TEST_P(Messages, CapturedOnceReplayedOften) {
  run([](Communicator& comm, Arena& arena) {
    const int next = (comm.rank() + 1) % comm.size(),
              before = (comm.rank() + comm.size() - 1) % comm.size();
    const Stream stream = comm.create_stream();
    std::vector<std::unique_ptr<Round>> rounds;
    const auto fill = [&](std::uint64_t number) -> Round& {
      Round& round = *rounds.emplace_back(std::make_unique<Round>(comm, arena, number));
      for (const std::string& way : ways()) {
        round.add(true, next, DataType::i32, 3000, way);
        round.add(false, before, DataType::i32, 3000, way);
      }
      round.begin(stream);
      return round;
    };
    Round& first = fill(0);
    comm.synchronize(stream);
    const auto graph = captured(comm, stream, [&] { first.call_all(stream, true); });
    for (std::uint64_t replay = 1; replay < 12; ++replay) {
      Round& round = fill(replay);
      graph->launch(stream.native());
      if (replay % 3 == 0) comm.barrier(stream);
      round.expect_right(stream);
    }
  });
}

/// Elements move along a line of ranks: the ends have no neighbour on one side.
TEST_P(Messages, AlongALineWithEnds) {
  run([](Communicator& comm, Arena& arena) {
    const int last = comm.size() - 1, to = comm.rank() == last ? proc_null : comm.rank() + 1,
              from = comm.rank() == 0 ? proc_null : comm.rank() - 1;
    const Stream stream = comm.create_stream();
    for (std::uint64_t way = 0; way < 4; ++way) {
      Round messages(comm, arena, way);
      const std::size_t count = way == 3 ? 5000 : 70;
      if (to != proc_null) messages.add(true, to, DataType::f32, count, "");
      if (from != proc_null) messages.add(false, from, DataType::f32, count, "");
      messages.begin(stream);
      comm.synchronize(stream);
      const Statistics before = comm.statistics();
      void* const send = to == proc_null ? nullptr : arena.send.device();
      void* const recv = from == proc_null ? nullptr : arena.recv.device();
      const auto call = [&] {
        if (way == 0)
          return comm.send_recv(send, count, to, recv, count, from, DataType::f32, stream);
        const Group group;
        comm.send(send, count, DataType::f32, to, stream);
        comm.recv(recv, count, DataType::f32, from, stream);
      };
      if (way != 2) {
        call();
      } else {
        const auto graph = captured(comm, stream, call);
        graph->launch(stream.native());
      }
      messages.expect_right(stream);
      if (last == 0) {
        EXPECT_EQ(comm.statistics().calls, before.calls);
        EXPECT_EQ(comm.statistics().launches, before.launches);
      }
    }
    // Whatever else is said of such an end; the type is checked all the same.
    const Statistics before = comm.statistics();
    comm.send(nullptr, ~std::size_t{0}, DataType::f64, proc_null);
    comm.recv(reinterpret_cast<void*>(1), 3, DataType::f64, proc_null);
    comm.send_recv(nullptr, 7, proc_null, nullptr, 7, proc_null, DataType::u8);
    {
      const Group group;
      comm.recv(nullptr, 1, DataType::u8, proc_null);
    }
    EXPECT_EQ(comm.statistics().calls, before.calls);
    comm.synchronize();
  });
}

TEST_P(Messages, BothEndsAreOneCall) {
  run([](Communicator& comm, Arena& arena) {
    Round messages(comm, arena, 1);
    messages.add(true, comm.rank(), DataType::f32, 100, "");
    messages.add(false, comm.rank(), DataType::f32, 100, "");
    messages.begin();
    const int next = (comm.rank() + 1) % comm.size(),
              before = (comm.rank() + comm.size() - 1) % comm.size();
    const auto call = [&](std::size_t at) {
      comm.send_recv(static_cast<const float*>(arena.send.device()) + at, 10, next,
                     static_cast<float*>(arena.recv.device()) + at, 10, before, DataType::f32);
    };
    const Statistics start = comm.statistics();
    call(0);
    const Statistics alone = comm.statistics();
    EXPECT_EQ(alone.calls, start.calls + 1);
    EXPECT_EQ(alone.batched, start.batched);
    {
      const Group group;
      call(10);
      call(20);
    }
    const Statistics grouped = comm.statistics();
    EXPECT_EQ(grouped.calls, alone.calls + 2);
    EXPECT_EQ(grouped.batched, alone.batched + 2);
    EXPECT_EQ(grouped.groups, alone.groups + 1);
    comm.synchronize();
  });
}

}  // namespace
}  // namespace plait::test
