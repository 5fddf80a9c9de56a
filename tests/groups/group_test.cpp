// Groups: calls that are planned together and launched once, on several streams and in graphs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "groups/groups.hpp"
#include "groups/messages.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

std::vector<std::size_t> mixed(std::size_t messages, std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t m = 0; m < messages; ++m)
    counts.push_back(1 + hash(11, 0, m) % (hash(12, 0, m) % 4 == 0 ? most : 40));
  return counts;
}

INSTANTIATE_TEST_SUITE_P(All, Groups, testing::Values(1, 2, 3, 4), TestName());

TEST_P(Groups, ManyCallsAreOneLaunch) {
  run(std::vector<std::size_t>(40, 2), [](Communicator& comm, Arena&, Messages& messages) {
    const Statistics before = comm.statistics();
    group_start();
    messages.call_all();
    EXPECT_EQ(comm.statistics().calls, before.calls) << "enqueued before the end";
    group_end();
    const Statistics after = comm.statistics();
    EXPECT_EQ(after.calls - before.calls, 40u);
    EXPECT_EQ(after.launches - before.launches, 1u);
    EXPECT_EQ(after.groups - before.groups, 1u);
    EXPECT_EQ(after.batched - before.batched, 40u);
    messages.expect_right();
  });
}

TEST_P(Groups, EveryAlgorithmThatTakesBatches) {
  int found = 0;
  for (const std::string& algorithm : all_reduce_algorithms()) {
    Topology topology;
    topology.ranks = GetParam();
    topology.indexed_arguments = true;  // else fewer do
    if (!Registry::instance().find(algorithm)->batches(topology)) continue;
    ++found;
    run(mixed(60, 3000), [&](Communicator& comm, Arena&, Messages& messages) {
      for (Messages::Value round = 0; round < 5; ++round) {
        messages.fill(round);
        const Statistics before = comm.statistics();
        {
          Group group;
          messages.call_all({}, {.algorithm = algorithm});
        }
        EXPECT_EQ(comm.statistics().launches - before.launches, 1u);
        messages.expect_right();
        messages.call(0, {}, {.algorithm = algorithm});  // the same memory without a group
      }
    });
  }
  EXPECT_GE(found, 2);
}

TEST_P(Groups, NestedOnesAreEnqueuedByTheOutermostEnd) {
  run(std::vector<std::size_t>(6, 2), [](Communicator& comm, Arena&, Messages& messages) {
    const Statistics before = comm.statistics();
    {
      Group outer;
      messages.call(0);
      {
        Group inner;
        messages.call(1);
        group_start();
        messages.call(2);
        group_end();
        messages.call(3);
        inner.end();
        inner.end();  // once is all it can
        EXPECT_TRUE(group_is_open());
      }
      EXPECT_EQ(comm.statistics().launches, before.launches);
      messages.call(4);
      messages.call(5);
      outer.end();
    }
    EXPECT_EQ(comm.statistics().launches - before.launches, 1u);
    EXPECT_EQ(comm.statistics().groups - before.groups, 1u);
    messages.expect_right();
  });
}

/// Types, operations, sizes and named algorithms mixed; long ones are not batched.
TEST_P(Groups, AllSortsOfCalls) {
  run({30, 60000, 1, 20000, 7, 7, 500}, [](Communicator& comm, Arena& arena, Messages& messages) {
    constexpr std::size_t count = 1000;
    const auto value = [](std::size_t i) { return element<float>(1, 0, i, ReduceOp::max); };
    arena.symmetric_send.put<float>(count, value);
    auto* floats = static_cast<float*>(arena.symmetric_send.device());
    {
      Group group;
      messages.call(0);
      messages.call(1, {}, {.algorithm = "ring"});
      comm.all_reduce(floats, floats, 300, DataType::f32, ReduceOp::max);
      messages.call(2);
      messages.call(3);
      comm.all_reduce(floats + 300, floats + 300, 300, DataType::f32, ReduceOp::max);
      messages.call(4, {}, {.algorithm = "oneshot_ll"});
      messages.call(5, {}, {.algorithm = "oneshot_ll"});
      comm.all_reduce(floats + 600, floats + 600, 0, DataType::f32, ReduceOp::max);
      comm.barrier();
      messages.call(6, {}, {.blocks = 2});
      comm.all_reduce(floats + 600, floats + 600, 400, DataType::f32, ReduceOp::max);
    }
    messages.expect_right();
    arena.symmetric_send.download({});
    comm.synchronize();
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(arena.symmetric_send.get<float>(i), value(i));
  });
}

