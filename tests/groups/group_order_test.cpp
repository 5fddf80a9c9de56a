// Groups with calls of several communicators on one stream, which each rank names in its own order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "communicator/groups/birth.hpp"
#include "communicator/groups/open_group.hpp"
#include "groups/groups.hpp"
#include "support/data.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using Word = std::uint32_t;
constexpr std::size_t longest = 64;  // words of a call

enum Kind { sum, message, largest, kinds };
constexpr ReduceOp op_of(Kind kind) { return kind == largest ? ReduceOp::max : ReduceOp::sum; }

/// A communicator, with a number that is the same on all its ranks and no other's.
struct Numbered {
  unsigned number;
  Communicator comm;
};

/// Those of a rank: pairs that form a ring, duplicates, parts of parts, and a part in which ranks
/// have another order. A rank has some that its neighbours in others don't have.
std::vector<Numbered> make_communicators(Communicator& world) {
  std::vector<Numbered> all;
  const int rank = world.rank(), ranks = world.size();
  unsigned number = 0;
  const auto add = [&](Communicator& parent, bool member, int key) {
    if (auto part = parent.split(member ? 0 : -1, key)) all.push_back({number, *std::move(part)});
    ++number;
  };
  for (int first = 0; first < ranks; ++first)
    add(world, rank == first || rank == (first + 1) % ranks, rank);
  all.push_back({number++, world.duplicate()});
  Communicator reversed = *world.split(0, -rank);
  Communicator again = reversed.duplicate();
  add(again, rank != 1, 0);
  add(reversed, rank < 2, 0);
  add(world, rank != 0, 0);
  all.push_back({number++, std::move(again)});
  all.push_back({number++, std::move(reversed)});
  return all;
}

PLAIT_FOR_RANKS(GroupOrder, testing::Values(2, 3, 4));

/// The calls of a rank in one group.
class Round {
 public:
  Round(std::uint64_t round, Communicator& world, std::vector<Numbered>& comms, Arena& arena)
      : round_(round), world_(world), comms_(comms), arena_(arena) {
    const std::size_t bytes = comms.size() * kinds * longest * sizeof(Word);
    arena.send.place(0, bytes);
    arena.recv.place(0, bytes);
    for (std::size_t c = 0; c < comms.size(); ++c) {
      calls_.emplace_back();
      for (const Kind kind : {sum, message, largest}) {
        if (hash(round, comms[c].number, kind) % 3 == 0) continue;
        calls_.back().push_back(kind);
        for (std::size_t i = 0; i < longest; ++i) {
          const Word value = element<Word>(seed(c, kind), comms[c].comm.rank(), i, op_of(kind));
          std::memcpy(arena.send.image() + (place(c, kind) + i) * sizeof value, &value,
                      sizeof value);
        }
      }
    }
  }

  /// All calls of one communicator in order, and else in this rank's own order.
  void call(const std::vector<Stream>& streams) {
    std::vector<std::size_t> made(comms_.size(), 0), left;
    for (std::size_t c = 0; c < comms_.size(); ++c)
      for (std::size_t i = 0; i < calls_[c].size(); ++i) left.push_back(c);
    while (!left.empty()) {
      const std::uint64_t drawn = hash(round_, own_rank(), left.size());
      const auto next = left.begin() + static_cast<std::ptrdiff_t>(drawn % left.size());
      call(*next, calls_[*next][made[*next]++], streams[(drawn >> 32) % streams.size()]);
      left.erase(next);
    }
  }

  void expect_right() const {
    EXPECT_EQ(arena_.recv.damage(), "");
    for (std::size_t c = 0; c < comms_.size(); ++c)
      for (const Kind kind : calls_[c]) {
        const int from = sender(c);
        if (kind == message && from == proc_null) continue;
        for (std::size_t i = 0; i < count(c, kind); ++i) {
          const Word got = arena_.recv.get<Word>(place(c, kind) + i);
          const Word wanted = kind == message
                                  ? element<Word>(seed(c, kind), from, i, ReduceOp::sum)
                                  : static_cast<Word>(expected<Word>(
                                        seed(c, kind), comms_[c].comm.size(), i, op_of(kind), 1));
          ASSERT_EQ(got, wanted) << "round " << round_ << ", rank " << world_.rank()
                                 << ", communicator " << comms_[c].number << ", kind " << kind
                                 << ", element " << i;
        }
      }
  }

