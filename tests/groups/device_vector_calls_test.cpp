// Calls with a count per rank on a device group, alone, in a group and in a graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "groups/device_groups.hpp"
#include "plait/group.hpp"
#include "support/data.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Counts = std::vector<std::size_t>;
using Values = std::vector<std::int32_t>;

/// Blocks of these counts, with one element between them.
struct Layout {
  Counts counts, displacements;
  std::size_t end = 0;
  explicit Layout(Counts of) : counts(std::move(of)) {
    for (const std::size_t count : counts) {
      displacements.push_back(end + 1);
      end += count + 1;
    }
  }
  Communicator::BlocksOf blocks() const { return {counts, displacements}; }
};

std::int32_t element(std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<std::int32_t>(1 + hash(from * 16 + to, 3, i) % 100000);
}
constexpr std::size_t everyone = 15;  // as the receiver of a block that several get
std::size_t some_count(std::uint64_t round, std::size_t from, std::size_t to) {
  const std::uint64_t h = hash(round, from, to);
  return h % 3 == 0 ? 0 : (h >> 8) % (h % 5 == 0 ? 3000 : 40);
}

/// Two arrays on each device.
class Devices {
 public:
  explicit Devices(int devices) : gpus(devices), size(static_cast<std::size_t>(devices)) {}
  static constexpr std::size_t room = 30000;

  Gpus gpus;
  std::size_t size;
  std::vector<Buffer<std::int32_t>> send = gpus.group.allocate<std::int32_t>(room),
                                    recv = gpus.group.allocate<std::int32_t>(room);

  void put(const std::vector<Buffer<std::int32_t>>& to, const std::vector<Values>& values) {
    for (std::size_t rank = 0; rank < size; ++rank) {
      Communicator& device = gpus.group.device(static_cast<int>(rank));
      device.copy(to[rank].data(), values[rank].data(), values[rank].size() * sizeof(std::int32_t));
      device.synchronize();
    }
  }
  /// Makes the call alone, in a group, or twice as a graph, and compares what is received.
  void check(const std::vector<Values>& sent, const std::vector<Values>& expected,
             const std::function<void(DeviceGroup::Streams)>& call) {
    put(send, sent);
    for (int way = 0; way < 3; ++way) {
      std::vector<Values> none;
      for (const Values& values : expected) none.emplace_back(values.size(), -1);
      put(recv, none);
      if (way == 0) {
        call({});
        gpus.group.synchronize();
      } else if (way == 1) {
        const Group group;
        call(gpus.streams);
        gpus.group.barrier(gpus.streams);
        call(gpus.streams);
      } else {
        replay(call);
      }
      gpus.group.synchronize(gpus.streams);
      for (std::size_t rank = 0; rank < size; ++rank) {
        Values values(expected[rank].size());
        Communicator& device = gpus.group.device(static_cast<int>(rank));
        device.copy(values.data(), recv[rank].data(), values.size() * sizeof values[0]);
        device.synchronize();
        EXPECT_EQ(values, expected[rank]) << "rank " << rank << ", way " << way;
      }
    }
  }

 private:
  void replay(const std::function<void(DeviceGroup::Streams)>& call) {
    const auto on_each = [&](const auto& body) {
      for (std::size_t rank = 0; rank < size; ++rank) {
        Backend& backend = backend_of(gpus.group.device(static_cast<int>(rank)));
        const DeviceScope device(backend);
        body(backend, rank, gpus.streams[rank].native());
      }
    };
    std::vector<std::unique_ptr<Graph>> graphs;
    on_each([](Backend& b, std::size_t, NativeStream stream) { b.begin_capture(stream); });
    call(gpus.streams);
    on_each([&](Backend& b, std::size_t, NativeStream stream) {
      graphs.push_back(b.end_capture(stream));
    });
    for (int replay = 0; replay < 2; ++replay)
      on_each(
          [&](Backend&, std::size_t rank, NativeStream stream) { graphs[rank]->launch(stream); });
    gpus.group.synchronize(gpus.streams);  // before the graphs end
  }
};

Values poison(std::size_t size) { return Values(size, -1); }
void place(Values& values, std::size_t at, std::size_t count, std::size_t from, std::size_t to) {
  for (std::size_t i = 0; i < count; ++i) values[at + i] = element(from, to, i);
}