TEST_P(Groups, InPlaceAndPremultiplied) {
  ForRanks::run([](Communicator& comm, Arena& arena) {
    constexpr std::size_t messages = 20, count = 51;
    // Scales differ: they can't share a launch.
    const auto scale_of = [](std::size_t message) { return message % 2 == 0 ? 0.5 : 2.0; };
    constexpr auto op = ReduceOp::premul_sum;
    DeviceArray& memory = arena.symmetric_recv;
    memory.put<double>(messages * count,
                       [&](std::size_t i) { return element<double>(1, comm.rank(), i, op); });
    {
      Group group;
      for (std::size_t m = 0; m < messages; ++m) {
        double* data = static_cast<double*>(memory.device()) + m * count;
        comm.all_reduce(data, data, count, DataType::f64, op, {}, {.scale = scale_of(m)});
      }
    }
    memory.download({});
    comm.synchronize();
    for (std::size_t i = 0; i < messages * count; ++i)
      ASSERT_EQ(memory.get<double>(i), expected<double>(1, comm.size(), i, op, scale_of(i / count)))
          << i;
  });
}

/// The ranks' launches add the terms of different numbers of ranks.
TEST_P(Groups, ScansShareALaunch) {
  ForRanks::run([](Communicator& comm, Arena& arena) {
    constexpr std::size_t scans = 6, count = 77, all = scans * count;
    for (const Collective collective : {Collective::scan, Collective::exscan}) {
      for (DeviceArray* memory : {&arena.send, &arena.recv})
        memory->put<double>(
            all, [&](std::size_t i) { return element<double>(1, comm.rank(), i, ReduceOp::sum); });
      comm.synchronize();
      const Statistics before = comm.statistics();
      {
        Group group;
        for (std::size_t at = 0; at < all; at += count)
          comm.enqueue({.collective = collective, .type = DataType::f64, .count = count},
                       static_cast<double*>(arena.send.device()) + at,
                       static_cast<double*>(arena.recv.device()) + at, {},
                       {.algorithm = "oneshot_ll"});
      }
      EXPECT_EQ(comm.statistics().launches - before.launches, 1u);
      arena.recv.download({});
      comm.synchronize();
      const int terms = terms_of(collective, comm.rank(), comm.size());
      for (std::size_t i = 0; i < all; ++i)  // without terms, it is left as it was
        ASSERT_EQ(arena.recv.get<double>(i),
                  expected<double>(1, std::max(terms, 1), i, ReduceOp::sum, 1))
            << name_of(collective) << ", rank " << comm.rank() << ", " << i;
      EXPECT_EQ(arena.recv.damage(), "");
    }
  });
}

TEST_P(Groups, FreedSymmetricMemoryLivesUntilTheEnd) {
  run({1000}, [](Communicator& comm, Arena&, Messages& messages) {
    {
      Group group;
      const auto send = comm.allocate<Messages::Value>(1000),
                 other = comm.allocate<Messages::Value>(1000);
      comm.copy(send.data(), messages.send(0), 1000 * sizeof(Messages::Value));
      comm.all_reduce(send.data(), messages.recv(0), 1000, DataType::u64, ReduceOp::sum);
      comm.all_reduce(other.data(), other.data(), 1000, DataType::u64, ReduceOp::sum);
      const auto sent = comm.allocate<Messages::Value>(1000),
                 received = comm.allocate<Messages::Value>(1000);
      const int n = comm.size(), to = (comm.rank() + 1) % n, from = (comm.rank() + n - 1) % n;
      comm.send_recv(sent.data(), 1000, to, received.data(), 1000, from, DataType::u64, {},
                     {.symmetric = true});
    }
    messages.expect_right();
  });
}

/// Both streams' earlier work comes first, and what either does later sees all of the group.
TEST_P(Groups, StreamsAreJoined) {
  run({5000, 5000, 4, 4}, [](Communicator& comm, Arena&, Messages& messages) {
    const Stream a = comm.create_stream(), b = comm.create_stream();
    comm.synchronize();
    for (Messages::Value round = 0; round < 20; ++round) {
      messages.fill(round, b);  // all inputs come on b
      const std::uint64_t launches = comm.statistics().launches;
      {
        Group group;
        messages.call(0, a);
        messages.call(1, b);
        messages.call(2, a);
        messages.call(3, b);
      }
      EXPECT_LT(comm.statistics().launches - launches, 4u);
      messages.expect_right(round % 2 == 0 ? StreamRef(a)
                                           : StreamRef(b));  // all outputs are seen on either
    }
    comm.synchronize(a);
    comm.synchronize(b);
  });
}