 private:
  std::uint64_t own_rank() const { return static_cast<std::uint64_t>(world_.rank()); }
  static std::size_t place(std::size_t c, Kind kind) { return (c * kinds + kind) * longest; }
  std::uint64_t seed(std::size_t c, Kind kind) const {
    return (round_ * 100 + comms_[c].number) * kinds + kind;
  }
  std::size_t count(std::size_t c, Kind kind) const { return 1 + hash(seed(c, kind)) % longest; }
  /// Round a ring, or from rank 0 to rank 1 alone: the others have no neighbour.
  bool is_ring(std::size_t c) const { return hash(round_, comms_[c].number, 99) % 2 == 0; }
  int receiver(std::size_t c) const {
    const Communicator& comm = comms_[c].comm;
    if (is_ring(c)) return (comm.rank() + 1) % comm.size();
    return comm.rank() == 0 && comm.size() > 1 ? 1 : proc_null;
  }
  int sender(std::size_t c) const {
    const Communicator& comm = comms_[c].comm;
    if (is_ring(c)) return (comm.rank() + comm.size() - 1) % comm.size();
    return comm.rank() == 1 ? 0 : proc_null;
  }
  void call(std::size_t c, Kind kind, const Stream& stream) const {
    Communicator& comm = comms_[c].comm;
    const Word* const from = static_cast<Word*>(arena_.send.device()) + place(c, kind);
    Word* const to = static_cast<Word*>(arena_.recv.device()) + place(c, kind);
    if (kind == message) {
      comm.send(from, count(c, kind), DataType::u32, receiver(c), stream);
      comm.recv(to, count(c, kind), DataType::u32, sender(c), stream);
    } else {
      comm.all_reduce(from, to, count(c, kind), DataType::u32, op_of(kind), stream);
    }
  }

  std::uint64_t round_;
  Communicator& world_;
  std::vector<Numbered>& comms_;
  Arena& arena_;
  std::vector<std::vector<Kind>> calls_;
};

/// Groups of all communicators, on one stream or on two that events tie before and after.
void run_rounds(int ranks, int rounds) {
  run_ranks(ranks, [&](Communicator& world, int) {
    std::vector<Numbered> comms = make_communicators(world);
    Arena arena(world);
    std::vector<Stream> both, one;
    for (int i = 0; i < 2; ++i) both.push_back(world.create_stream());
    one.push_back(world.create_stream());
    const auto filled = backend_of(world).create_event(false);
    const auto done = backend_of(world).create_event(false);
    for (int round = 0; round < rounds; ++round) {
      const std::vector<Stream>& streams = round % 2 == 0 ? one : both;
      Round calls(static_cast<std::uint64_t>(round), world, comms, arena);
      const StreamRef first = streams.front(), last = streams.back();
      arena.send.upload(first);
      arena.recv.upload(first);
      filled->record(first.native());
      filled->wait_in(last.native());
      {
        Group group;
        calls.call(streams);
      }
      done->record(last.native());
      done->wait_in(first.native());
      arena.recv.download(first);
      world.synchronize(first);
      for (Numbered& own : comms) own.comm.synchronize(first);
      calls.expect_right();
    }
    world.bootstrap().barrier();
  });
}

TEST_P(GroupOrder, CommunicatorsAreNamedInAnyOrder) {
  run_rounds(GetParam(), under_tsan ? 10 : 60);
}

/// With PLAIT_CHECK=1 the ranks wait for each other on the host, too.
TEST_P(GroupOrder, CommunicatorsAreComparedInTheSameOrder) {
  const ScopedEnvironment check("PLAIT_CHECK", "1");
  run_rounds(GetParam(), 5);
}