TEST_P(DeviceGroups, AllToAllV) {
  Devices devices(GetParam());
  const std::size_t n = devices.size;
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::vector<Layout> sent, received;
    std::vector<Values> sends, expected;
    for (std::size_t rank = 0; rank < n; ++rank) {
      Counts to, from;
      for (std::size_t peer = 0; peer < n; ++peer) {
        to.push_back(some_count(round, rank, peer));
        from.push_back(some_count(round, peer, rank));
      }
      const Layout& out = sent.emplace_back(to);
      const Layout& in = received.emplace_back(from);
      Values& send = sends.emplace_back(poison(out.end));
      Values& recv = expected.emplace_back(poison(in.end));
      for (std::size_t peer = 0; peer < n; ++peer) {
        place(send, out.displacements[peer], to[peer], rank, peer);
        place(recv, in.displacements[peer], from[peer], peer, rank);
      }
    }
    std::vector<Communicator::BlocksOf> to, from;
    for (std::size_t rank = 0; rank < n; ++rank) {
      to.push_back(sent[rank].blocks());
      from.push_back(received[rank].blocks());
    }
    devices.check(sends, expected, [&](DeviceGroup::Streams streams) {
      devices.gpus.group.all_to_all_v(devices.send, to, devices.recv, from, DataType::i32, streams);
    });
  }
}

/// Gathered by all and by each root, and scattered.
TEST_P(DeviceGroups, BlocksOfAllDevices) {
  Devices devices(GetParam());
  const std::size_t n = devices.size;
  DeviceGroup& group = devices.gpus.group;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const auto root = static_cast<std::size_t>(round) % n;
    Counts counts;
    for (std::size_t rank = 0; rank < n; ++rank) counts.push_back(some_count(round, rank, 9));
    const Layout layout(counts);
    const Communicator::BlocksOf blocks = layout.blocks();
    Values all = poison(layout.end);
    std::vector<Values> own, nothing;
    for (std::size_t rank = 0; rank < n; ++rank) {
      place(all, layout.displacements[rank], counts[rank], rank, everyone);
      place(own.emplace_back(poison(counts[rank])), 0, counts[rank], rank, everyone);
      nothing.push_back(poison(layout.end));
    }
    devices.check(own, std::vector<Values>(n, all), [&](DeviceGroup::Streams streams) {
      group.all_gather_v(devices.send, devices.recv, blocks, DataType::i32, streams);
    });
    std::vector<Values> at_root = nothing;
    at_root[root] = all;
    devices.check(own, at_root, [&](DeviceGroup::Streams streams) {
      std::vector<void*> recv(n);
      recv[root] = devices.recv[root].data();
      group.gather_v(devices.send, recv, blocks, DataType::i32, static_cast<int>(root), streams);
    });
    devices.check(at_root, own, [&](DeviceGroup::Streams streams) {
      std::vector<const void*> send(n);
      send[root] = devices.send[root].data();
      group.scatter_v(send, blocks, devices.recv, DataType::i32, static_cast<int>(root), streams);
    });
  }
}

/// The sum of uneven blocks, and of equal ones.
TEST_P(DeviceGroups, ReduceScatterV) {
  Devices devices(GetParam());
  const std::size_t n = devices.size;
  for (std::uint64_t round = 0; round < 4; ++round) {
    Counts counts;
    std::size_t all = 0;
    for (std::size_t rank = 0; rank < n; ++rank) {
      counts.push_back(round == 3 ? 33 : some_count(round, rank, 11));
      all += counts.back();
    }
    std::vector<Values> sends, sums;
    for (std::size_t rank = 0; rank < n; ++rank)
      place(sends.emplace_back(poison(all)), 0, all, rank, everyone);
    std::size_t begin = 0;
    for (const std::size_t count : counts) {
      Values& sum = sums.emplace_back(count, 0);
      for (const Values& send : sends)
        for (std::size_t i = 0; i < count; ++i) sum[i] += send[begin + i];
      begin += count;
    }
    devices.check(sends, sums, [&](DeviceGroup::Streams streams) {
      devices.gpus.group.reduce_scatter_v(devices.send, counts, devices.recv, DataType::i32,
                                          ReduceOp::sum, streams);
    });
  }
  const auto f32 = DataType::f32;
  const Counts longer(n + 1, 1);
  const auto call = [&] {
    devices.gpus.group.reduce_scatter_v(devices.send, longer, devices.recv, f32, ReduceOp::sum);
  };
  expect_invalid(call, "counts, with");
  const auto grouped = [&] {
    const Group group;
    call();
  };
  expect_invalid(grouped, "counts, with", "nothing of the group was enqueued");
}

