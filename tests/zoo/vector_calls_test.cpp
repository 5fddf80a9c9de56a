// Calls with a count per rank or per neighbour: all_gather_v, gather_v, scatter_v and
// neighbor_all_to_all_v, against a plain computation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using VectorCalls = Messages;
INSTANTIATE_TEST_SUITE_P(All, VectorCalls, testing::Range(1, under_tsan ? 5 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Blocks of these counts in any order, with gaps between them.
struct Layout {
  std::vector<std::size_t> counts, displacements;
  std::size_t end = 0;

  Layout(std::vector<std::size_t> of, std::uint64_t seed)
      : counts(std::move(of)), displacements(counts.size()) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return hash(seed, 1, a) < hash(seed, 1, b); });
    for (const std::size_t i : order) {
      displacements[i] = end + hash(seed, 2, i) % 4;
      end = displacements[i] + counts[i];
    }
  }
  Communicator::BlocksOf blocks() const { return {counts, displacements}; }
};

/// A call on one rank: the blocks that it reads and those that it writes. Nothing else may change.
class Case {
 public:
  struct Source {
    int from, to;
    std::size_t number = 0;
  };
  Case(Communicator& comm, Arena& arena, DataType type, std::size_t send, std::size_t recv)
      : comm_(comm),
        send_{arena.send, send * size_of(type), {}},
        recv_{arena.recv, recv * size_of(type), {}},
        size_(size_of(type)) {}

  std::byte* send(std::size_t at = 0) const { return address(send_, at); }
  std::byte* recv(std::size_t at = 0) const { return address(recv_, at); }
  /// `in_recv`: the block lies in the buffer of the others, as in place.
  void reads(std::size_t at, std::size_t count, Source source, bool in_recv = false) {
    blocks_.push_back({in_recv ? &recv_ : &send_, at * size_, count * size_, source, true});
  }
  void writes(std::size_t at, std::size_t count, Source source, bool in_send = false) {
    blocks_.push_back({in_send ? &send_ : &recv_, at * size_, count * size_, source, false});
  }

  /// Makes the call alone, in a group, or captured once and replayed, and looks at the result.
  void check(std::uint64_t way, const std::function<void(StreamRef)>& call) {
    const Stream stream = comm_.create_stream();
    fill(way, stream);
    if (way % 3 == 0) {
      call(stream);
    } else if (way % 3 == 1) {
      const Group group;
      call(stream);
    } else {
      comm_.synchronize(stream);
      backend_of(comm_).begin_capture(stream.native());
      call(stream);
      const auto graph = backend_of(comm_).end_capture(stream.native());
      for (std::uint64_t replay = 0; replay < 2; ++replay) {
        graph->launch(stream.native());
        expect_right(stream);
        fill(way + 100 * replay, stream);
      }
      graph->launch(stream.native());
    }
    expect_right(stream);
  }

 private:
  struct Side {
    DeviceArray& array;
    std::size_t bytes;
    std::vector<std::byte> expected;
  };
  struct Block {
    Side* side;
    std::size_t at, bytes;
    Source source;
    bool is_input;
  };
  std::byte* address(const Side& side, std::size_t at) const {
    return static_cast<std::byte*>(side.array.device()) + at * size_;
  }
  void fill(std::uint64_t seed, StreamRef stream) {
    const auto put = [&](const Block& block, std::byte* image) {
      for (std::size_t i = 0; i < block.bytes; ++i)
        image[block.at + i] =
            content(seed, block.source.from, block.source.to, block.source.number, i);
    };
    for (Side* side : {&send_, &recv_}) side->array.place(0, side->bytes);
    for (const Block& block : blocks_)
      if (block.is_input) put(block, block.side->array.image());
    for (Side* side : {&send_, &recv_}) {
      side->expected.assign(side->array.image(), side->array.image() + side->bytes);
      side->array.upload(stream);
    }
    for (const Block& block : blocks_)
      if (!block.is_input) put(block, block.side->expected.data());
  }
  void expect_right(StreamRef stream) {
    for (Side* side : {&send_, &recv_}) side->array.download(stream);
    comm_.synchronize(stream);
    for (const Side* side : {&send_, &recv_}) {
      EXPECT_EQ(side->array.damage(), "");
      const std::byte* const image = side->array.image();
      const auto wrong = std::mismatch(side->expected.begin(), side->expected.end(), image);
      if (wrong.first != side->expected.end())
        report(comm_, fmt::format("{}: byte {} of {}", side == &send_ ? "send" : "recv",
                                  wrong.second - image, side->bytes));
    }
  }

