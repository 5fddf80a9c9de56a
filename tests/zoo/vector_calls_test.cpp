// Calls with a count per rank or per neighbour, of pointers and of spans, against a plain
// computation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

PLAIT_FOR_RANKS(VectorCalls, message_ranks());

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
      const auto graph = captured(comm_, stream, [&] { call(stream); });
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
std::size_t at(const std::vector<std::size_t>& values, int rank) {
  return values[static_cast<std::size_t>(rank)];
}
constexpr std::uint64_t rounds = under_tsan ? 9 : 18;
/// Then the elements are f32.
bool is_of_spans(std::uint64_t round) { return round % 4 == 0 && round > 0; }

enum class Kind { all_gather, gather, scatter, all_to_all };

void check_blocks(Communicator& comm, Arena& arena, Kind kind, std::uint64_t round,
                  const CallOptions& options) {
  const int rank = comm.rank(), root = static_cast<int>(round) % comm.size();
  const DataType type = types[round % 4];
  const bool all = kind == Kind::all_to_all, is_root = rank == root,
             sends = kind != Kind::scatter || is_root, receives = kind != Kind::gather || is_root,
             many_sent = all || kind == Kind::scatter, many_received = kind != Kind::scatter,
             in_place = round % 5 >= 3 && (is_root ? !all : kind == Kind::all_gather);
  const auto count_of = [&](int from, int to) {
    if (round % 9 == 8) return std::size_t{0};
    const int block = all ? 64 + 8 * from + to : kind == Kind::scatter ? to : from;
    return some_count(hash(round, 9, static_cast<std::uint64_t>(block)));
  };
  const auto source = [&](int from, int to) {
    return Case::Source{from, kind == Kind::all_gather ? everyone : to};
  };
  std::vector<std::size_t> to_each, from_each;
  for (int peer = 0; peer < comm.size(); ++peer) {
    to_each.push_back(count_of(rank, peer));
    from_each.push_back(count_of(peer, rank));
  }
  const std::uint64_t seed = 100 * round + static_cast<unsigned>(rank);
  const Layout sent(to_each, seed), received(from_each, seed + 50);
  const std::size_t count = count_of(rank, rank),
                    own = at((many_sent ? sent : received).displacements, rank),
                    sent_size = !sends      ? 0
                                : many_sent ? sent.end
                                            : count,
                    received_size = !receives       ? 0
                                    : many_received ? received.end
                                                    : count;
  Case one(comm, arena, type, sent_size, received_size);
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (many_sent && sends)
      one.reads(at(sent.displacements, peer), at(sent.counts, peer), source(rank, peer));
    if (many_received && receives)
      one.writes(at(received.displacements, peer), at(received.counts, peer), source(peer, rank));
  }
  if (!many_sent) one.reads(in_place ? own : 0, count, source(rank, root), in_place);
  if (!many_received && !in_place) one.writes(0, count, source(root, rank));
  const std::byte* const from = !sends                   ? nullptr
                                : in_place && !many_sent ? one.recv(own)
                                                         : one.send();
  std::byte* const to = !receives                    ? nullptr
                        : in_place && !many_received ? one.send(own)
                                                     : one.recv();
  const Communicator::BlocksOf none{}, out = sends ? sent.blocks() : none,
                                       in = receives ? received.blocks() : none;
  const std::span from_span(reinterpret_cast<const float*>(from), sent_size);
  const std::span to_span(reinterpret_cast<float*>(to), received_size);
  const bool spans = is_of_spans(round);
  one.check(round, [&](StreamRef stream) {
    if (kind == Kind::all_gather && spans)
      comm.all_gather_v(from_span, to_span, in, stream, options);
    else if (kind == Kind::all_gather)
      comm.all_gather_v(from, count, to, in, type, stream, options);
    else if (kind == Kind::gather && spans)
      comm.gather_v(from_span, to_span, in, root, stream, options);
    else if (kind == Kind::gather) comm.gather_v(from, count, to, in, type, root, stream, options);
    else if (kind == Kind::scatter && spans)
      comm.scatter_v(from_span, out, to_span, root, stream, options);
    else if (kind == Kind::scatter)
      comm.scatter_v(from, out, to, count, type, root, stream, options);
    else if (spans) comm.all_to_all_v(from_span, out, to_span, in, stream, options);
    else comm.all_to_all_v(from, out, to, in, type, stream, options);
  });
}

TEST_P(VectorCalls, Blocks) {
  run([](Communicator& comm, Arena& arena) {
    const auto names = ways();
    for (const Kind kind : {Kind::all_gather, Kind::gather, Kind::scatter, Kind::all_to_all})
      for (std::uint64_t round = 0; round < rounds; ++round)
        check_blocks(comm, arena, kind, round, {.algorithm = names[round % names.size()]});
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
        const CallOptions options{.algorithm = names[round % names.size()]};
        if (is_of_spans(round))
          comm.neighbor_all_to_all_v(
              std::span(reinterpret_cast<const float*>(one.send()), sent.layout.end), sent.blocks(),
              std::span(reinterpret_cast<float*>(one.recv()), received.layout.end),
              received.blocks(), stream, options);
        else
          comm.neighbor_all_to_all_v(one.send(), sent.blocks(), one.recv(), received.blocks(), type,
                                     stream, options);
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

}  // namespace
}  // namespace plait::test