/// Of two communicators on one stream, rank 2 has only the collective of the first.
TEST(GroupsOfTwoCommunicators, ARankHasNoMessage) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  for (const bool says_null : {false, true})
    run_ranks(3, [&](Communicator& a, int rank) {
      Communicator b = a.duplicate();
      Buffer<int> data = a.allocate<int>(4);
      std::vector<int> values;
      for (std::size_t i = 0; i < 4; ++i) values.push_back(element<int>(1, rank, i, ReduceOp::sum));
      a.copy(data.data(), values.data(), 4 * sizeof(int));
      const int to = rank == 0 ? 1 : proc_null, from = rank == 1 ? 0 : proc_null;
      Group group;
      if (to != proc_null || says_null) a.send(data.data(), 1, DataType::i32, to);
      if (from != proc_null || says_null) a.recv(data.data() + 1, 1, DataType::i32, from);
      b.all_reduce(data.data() + 2, data.data() + 2, 1, DataType::i32, ReduceOp::sum);
      a.all_reduce(data.data() + 3, data.data() + 3, 1, DataType::i32, ReduceOp::sum);
      group.end();
      std::vector<int> got(4);
      a.copy(got.data(), data.data(), 4 * sizeof(int));
      a.synchronize();
      b.synchronize();
      EXPECT_EQ(got[1], rank == 1 ? element<int>(1, 0, 0, ReduceOp::sum) : values[1]);
      for (std::size_t i = 2; i < 4; ++i)
        EXPECT_EQ(got[i], expected<int>(1, 3, i, ReduceOp::sum, 1));
      a.bootstrap().barrier();
    });
}

/// One thread names all calls of the first rank before those of the second.
void run_one_thread_for_two_ranks(std::size_t many) {
  constexpr std::size_t calls = calls_in_turn;
  // Those of one operation share a launch.
  constexpr std::array ops{ReduceOp::sum,  ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                           ReduceOp::band, ReduceOp::bor,  ReduceOp::bxor};
  auto bootstraps = make_thread_bootstraps(2);
  struct Side {
    std::vector<Communicator> comms;
    Buffer<int> data;
  };
  std::array<Side, 2> sides;
  on_threads(2, [&](int rank) {
    auto& [comms, data] = sides[static_cast<std::size_t>(rank)];
    CommunicatorOptions options = test_options();
    if (target() != BackendKind::host) options.device = rank;
    comms.push_back(
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options));
    while (comms.size() < many) comms.push_back(comms.front().duplicate());
    data = comms.front().allocate<int>(many * calls);
    std::vector<int> values;
    for (std::size_t i = 0; i < many * calls; ++i)
      values.push_back(element<int>(3, rank, i, ReduceOp::sum));
    comms.front().copy(data.data(), values.data(), values.size() * sizeof(int));
    comms.front().synchronize();
  });
  {
    Group group;
    for (Side& side : sides)
      for (std::size_t comm = 0; comm < many; ++comm)
        for (std::size_t call = 0; call < calls; ++call) {
          int* const one = side.data.data() + comm * calls + call;
          side.comms[comm].all_reduce(one, one, 1, DataType::i32, ops[call % ops.size()]);
        }
  }
  for (Side& side : sides) {
    std::vector<int> got(many * calls);
    side.comms.front().copy(got.data(), side.data.data(), got.size() * sizeof(int));
    for (Communicator& comm : side.comms) comm.synchronize();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], expected<int>(3, 2, i, ops[i % calls % ops.size()], 1)) << i;
  }
  on_threads(2, [&](int rank) {
    auto& [comms, data] = sides[static_cast<std::size_t>(rank)];
    data = {};
    comms.clear();
  });
}

/// More than a queue of launches holds.
TEST(GroupsOfManyCommunicators, OneThreadForTwoRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_one_thread_for_two_ranks(80);
}

TEST(GroupsOfManyCommunicators, OneThreadComparesTheCallsOfTwoRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment check("PLAIT_CHECK", "1");
  run_one_thread_for_two_ranks(2);
}

/// All ranks have one answer, and what is made later is greater, whoever made it.
TEST(Births, AreAnOrderOfAllCommunicators) {
  constexpr int ranks = 3, rounds = 20;
  auto bootstraps = make_thread_bootstraps(ranks);
  std::vector<std::vector<Birth>> births(ranks);
  on_threads(ranks, [&](int rank) {
    auto& own = births[static_cast<std::size_t>(rank)];
    Bootstrap& all = *bootstraps[static_cast<std::size_t>(rank)];
    for (int round = 0; round < rounds; ++round) {
      own.push_back(settle_birth(all.all_gather(propose_birth())));
      const auto part = all.split(rank == round % ranks ? 1 : 0, 0);
      const Birth of_part = settle_birth(part->all_gather(propose_birth()));
      EXPECT_LT(own.back(), of_part);
      all.barrier();
    }
  });
  EXPECT_TRUE(std::is_sorted(births[0].begin(), births[0].end()));
  for (const auto& other : births) EXPECT_EQ(other, births[0]);
}

}  // namespace
}  // namespace plait::test