  Communicator& comm_;
  Side send_, recv_;
  std::size_t size_;
  std::vector<Block> blocks_;
};

constexpr int everyone = 63;  // as the receiver of a block that several get
constexpr DataType types[] = {DataType::f32, DataType::bf16, DataType::u8, DataType::f64};

std::size_t some_count(std::uint64_t h) {
  return h % 3 == 0 ? 0 : h % 7 == 0 ? (h >> 8) % 9000 : (h >> 8) % 100;
}
std::vector<std::size_t> some_counts(std::uint64_t round, int ranks) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < ranks; ++rank)
    counts.push_back(round % 9 == 8 ? 0
                                    : some_count(hash(round, 9, static_cast<std::uint64_t>(rank))));
  return counts;
}
std::size_t at(const std::vector<std::size_t>& values, int rank) {
  return values[static_cast<std::size_t>(rank)];
}
constexpr std::uint64_t rounds = under_tsan ? 9 : 18;

TEST_P(VectorCalls, AllGather) {
  run([](Communicator& comm, Arena& arena) {
    const auto names = ways();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const int rank = comm.rank();
      const DataType type = types[round % 4];
      const bool in_place = round % 5 >= 3;
      const Layout received(some_counts(round, comm.size()),
                            round * 100 + static_cast<std::uint64_t>(rank));
      const std::size_t count = at(received.counts, rank), own = at(received.displacements, rank);
      Case one(comm, arena, type, count, received.end);
      one.reads(in_place ? own : 0, count, {rank, everyone}, in_place);
      for (int peer = 0; peer < comm.size(); ++peer)
        one.writes(at(received.displacements, peer), at(received.counts, peer), {peer, everyone});
      one.check(round, [&](StreamRef stream) {
        comm.all_gather_v(in_place ? one.recv(own) : one.send(), count, one.recv(),
                          received.blocks(), type, stream,
                          {.algorithm = names[round % names.size()]});
      });
    }
  });
}

TEST_P(VectorCalls, Gather) {
  run([](Communicator& comm, Arena& arena) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const int rank = comm.rank(), root = static_cast<int>(round) % comm.size();
      const DataType type = types[round % 4];
      const bool is_root = rank == root, in_place = is_root && round % 5 >= 3;
      const Layout received(some_counts(round, comm.size()), round);
      const std::size_t count = at(received.counts, rank), own = at(received.displacements, rank);
      Case one(comm, arena, type, count, received.end);
      one.reads(in_place ? own : 0, count, {rank, root}, in_place);
      for (int peer = 0; is_root && peer < comm.size(); ++peer)
        one.writes(at(received.displacements, peer), at(received.counts, peer), {peer, root});
      one.check(round, [&](StreamRef stream) {
        comm.gather_v(in_place ? one.recv(own) : one.send(), count, is_root ? one.recv() : nullptr,
                      is_root ? received.blocks() : Communicator::BlocksOf{}, type, root, stream);
      });
    }
  });
}

TEST_P(VectorCalls, Scatter) {
  run([](Communicator& comm, Arena& arena) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const int rank = comm.rank(), root = static_cast<int>(round) % comm.size();
      const DataType type = types[round % 4];
      const bool is_root = rank == root, in_place = is_root && round % 5 >= 3;
      const Layout sent(some_counts(round, comm.size()), round);
      const std::size_t count = at(sent.counts, rank), own = at(sent.displacements, rank);
      Case one(comm, arena, type, sent.end, count);
      for (int peer = 0; is_root && peer < comm.size(); ++peer)
        one.reads(at(sent.displacements, peer), at(sent.counts, peer), {root, peer});
      if (!in_place) one.writes(0, count, {root, rank});
      one.check(round, [&](StreamRef stream) {
        comm.scatter_v(is_root ? one.send() : nullptr,
                       is_root ? sent.blocks() : Communicator::BlocksOf{},
                       in_place ? one.send(own) : one.recv(), count, type, root, stream);
      });
    }
  });
}