TEST_P(Groups, SeveralCommunicators) {
  run({2, 60, 3, 3000}, [](Communicator& comm, Arena&, Messages& messages) {
    Communicator other = comm.duplicate();
    const auto part = comm.split(comm.rank() % 2, 0);
    const Stream stream = other.create_stream();
    const Statistics before = comm.statistics(), other_before = other.statistics();
    comm.synchronize();
    {
      Group group;
      messages.call(0);
      other.all_reduce(messages.send(1), messages.recv(1), 60, DataType::u64, ReduceOp::sum,
                       stream);
      messages.call(2);
      other.all_reduce(messages.send(3), messages.recv(3), 3000, DataType::u64, ReduceOp::sum,
                       stream);
    }
    EXPECT_EQ(comm.statistics().launches - before.launches, 1u);
    EXPECT_EQ(other.statistics().calls - other_before.calls, 2u);
    other.synchronize(stream);
    messages.expect_right();
    comm.bootstrap().barrier();
  });
}

TEST_P(Groups, CapturedOnceReplayedOften) {
  // Few fit the arguments, many do not.
  for (const std::size_t size : {std::size_t{10}, std::size_t{300}}) {
    run(std::vector<std::size_t>(size, 2), [&](Communicator& comm, Arena&, Messages& messages) {
      const Stream stream = comm.create_stream();
      comm.synchronize();
      const Statistics before = comm.statistics();
      const auto graph = captured(comm, stream, in_a_group([&] { messages.call_all(stream); }));
      const Statistics after = comm.statistics();
      const Statistics::Work &kept = after.persistent, &kept_before = before.persistent;
      EXPECT_EQ(kept.items - kept_before.items, size > 100 ? size : 0);
      EXPECT_EQ(after.in_arguments.items - before.in_arguments.items, size > 100 ? 0 : size);
      EXPECT_EQ(after.in_fifo.items, before.in_fifo.items);
      const int replays = under_tsan ? 10 : 100;
      for (int replay = 0; replay < replays; ++replay) {
        messages.fill(static_cast<Messages::Value>(replay), stream);
        graph->launch(stream.native());
        if (replay % 3 == 0) {  // plain groups in between
          Group group;
          messages.call_all(stream);
        }
        messages.expect_right(stream);
      }
    });
  }
}

TEST_P(Groups, CapturedWhollyOrNotAtAll) {
  run({10, 20}, [](Communicator& comm, Arena&, Messages& messages) {
    const Stream captured = comm.create_stream(), plain = comm.create_stream();
    comm.synchronize();
    const Statistics before = comm.statistics();
    backend_of(comm).begin_capture(captured.native());
    group_start();
    messages.call(0, captured);
    messages.call(1, plain);
    expect_invalid([] { group_end(); }, "captured wholly or not at all");
    static_cast<void>(backend_of(comm).end_capture(captured.native()));
    expect_nothing_enqueued(comm, messages, before);
  });
}

/// More messages than the arguments hold: counted by where they were put.
TEST_P(Groups, WorkGoesWhereItFits) {
  run(std::vector<std::size_t>(500, 2), [](Communicator& comm, Arena&, Messages& messages) {
    const auto in_group = [&](std::size_t size) {
      Group group;
      for (std::size_t m = 0; m < size; ++m) messages.call(m);
    };
    const Statistics start = comm.statistics();
    in_group(20);
    const Statistics few = comm.statistics();
    EXPECT_EQ(few.in_arguments.items - start.in_arguments.items, 20u);
    EXPECT_EQ(few.in_fifo.items, start.in_fifo.items);
    comm.synchronize();
    messages.fill(2);
    in_group(500);
    const Statistics many = comm.statistics();
    EXPECT_EQ(many.in_arguments.items, few.in_arguments.items);
    EXPECT_EQ(many.in_fifo.items - few.in_fifo.items, 500u);
    EXPECT_EQ(many.in_fifo.launches - few.in_fifo.launches, 1u);
    EXPECT_EQ(many.persistent.items, start.persistent.items);
    messages.expect_right();
  });
}

}  // namespace
}  // namespace plait::test
