// send_recv with the option `symmetric`: straight into the receiver's buffer, by every way, alone,
// in groups, in graphs; what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "support/covering.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> all_ways() {
  std::vector<std::string> names{""};
  for (const Subject& subject : other_algorithms())
    if (subject.collective == Collective::send_recv) names.push_back(subject.algorithm);
  return names;
}

/// All ranks send to the rank `distance` places further on, and each message has another length.
/// Every rank keeps room for the longest at the same place.
struct Shift {
  int distance;
  std::string way;
  unsigned blocks;
  std::size_t longest, at;  // bytes

  std::size_t bytes(std::uint64_t seed, int sender) const {
    return longest == 0 ? 0
           : hash(seed, static_cast<std::uint64_t>(sender), at) % 5 == 0
               ? 0
               : hash(seed, at, static_cast<std::uint64_t>(sender)) % longest + 1;
  }
};

/// A round of shifts in the arena's memory: `recv` symmetric, `send` ordinary.
class Shifts {
 public:
  Shifts(Communicator& comm, Arena& arena, std::uint64_t seed)
      : comm_(comm), arena_(arena), seed_(seed) {}

  void add(int distance, const std::string& way, std::size_t longest, unsigned blocks = 0,
           std::size_t gap = 0) {
    shifts_.push_back({distance, way, blocks, longest, end_ + gap});
    end_ += gap + longest;
  }
  void begin(StreamRef stream = {}) {
    arena_.send.place(comm_.rank() % 3, end_);
    arena_.symmetric_recv.place(0, end_);
    for (const Shift& shift : shifts_)
      for (std::size_t i = 0; i < sent(shift); ++i)
        arena_.send.image()[shift.at + i] = content(comm_.rank(), shift, i);
    arena_.send.upload(stream);
    arena_.symmetric_recv.upload(stream);
  }
  void call(const Shift& shift, StreamRef stream = {}) const {
    comm_.send_recv(static_cast<std::byte*>(arena_.send.device()) + shift.at, sent(shift),
                    peer(shift.distance),
                    static_cast<std::byte*>(arena_.symmetric_recv.device()) + shift.at,
                    received(shift), peer(-shift.distance), DataType::u8, stream,
                    {.algorithm = shift.way, .blocks = shift.blocks, .symmetric = true});
  }
  void call_all(StreamRef stream = {}) const {
    for (const Shift& shift : shifts_) call(shift, stream);
  }
  void expect_right(StreamRef stream = {}) {
    arena_.symmetric_recv.download(stream);
    arena_.send.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(arena_.send.damage(), "");
    EXPECT_EQ(arena_.symmetric_recv.damage(), "");
    for (const Shift& shift : shifts_)
      for (std::size_t i = 0; i < received(shift); ++i)
        if (const std::byte got = arena_.symmetric_recv.image()[shift.at + i];
            got != content(peer(-shift.distance), shift, i))
          return report(
              comm_, fmt::format("seed {}: {} bytes by {} from {}: byte {} is {}", seed_,
                                 received(shift), shift.way.empty() ? "what is chosen" : shift.way,
                                 peer(-shift.distance), i, static_cast<int>(got)));
  }

 private:
  int peer(int distance) const {
    return ((comm_.rank() + distance) % comm_.size() + comm_.size()) % comm_.size();
  }
  std::size_t sent(const Shift& shift) const { return shift.bytes(seed_, comm_.rank()); }
  std::size_t received(const Shift& shift) const {
    return shift.bytes(seed_, peer(-shift.distance));
  }
  std::byte content(int sender, const Shift& shift, std::size_t i) const {
    return static_cast<std::byte>(
        hash(seed_ + shift.at, static_cast<std::uint64_t>(sender), i / 8) >> i % 8 * 8);
  }

  Communicator& comm_;
  Arena& arena_;
  std::uint64_t seed_;
  std::vector<Shift> shifts_;
  std::size_t end_ = 0;
};

PLAIT_FOR_RANKS(SymmetricMessages, message_ranks());

/// Alone: every way, by any number of blocks; one call follows another into the same memory.
TEST_P(SymmetricMessages, OneAfterTheOther) {
  run([](Communicator& comm, Arena& arena) {
    std::uint64_t seed = static_cast<unsigned>(comm.size());
    const auto names = all_ways();
    constexpr unsigned blocks[] = {0, 1, 3, 200};
    constexpr std::size_t longest[] = {9, 5000, under_tsan ? 20000 : 300000};
    for (const Levels& levels :
         covering({names.size(), std::size(blocks), std::size(longest)}, seed)) {
      Shifts shifts(comm, arena, ++seed);
      shifts.add(comm.size() > 1 ? 1 : 0, names[levels[0]], longest[levels[2]], blocks[levels[1]],
                 seed % 5);
      for (int again = 0; again < 3; ++again) {
        shifts.begin();
        shifts.call_all();
        shifts.expect_right();
      }
    }
  });
}