/// The peers of one rank in one direction, with blocks.
struct Neighbors {
  std::vector<int> peers;
  Layout layout;
  Communicator::NeighborBlocks blocks() const {
    return {peers, layout.counts, layout.displacements};
  }
};

/// From none to three messages between any two ranks, and from each to itself; their order is kept
/// only between the two. Some entries are no rank.
Neighbors some_neighbors(std::uint64_t round, int rank, int ranks, bool sends) {
  std::vector<std::pair<int, std::size_t>> all;
  for (std::size_t number = 0; number < 3; ++number)
    for (int i = 0; i < ranks; ++i) {
      const int peer = (i + static_cast<int>(hash(round, number, sends ? 1 : 2) % 8)) % ranks;
      const auto from = static_cast<std::uint64_t>(sends ? rank : peer),
                 to = static_cast<std::uint64_t>(sends ? peer : rank);
      if (hash(round, from, to) % 4 > number)
        all.emplace_back(peer, some_count(hash(round + 77, from * 64 + to, number)));
      if (hash(round, 5, number + static_cast<std::size_t>(i)) % 3 == 0)
        all.emplace_back(proc_null, 12);
    }
  std::vector<int> peers;
  std::vector<std::size_t> counts;
  for (const auto& [peer, count] : all) {
    peers.push_back(peer);
    counts.push_back(count);
  }
  return {std::move(peers), Layout(std::move(counts), round * 2 + (sends ? 1 : 0))};
}

TEST_P(VectorCalls, AnyNeighbors) {
  run([](Communicator& comm, Arena& arena) {
    const auto names = ways();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const int rank = comm.rank();
      const DataType type = types[round % 4];
      const Neighbors sent = some_neighbors(round, rank, comm.size(), true),
                      received = some_neighbors(round, rank, comm.size(), false);
      Case one(comm, arena, type, sent.layout.end, received.layout.end);
      for (const bool sends : {true, false}) {
        const Neighbors& neighbors = sends ? sent : received;
        for (std::size_t i = 0; i < neighbors.peers.size(); ++i) {
          const int peer = neighbors.peers[i];
          if (peer == proc_null) continue;
          const auto before = neighbors.peers.begin() + static_cast<std::ptrdiff_t>(i);
          const auto number =
              static_cast<std::size_t>(std::count(neighbors.peers.begin(), before, peer));
          const std::size_t begin = neighbors.layout.displacements[i],
                            count = neighbors.layout.counts[i];
          if (sends) one.reads(begin, count, {rank, peer, number});
          else one.writes(begin, count, {peer, rank, number});
        }
      }
      one.check(round, [&](StreamRef stream) {
        comm.neighbor_all_to_all_v(one.send(), sent.blocks(), one.recv(), received.blocks(), type,
                                   stream, {.algorithm = names[round % names.size()]});
      });
    }
  });
}

/// The halos of a ring of cells, also where left and right are one rank or this one, and of a line
/// whose ends have one neighbour.
TEST_P(VectorCalls, HalosOfARingAndOfALine) {
  run([](Communicator& comm, Arena& arena) {
    constexpr std::size_t cells = 10, halo = 3;
    const int ranks = comm.size(), rank = comm.rank();
    for (std::uint64_t round = 0; round < 6; ++round) {
      const bool ring = round < 3;
      const int left = ring || rank > 0 ? (rank + ranks - 1) % ranks : proc_null,
                right = ring || rank < ranks - 1 ? (rank + 1) % ranks : proc_null;
      // Data go to the left, then to the right.
      const std::vector<int> to{left, right}, from{right, left};
      const std::vector<std::size_t> counts{halo, halo}, edges{halo, cells}, halos{halo + cells, 0};
      Case one(comm, arena, DataType::f64, 0, halo + cells + halo);
      one.reads(halo, halo, {rank, everyone, 0}, true);
      one.reads(cells, halo, {rank, everyone, 1}, true);
      if (left != proc_null) one.writes(0, halo, {left, everyone, 1});
      if (right != proc_null) one.writes(halo + cells, halo, {right, everyone, 0});
      one.check(round, [&](StreamRef stream) {
        comm.neighbor_all_to_all_v(one.recv(), {to, counts, edges}, one.recv(),
                                   {from, counts, halos}, DataType::f64, stream);
      });
    }
  });
}