/// A ring: data to the left, then to the right. With two devices both are one peer.
TEST_P(DeviceGroups, Neighbors) {
  Devices devices(GetParam());
  const int n = GetParam();
  const Counts counts{20, 99, 3000}, edges{0, 99, 20}, halos{3000, 99, 0};
  std::vector<std::vector<int>> to, from;
  std::vector<Communicator::NeighborBlocks> sent, received;
  std::vector<Values> sends, expected;
  for (int rank = 0; rank < n; ++rank) {
    const int left = (rank + n - 1) % n, right = (rank + 1) % n;
    to.push_back({left, proc_null, right});
    from.push_back({right, proc_null, left});
    place(sends.emplace_back(poison(3020)), 0, 3020, static_cast<std::size_t>(rank), everyone);
    Values& halo = expected.emplace_back(poison(3020));
    for (std::size_t i = 0; i < 3000; ++i)
      halo[i] = element(static_cast<std::size_t>(left), everyone, 20 + i);
    place(halo, 3000, 20, static_cast<std::size_t>(right), everyone);
  }
  for (int rank = 0; rank < n; ++rank) {
    sent.push_back({to[static_cast<std::size_t>(rank)], counts, edges});
    received.push_back({from[static_cast<std::size_t>(rank)], counts, halos});
  }
  devices.check(sends, expected, [&](DeviceGroup::Streams streams) {
    devices.gpus.group.neighbor_all_to_all_v(devices.send, sent, devices.recv, received,
                                             DataType::i32, streams);
  });
}

/// One sentence, which names the device, and nothing enqueued.
TEST_P(DeviceGroups, BadVectorCallsAreRefused) {
  Devices devices(GetParam());
  const std::size_t n = devices.size;
  DeviceGroup& group = devices.gpus.group;
  const auto before = devices.gpus.statistics();
  const Layout layout(Counts(n, 5));
  std::vector<Communicator::BlocksOf> all(n, layout.blocks()), more(n + 1, layout.blocks());
  const auto refused = [&](const testing::Matcher<std::string>& message, const auto& call) {
    expect_refused(ErrorCode::invalid_argument, message, call);
  };
  refused(HasSubstr("all_to_all_v: " + std::to_string(n + 1) + " lists of blocks for"),
          [&] { group.all_to_all_v(devices.send, all, devices.recv, more, DataType::i32); });
  const std::vector<void*> too_many(n + 1);
  refused(HasSubstr("gather_v: " + std::to_string(n + 1) + " recv buffers for"),
          [&] { group.gather_v(devices.send, too_many, all[0], DataType::i32, 0); });
  refused(AllOf(HasSubstr("scatter_v: rank 0: root"), HasSubstr("(rank 0: ")),
          [&] { group.scatter_v(devices.send, all[0], devices.recv, DataType::i32, GetParam()); });
  const Counts short_of(n - 1, 5);
  refused(HasSubstr("all_gather_v: rank 0: "), [&] {
    group.all_gather_v(devices.send, devices.recv, {short_of, layout.displacements}, DataType::i32);
  });
  std::vector<Communicator::BlocksOf> other = all;
  Counts different(n, 5);
  different.back() = 4;
  other.back() = {different, layout.displacements};
  refused(HasSubstr("rank " + std::to_string(n - 1) + " sends to itself"),
          [&] { group.all_to_all_v(devices.send, all, devices.recv, other, DataType::i32); });
  std::vector<void*> same(n, devices.recv[0].data());
  if (n > 1)
    refused(HasSubstr("use the same memory"),
            [&] { group.all_gather_v(devices.send, same, all[0], DataType::i32); });
  group.synchronize();
  EXPECT_EQ(devices.gpus.statistics().calls, before.calls);
  EXPECT_EQ(devices.gpus.statistics().launches, before.launches);
}

}  // namespace
}  // namespace plait::test