/// The message that a rank sends and the one that it receives go different ways, one of them by a
/// copy engine, also if only one block runs at a time.
TEST_P(SymmetricMessages, OfDifferentSizes) {
  for (const std::string below :
       {"pairwise_ll", "pairwise_push", "pairwise_put", "pairwise_pull"}) {
    const ScopedEnvironment rules("PLAIT_ALGO", "send_recv:0-2K=" + below + ";2K-=pairwise_copy");
    const ScopedEnvironment one_at_a_time("PLAIT_HOST_WORKERS", "1");
    RankGroup group(GetParam());
    group.run([&](Communicator& comm, Arena& arena) {
      for (std::uint64_t round = 0; round < 8; ++round) {
        Shifts shifts(comm, arena, round);
        for (std::uint64_t i = 0; i < (round < 4 ? 1 : 3); ++i)
          shifts.add(static_cast<int>(hash(round, i, 2) % 32) % comm.size(), "",
                     round % 2 == 0 ? 4000 : 30000);
        shifts.begin();
        if (round < 4) {
          shifts.call_all();
        } else {
          const Group group_of_all;
          shifts.call_all();
        }
        shifts.expect_right();
      }
    });
  }
}

/// Any shifts by any ways in one group, together with messages that say nothing of symmetric
/// memory.
TEST_P(SymmetricMessages, InGroups) {
  run([](Communicator& comm, Arena& arena) {
    const auto names = all_ways();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    for (std::uint64_t round = 0; round < (under_tsan ? 12 : 60); ++round) {
      Shifts shifts(comm, arena, round);
      for (std::uint64_t i = 0; i < hash(round) % 9; ++i) {
        const std::uint64_t h = hash(round, i, 1);
        shifts.add(static_cast<int>(h % 32) % comm.size(), names[(h >> 8) % names.size()],
                   (h >> 16) % (h % 3 == 0 ? 60000 : 700), 0, (h >> 48) % 7);
      }
      arena.symmetric_send.place(0, 100);
      arena.recv.place(0, 100);
      const auto plain = [&](int rank) {
        return static_cast<std::byte>(hash(round, static_cast<std::uint64_t>(rank), 2));
      };
      std::fill_n(arena.symmetric_send.image(), 100, plain(comm.rank()));
      arena.symmetric_send.upload({});
      arena.recv.upload({});
      shifts.begin();
      {
        const Group group;
        shifts.call_all();
        comm.send_recv(arena.symmetric_send.device(), 100, (comm.rank() + 1) % comm.size(),
                       arena.recv.device(), 100, before, DataType::u8);
      }
      arena.recv.download({});
      shifts.expect_right();
      EXPECT_EQ(std::count(arena.recv.image(), arena.recv.image() + 100, plain(before)), 100);
    }
  });
}

/// Ends of a group need not be grouped on the other rank, if their order there can't block: rank 0
/// groups what it sends, or what it receives, and the others do not.
TEST_P(SymmetricMessages, GroupedOnOneSide) {
  run([](Communicator& comm, Arena& arena) {
    const std::array<std::size_t, 3> counts{40000, 9, 3000};
    constexpr std::size_t room = 43009;
    const auto content = [](int sender, std::size_t i) {
      return static_cast<std::byte>(hash(7, static_cast<std::uint64_t>(sender), i));
    };
    for (const std::string& way : all_ways())
      for (const bool root_sends : {true, false}) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        arena.send.place(0, room);
        arena.symmetric_recv.place(0, room * ranks);
        for (std::size_t i = 0; i < room; ++i) arena.send.image()[i] = content(comm.rank(), i);
        arena.send.upload({});
        arena.symmetric_recv.upload({});
        auto* const from = static_cast<std::byte*>(arena.send.device());
        auto* const to = static_cast<std::byte*>(arena.symmetric_recv.device());
        // A message between rank 0 and another lies at the place of the other's number.
        const auto call_all = [&](int other) {
          const bool sends = (comm.rank() == 0) == root_sends;
          const int peer = comm.rank() == 0 ? other : 0;
          std::size_t at = 0;
          for (const std::size_t count : counts) {
            comm.send_recv(from + at, sends ? count : 0, peer,
                           to + room * static_cast<std::size_t>(other) + at, sends ? 0 : count,
                           peer, DataType::u8, {},
                           {.algorithm = count == 9 ? "pairwise_put" : way, .symmetric = true});
            at += count;
          }
        };
        if (comm.rank() == 0) {
          const Group group;
          for (int other = 1; other < comm.size(); ++other) call_all(other);
        } else {
          call_all(comm.rank());
        }
        arena.symmetric_recv.download({});
        comm.synchronize();
        EXPECT_EQ(arena.symmetric_recv.damage(), "");
        if ((comm.rank() == 0) == root_sends) continue;
        for (std::size_t other = 1; other < ranks; ++other)
          for (std::size_t i = 0;
               i < room && (comm.rank() == 0 || comm.rank() == static_cast<int>(other)); ++i)
            if (arena.symmetric_recv.image()[room * other + i] !=
                content(root_sends ? 0 : static_cast<int>(other), i))
              return report(comm, fmt::format("by {}: byte {} of what passes between 0 and {}", way,
                                              i, other));
      }
  });
}