/// Bad arguments: one sentence, nothing enqueued, and the communicator works on.
TEST_P(VectorCalls, BadArgumentsAreRefused) {
  run([](Communicator& comm, Arena& arena) {
    const int self = comm.rank(), ranks = comm.size(), root = 0;
    arena.send.place(0, 4096);
    arena.recv.place(0, 4096);
    arena.recv.upload({});
    void* const from = arena.send.device();
    void* const to = arena.recv.device();
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> ones(n, 1), begins(n), large(n, ~std::size_t{0} / 2), longer(n + 1, 1);
    std::iota(begins.begin(), begins.end(), std::size_t{0});
    const auto f32 = DataType::f32;
    const auto refused = [&](std::string_view what, const std::function<void()>& call,
                             const testing::Matcher<std::string>& message) {
      const auto who = HasSubstr(fmt::format("{}: rank {}: ", what, self));
      expect_error(error_of(call), ErrorCode::invalid_argument, AllOf(who, message));
      const auto grouped = [&] {
        const Group group;
        call();
      };
      expect_error(error_of(grouped), ErrorCode::invalid_argument,
                   AllOf(who, message, HasSubstr("nothing of the group was enqueued")));
    };
    const std::string no_root = fmt::format("root {} is none of the ranks", ranks);
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 1, to, {longer, begins}, f32);
        },
        HasSubstr(fmt::format("{} recv counts, with {} ranks", n + 1, n)));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 1, to, {ones, longer}, f32);
        },
        HasSubstr(fmt::format("{} recv displacements, with {} ranks", n + 1, n)));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 2, to, {ones, begins}, f32);
        },
        HasSubstr("its block has 2 elements, and its block of recv has 1"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 1, to, {ones, large}, f32);
        },
        HasSubstr("overflows"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, large[0], to, {large, begins}, f32);
        },
        HasSubstr("overflows"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(nullptr, 1, to, {ones, begins}, f32);
        },
        HasSubstr("send is null, with count 1"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 1, nullptr, {ones, begins}, f32);
        },
        HasSubstr("recv is null, with count 1"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(nullptr, 1, nullptr, {ones, begins}, f32);
        },
        HasSubstr("is null"));
    refused(
        "all_gather_v",
        [&] {
          comm.all_gather_v(from, 1, to, {ones, begins}, static_cast<DataType>(99));
        },
        HasSubstr("99 is no data type"));
    if (ranks > 1) {
      const std::vector<std::size_t> zeros(n);
      expect_error(error_of([&] {
                     comm.all_gather_v(from, 1, to, {ones, zeros}, f32);
                   }),
                   ErrorCode::invalid_argument,
                   AllOf(HasSubstr(fmt::format("all_gather_v: rank {}: the block from", self)),
                         HasSubstr("use the same memory")));
      refused(
          "neighbor_all_to_all_v",
          [&] {
            const std::vector<int> peers{ranks};
            comm.neighbor_all_to_all_v(from, {peers, {ones.data(), 1}, {begins.data(), 1}}, to, {},
                                       f32);
          },
          HasSubstr(fmt::format("peer {} is none of the ranks", ranks)));
    }
    for (const bool gathers : {true, false}) {
      const std::string what = gathers ? "gather_v" : "scatter_v";
      const auto call = [&](std::size_t count, const Communicator::BlocksOf& blocks, int at) {
        if (gathers) comm.gather_v(from, count, to, blocks, f32, at);
        else comm.scatter_v(from, blocks, to, count, f32, at);
      };
      refused(
          what,
          [&] {
            call(1, {ones, begins}, ranks);
          },
          HasSubstr(no_root));
      refused(
          what,
          [&] {
            call(1, {ones, begins}, -1);
          },
          HasSubstr("root -1 is none"));
      if (self != root) {  // as many calls as the root's are refused
        for (int i = 0; i < 3; ++i)
          refused(
              what,
              [&] {
                call(1, {ones, begins}, -1);
              },
              HasSubstr("root -1 is none"));
        continue;
      }
      refused(
          what, [&] { call(1, {}, root); },
          HasSubstr("0 " + std::string(gathers ? "recv" : "send") + " counts"));
      refused(
          what,
          [&] {
            call(3, {ones, begins}, root);
          },
          HasSubstr("its block has 3 elements"));
      refused(
          what,
          [&] {
            call(1, {ones, large}, root);
          },
          HasSubstr("overflows"));
    }
    if (self != root) {
      refused(
          "gather_v", [&] { comm.gather_v(to, 2, to, {}, f32, -1); }, HasSubstr("root -1 is none"));
    } else if (ranks > 1) {
      std::vector<std::size_t> counts(n, 2), overlapping = begins;
      refused(
          "gather_v",
          [&] {
            comm.gather_v(to, 2, to, {counts, overlapping}, f32, root);
          },
          HasSubstr("the block from rank 1 and the root's own, which is in place, overlap"));
    }
    refused(
        "neighbor_all_to_all_v",
        [&] {
          const std::vector<int> peers{self, self};
          comm.neighbor_all_to_all_v(from, {peers, ones, {begins.data(), 1}}, to, {}, f32);
        },
        HasSubstr("send counts and 1 displacements for 2 peers"));
    arena.recv.download({});
    comm.synchronize();
    EXPECT_TRUE(arena.recv.untouched()) << "something was enqueued";

    // Nothing at all is no message, wherever it would lie.
    const std::vector<std::size_t> zeros(n);
    comm.all_gather_v(nullptr, 0, nullptr, {zeros, large}, f32);
    comm.gather_v(nullptr, 0, nullptr, {zeros, large}, f32, root);
    comm.scatter_v(nullptr, {zeros, large}, nullptr, 0, f32, root);
    comm.neighbor_all_to_all_v(nullptr, {}, nullptr, {}, f32);
    comm.synchronize();
    EXPECT_FALSE(comm.async_error().has_value());
  });
}