/// A captured call counts its offers and arrivals on the device.
TEST_P(SymmetricMessages, InAGraph) {
  run([](Communicator& comm, Arena& arena) {
    Shifts shifts(comm, arena, 5);
    for (const std::string& way : all_ways()) shifts.add(1 % comm.size(), way, 3000, 0, 3);
    const Stream stream = comm.create_stream();
    const auto graph = captured(comm, stream, [&] {
      shifts.begin(stream);
      {
        const Group group;
        shifts.call_all(stream);
      }
    });
    for (int replay = 0; replay < 8; ++replay) {
      graph->launch(stream.native());
      shifts.expect_right(stream);
    }
  });
}

TEST_P(SymmetricMessages, BadArgumentsAreRefused) {
  run([](Communicator& comm, Arena& arena) {
    arena.send.place(0, 100);
    arena.symmetric_recv.place(0, 100);
    arena.symmetric_recv.upload({});
    const int self = comm.rank();
    const std::string who = fmt::format("rank {}: ", self);
    void* const from = arena.send.device();
    void* const to = arena.symmetric_recv.device();
    const CallOptions symmetric{.symmetric = true};
    const auto nowhere = [&](const void* recv, std::size_t bytes) {
      return fmt::format(
          "send_recv: {}recv = {} with {} bytes is not in symmetric memory, as the option "
          "`symmetric` says",
          who, recv, bytes);
    };
    const DataType f32 = DataType::f32;
    expect_invalid(
        [&] { comm.send_recv(from, 3, self, arena.recv.device(), 3, self, f32, {}, symmetric); },
        nowhere(arena.recv.device(), 12));
    // The sender sends more than the receiver has room for.
    expect_invalid(
        [&] {
          comm.send_recv(from, Arena::default_capacity, self, to, 0, self, f32, {}, symmetric);
        },
        nowhere(to, 4 * Arena::default_capacity));
    expect_invalid([&] { comm.send_recv(from, 1, self, nullptr, 0, self, f32, {}, symmetric); },
                   "is not in symmetric memory");
    const std::string only =
        "the option `symmetric` is for send_recv, which says where the receiver's buffer lies";
    expect_invalid([&] { comm.send(from, 3, f32, self, {}, symmetric); }, "send: " + who + only);
    expect_invalid([&] { comm.recv(to, 3, f32, self, {}, symmetric); }, "recv: " + who + only);
    const std::vector<std::size_t> zeros(static_cast<std::size_t>(comm.size()));
    expect_invalid(
        [&] {
          comm.all_to_all_v(from, {zeros, zeros}, to, {zeros, zeros}, f32, {}, symmetric);
        },
        "all_to_all_v: " + who + only);
    for (const std::string way : {"pairwise_put", "pairwise_copy"})
      expect_throws(
          ErrorCode::unsupported,
          [&] { comm.send_recv(from, 3, self, to, 3, self, f32, {}, {.algorithm = way}); }, way);
    arena.symmetric_recv.download({});
    comm.synchronize();
    EXPECT_TRUE(arena.symmetric_recv.untouched()) << "something was enqueued";
  });
}

/// Ends at different offsets are reported with both sides.
TEST(SymmetricMessagesThatDiffer, AreReported) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  RankGroup group(2, patient());
  group.run([&](Communicator& comm, Arena& arena) {
    arena.send.place(0, 4096);
    arena.symmetric_recv.place(0, 4096);
    auto* const to =
        static_cast<float*>(arena.symmetric_recv.device()) + (comm.rank() == 0 ? 0 : 64);
    comm.send_recv(arena.send.device(), 10, 1 - comm.rank(), to, 10, 1 - comm.rank(), DataType::f32,
                   {}, {.symmetric = true});
    static_cast<void>(error_of([&] { comm.synchronize(); }));
    expect_error(heard(comm), ErrorCode::mismatch,
                 AllOf(HasSubstr("message 1 from rank"), HasSubstr("10 f32 elements")));
  });
}

}  // namespace
}  // namespace plait::test