/// A rank and the others must agree on its count, also if one of them says 0.
TEST(VectorCallsThatDiffer, InACount) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  for (const int what : {0, 1, 2, 3})
    for (const std::size_t wrong : {std::size_t{0}, std::size_t{7}}) {
      RankGroup group(3, patient());
      group.run([&](Communicator& comm, Arena& arena) {
        const std::size_t mine = comm.rank() == 1 ? wrong : 10;
        std::vector<std::size_t> counts(3, 10), begins{0, 10, 20};
        const std::vector<int> next{(comm.rank() + 1) % 3}, before{(comm.rank() + 2) % 3};
        if (what == 0) counts[1] = mine;
        void* const send = arena.send.device();
        void* const recv = arena.recv.device();
        static_cast<void>(error_of([&] {
          if (what == 0)
            comm.all_gather_v(send, counts[static_cast<std::size_t>(comm.rank())], recv,
                              {counts, begins}, DataType::f32);
          else if (what == 1) comm.gather_v(send, mine, recv, {counts, begins}, DataType::f32, 0);
          else if (what == 2) comm.scatter_v(send, {counts, begins}, recv, mine, DataType::f32, 0);
          else
            comm.neighbor_all_to_all_v(send, {next, {&mine, 1}, {begins.data(), 1}}, recv,
                                       {before, {counts.data(), 1}, {begins.data(), 1}},
                                       DataType::f32);
        }));
        static_cast<void>(error_of([&] { comm.synchronize(); }));
        const auto sides =
            what == 2 ? AllOf(HasSubstr("message 1 from rank 0 to rank 1"),
                              HasSubstr("rank 0 sends 10 f32 elements"),
                              HasSubstr(fmt::format("rank 1 receives {} f32 elements", wrong)))
                      : AllOf(HasSubstr("message 1 from rank 1 to rank"),
                              HasSubstr(fmt::format("rank 1 sends {} f32 elements", wrong)),
                              HasSubstr("receives 10 f32 elements"));
        expect_error(heard(comm), ErrorCode::mismatch, sides);
      });
    }
}

}  // namespace
}  // namespace plait::test
