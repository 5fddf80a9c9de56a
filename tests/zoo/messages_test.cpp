// Messages between two ranks: send, recv, send_recv, all_to_all_v. Every way to move them, in
// groups and alone, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t none = 0;

/// Bytes of the message `number` from one rank to another.
std::byte content(std::uint64_t round, int from, int to, std::size_t number, std::size_t i) {
  const std::uint64_t h =
      hash(round, static_cast<std::uint64_t>(from) * 64 + static_cast<std::uint64_t>(to),
           number * 0x10001 + i / 8);
  return static_cast<std::byte>(h >> i % 8 * 8);
}

/// One rank's messages in a round, and their peers: places in its two arrays.
class Round {
 public:
  Round(Communicator& comm, Arena& arena, std::uint64_t round)
      : comm_(comm), arena_(arena), round_(round) {}

  struct End {
    bool sends;
    int peer;
    std::size_t number;  // among those to, or from, this peer
    DataType type;
    std::size_t count, at;  // elements, bytes
    std::string algorithm;
  };
  /// Messages in one direction are added in their order on both ranks. `gap`: bytes left free
  /// before it.
  void add(bool sends, int peer, DataType type, std::size_t count, const std::string& algorithm,
           std::size_t gap = 0) {
    std::size_t& end = sends ? sent_ : received_;
    const std::size_t at = (end + gap + size_of(type) - 1) / size_of(type) * size_of(type);
    const auto number =
        static_cast<std::size_t>(std::count_if(ends_.begin(), ends_.end(), [&](const End& other) {
          return other.sends == sends && other.peer == peer;
        }));
    ends_.push_back({sends, peer, number, type, count, at, algorithm});
    end = at + count * size_of(type);
  }
  const std::vector<End>& ends() const { return ends_; }

  /// Puts the contents into the arrays.
  void begin(StreamRef stream = {}) {
    arena_.send.place(0, sent_);
    arena_.recv.place(0, received_);
    for (const End& end : ends_)
      for (std::size_t i = 0; end.sends && i < bytes(end); ++i)
        arena_.send.image()[end.at + i] = content(round_, comm_.rank(), end.peer, end.number, i);
    arena_.send.upload(stream);
    arena_.recv.upload(stream);
  }
  void call(const End& end, StreamRef stream = {}) const {
    const CallOptions options{.algorithm = end.algorithm};
    if (end.sends) comm_.send(address(end), end.count, end.type, end.peer, stream, options);
    else comm_.recv(address(end), end.count, end.type, end.peer, stream, options);
  }
  void call_all(StreamRef stream = {}) const {
    for (const End& end : ends_) call(end, stream);
  }
  std::byte* address(const End& end) const {
    return static_cast<std::byte*>(end.sends ? arena_.send.device() : arena_.recv.device()) +
           end.at;
  }

  void expect_right(StreamRef stream = {}) {
    arena_.send.download(stream);
    arena_.recv.download(stream);
    comm_.synchronize(stream);
    EXPECT_EQ(arena_.send.damage(), "");
    EXPECT_EQ(arena_.recv.damage(), "");
    for (const End& end : ends_) {
      const std::byte* const data = (end.sends ? arena_.send : arena_.recv).image() + end.at;
      const int from = end.sends ? comm_.rank() : end.peer,
                to = end.sends ? end.peer : comm_.rank();
      for (std::size_t i = 0; i < bytes(end); ++i)
        if (data[i] != content(round_, from, to, end.number, i))
          return report(comm_,
                        fmt::format("round {}: {} message {} of {} {} from {} to {}: byte {} is {}",
                                    round_, end.sends ? "sent" : "received", end.number, end.count,
                                    name_of(end.type), from, to, i, static_cast<int>(data[i])));
    }
  }
  void expect_untouched() {
    arena_.recv.download({});
    comm_.synchronize();
    EXPECT_TRUE(arena_.recv.untouched()) << "something was enqueued";
  }

 private:
  static std::size_t bytes(const End& end) { return end.count * size_of(end.type); }

  Communicator& comm_;
  Arena& arena_;
  std::uint64_t round_;
  std::vector<End> ends_;
  std::size_t sent_ = 0, received_ = 0;
};

/// Those that need symmetric memory have tests of their own (symmetric_messages_test.cpp).
bool serves_ordinary_memory(const Subject& subject) {
  Topology able;
  able.ranks = 2;
  able.peer_access = able.wide_packets = able.peer_reads = true;
  able.line_threads = able.bulk_threads = 8;
  const Algorithm* algorithm = Registry::instance().find(subject.algorithm, subject.collective);
  return static_cast<bool>(
      algorithm->supports({.collective = subject.collective, .count = 16}, able));
}
std::vector<std::string> ways() {
  std::vector<std::string> names{""};
  for (const Subject& subject : other_algorithms())
    if (subject.collective == Collective::send_recv && serves_ordinary_memory(subject))
      names.push_back(subject.algorithm);
  return names;
}

class Messages : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
  void run(const RankGroup::Body& body) const { RankGroup::cached(GetParam()).run(body); }
};
INSTANTIATE_TEST_SUITE_P(All, Messages, testing::Range(1, under_tsan ? 5 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Outside of groups: a rank alone sends to itself only in one.
using MessagesOfSeveral = Messages;
INSTANTIATE_TEST_SUITE_P(All, MessagesOfSeveral, testing::Range(2, under_tsan ? 5 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

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
      {
        const Group group;
        messages.call_all();
      }
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
    {
      const Group all;
      messages.call_all();
    }
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
      {
        const Group all;
        messages.call_all();
      }
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
      if (comm.rank() == 0) {
        const Group group;
        messages.call_all();
      } else {
        messages.call_all();
      }
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

TEST_P(Messages, AllToAllV) {
  run([](Communicator& comm, Arena& arena) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    for (std::uint64_t round = 0; round < (under_tsan ? 6 : 30); ++round) {
      const auto count = [&](int from, int to) {
        const std::uint64_t h =
            hash(round, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
        return h % 3 == 0 ? none : h % 7 == 0 ? (h >> 8) % 20000 : (h >> 8) % 100;
      };
      Round messages(comm, arena, round);
      std::vector<std::size_t> send_counts, send_begins, recv_counts, recv_begins;
      for (int other = 0; other < comm.size(); ++other) {
        messages.add(true, other, DataType::bf16, count(comm.rank(), other), "", 6);
        messages.add(false, other, DataType::bf16, count(other, comm.rank()), "", 2);
      }
      for (const Round::End& end : messages.ends()) {
        (end.sends ? send_counts : recv_counts).push_back(end.count);
        (end.sends ? send_begins : recv_begins).push_back(end.at / 2);
      }
      ASSERT_EQ(send_counts.size(), ranks);
      messages.begin();
      comm.all_to_all_v(arena.send.device(), {send_counts, send_begins}, arena.recv.device(),
                        {recv_counts, recv_begins}, DataType::bf16);
      messages.expect_right();
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
    backend_of(comm).begin_capture(stream.native());
    {
      const Group group;
      first.call_all(stream);
    }
    const auto graph = backend_of(comm).end_capture(stream.native());
    for (std::uint64_t replay = 1; replay < 12; ++replay) {
      Round& round = fill(replay);
      graph->launch(stream.native());
      if (replay % 3 == 0) comm.barrier(stream);
      round.expect_right(stream);
    }
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

/// Bad arguments: one sentence, nothing enqueued, and the communicator works on.
TEST_P(Messages, BadArgumentsAreRefused) {
  run([](Communicator& comm, Arena& arena) {
    Round messages(comm, arena, 1);
    const int self = comm.rank(), ranks = comm.size();
    messages.add(true, self, DataType::f32, 100, "");
    messages.add(false, self, DataType::f32, 100, "");
    messages.begin();
    void* const from = arena.send.device();
    void* const to = arena.recv.device();
    const std::string who = fmt::format("rank {}", self);
    const auto refused = [&](const std::function<void()>& call,
                             const testing::Matcher<std::string>& message) {
      expect_error(error_of(call), ErrorCode::invalid_argument, message);
    };
    const DataType f32 = DataType::f32;
    refused([&] { comm.send(from, 1, f32, ranks); },
            AllOf(HasSubstr("send: " + who),
                  HasSubstr(fmt::format("peer {} is none of the ranks", ranks))));
    refused([&] { comm.recv(to, 1, f32, -1); },
            AllOf(HasSubstr("recv: " + who), HasSubstr("peer -1")));
    refused([&] { comm.send(nullptr, 3, f32, 0); }, HasSubstr("send is null, with count 3"));
    refused([&] { comm.recv(nullptr, 3, f32, 0); }, HasSubstr("recv is null, with count 3"));
    refused([&] { comm.recv(static_cast<std::byte*>(to) + 1, 3, f32, 0); },
            HasSubstr("not aligned"));
    refused([&] { comm.send(from, ~std::size_t{0} / 2, f32, 0); }, HasSubstr("overflows"));
    refused([&] { comm.send(from, 1, static_cast<DataType>(99), 0); },
            HasSubstr("99 is no data type"));
    refused([&] { comm.send(from, 1, f32, 0, {}, {.algorithm = "rign"}); },
            HasSubstr("unknown algorithm"));
    expect_error(error_of([&] { comm.send(from, 1, f32, 0, {}, {.algorithm = "ring"}); }),
                 ErrorCode::unsupported, HasSubstr("\"ring\" serves"));
    refused([&] { comm.send(from, 1, f32, self); },
            AllOf(HasSubstr("sends to itself: 1 messages, and receives 0"), HasSubstr("nothing")));
    refused([&] { comm.send_recv(from, 2, self, to, 3, self, f32); },
            HasSubstr("in message 1 2 f32 elements, and receives 3 f32"));
    refused(
        [&] {
          const Group group;
          comm.send(from, 2, f32, self, {}, {.algorithm = "pairwise_ll"});
          comm.recv(to, 2, f32, self, {}, {.algorithm = "pairwise_push"});
        },
        AllOf(HasSubstr("sends to itself: message 1 by pairwise_ll with"),
              HasSubstr("and receives by pairwise_push with")));
    refused(
        [&] { comm.send_recv(from, 8, self, static_cast<std::byte*>(from) + 16, 8, self, f32); },
        AllOf(HasSubstr("send_recv: " + who), HasSubstr("send and recv use the same memory")));
    refused(
        [&] {
          const Group group;
          comm.send(from, 1, f32, self);
          comm.recv(to, 1, f32, ranks + 3);
        },
        AllOf(HasSubstr("group: call 2: recv"), HasSubstr("nothing of the group was enqueued")));
    refused(
        [&] {
          const Group group;
          comm.send_recv(from, 1, self, to, 1, self, f32);
          comm.recv(to, 1, f32, ranks + 3);
        },
        HasSubstr("group: call 2: recv"));
    refused(
        [&] {
          const Group group;
          comm.send_recv(from, 1, self, to, 1, self, f32);
          comm.send_recv(to, 1, self, static_cast<std::byte*>(to) + 16, 1, self, f32);
        },
        HasSubstr("calls 1 and 2 use the same memory"));
    refused(
        [&] {
          const Group group;
          comm.send_recv(from, 8, self, static_cast<std::byte*>(from) + 16, 8, self, f32);
        },
        HasSubstr("messages of call 1 use the same memory"));
    refused(
        [&] {
          const Group group;
          comm.send(from, 1, f32, self);
          comm.barrier();
          comm.recv(to, 1, f32, self);
        },
        HasSubstr("no barrier between"));
    const std::vector<std::size_t> zeros(static_cast<std::size_t>(ranks)),
        short_one(zeros.size() + 1), large(zeros.size(), ~std::size_t{0} / 2),
        ones(zeros.size(), 1);
    refused(
        [&] {
          comm.all_to_all_v(from, {short_one, zeros}, to, {zeros, zeros}, f32);
        },
        AllOf(HasSubstr("all_to_all_v"),
              HasSubstr(fmt::format("{} send counts, with {} ranks", ranks + 1, ranks))));
    refused(
        [&] {
          comm.all_to_all_v(from, {ones, large}, to, {zeros, zeros}, f32);
        },
        HasSubstr("displacement"));
    refused(
        [&] {
          comm.all_to_all_v(from, {large, zeros}, to, {zeros, zeros}, f32);
        },
        HasSubstr("overflows"));
    messages.expect_untouched();

    // Nothing at all is no message.
    comm.send(nullptr, 0, f32, (self + 1) % ranks);
    comm.all_to_all_v(nullptr, {zeros, large}, nullptr, {zeros, zeros}, f32);
    comm.synchronize();
    {
      const Group group;
      messages.call_all();
    }
    messages.expect_right();
  });
}

/// Ends that differ are reported with both sides, on both ranks.
TEST(MessagesThatDiffer, AreReported) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  struct Other {
    std::size_t count;
    DataType type;
    std::string says;
  };
  for (const Other& other : {Other{60, DataType::f32, "receives 60 f32 elements"},
                             Other{100, DataType::i32, "receives 100 i32 elements"}}) {
    RankGroup group(3, patient());
    group.run([&](Communicator& comm, Arena& arena) {
      arena.send.place(0, 4096);
      arena.recv.place(0, 4096);
      if (comm.rank() == 0) {
        comm.send(arena.send.device(), 7, DataType::u8, 2);
        comm.send(arena.send.device(), 100, DataType::f32, 2);
      } else if (comm.rank() == 2) {
        comm.recv(arena.recv.device(), 7, DataType::u8, 0);
        comm.recv(arena.recv.device(), other.count, other.type, 0);
      }
      static_cast<void>(error_of([&] { comm.synchronize(); }));
      expect_error(heard(comm), ErrorCode::mismatch,
                   AllOf(HasSubstr("message 2 from rank 0 to rank 2"),
                         HasSubstr("sends 100 f32 elements"), HasSubstr(other.says)));
    });
  }
}

/// An empty end, too, is compared: else one wrong count would shift all that follows between the
/// two ranks.
TEST(AllToAllVThatDiffers, InAnEmptyMessage) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  struct Wrong {
    bool sends, alone, grouped;  // rank 1's end is wrong, has nothing beside it, is in a group
  };
  for (const Wrong& wrong :
       {Wrong{false, false, false}, Wrong{false, true, false}, Wrong{true, false, false},
        Wrong{true, true, false}, Wrong{false, true, true}}) {
    RankGroup group(3, patient());
    group.run([&](Communicator& comm, Arena& arena) {
      const std::vector<std::size_t> begins{0, 10, 20};
      for (int iteration = 0; iteration < 4 && !comm.async_error(); ++iteration) {
        std::vector<std::size_t> sent(3, wrong.alone ? none : 10), received = sent;
        if (iteration == 0 && wrong.alone && comm.rank() == 0)
          (wrong.sends ? received : sent)[1] = 10;
        if (iteration == 0 && !wrong.alone && comm.rank() == 1)
          (wrong.sends ? sent : received)[0] = 0;
        static_cast<void>(error_of([&] {
          std::optional<Group> grouped;
          if (wrong.grouped) grouped.emplace();
          comm.all_to_all_v(arena.send.device(), {sent, begins}, arena.recv.device(),
                            {received, begins}, DataType::f32);
        }));
        static_cast<void>(error_of([&] { comm.synchronize(); }));
      }
      expect_error(heard(comm), ErrorCode::mismatch,
                   wrong.sends ? AllOf(HasSubstr("message 1 from rank 1 to rank 0"),
                                       HasSubstr("rank 1 sends 0 f32 elements"),
                                       HasSubstr("rank 0 receives 10 f32 elements"))
                               : AllOf(HasSubstr("message 1 from rank 0 to rank 1"),
                                       HasSubstr("rank 0 sends 10 f32 elements"),
                                       HasSubstr("rank 1 receives 0 f32 elements")));
    });
  }
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

/// Short messages go without a receiver, so only the end tells that there is none.
TEST(MessagesWithoutReceiver, AreWarnedOfAtTheEnd) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  const auto warned = [](std::size_t received, bool by_graph) {
    testing::internal::CaptureStderr();
    run_ranks(3, [&](Communicator& comm, int rank) {
      Arena arena(comm);
      const Stream stream = comm.create_stream();
      const auto receive = [&] {
        for (const int peer : {0, 2})
          comm.recv(static_cast<std::byte*>(arena.recv.device()) + 16 * peer, 7, DataType::u8, peer,
                    stream);
      };
      for (std::size_t i = 0; i < 3 && rank != 1; ++i)
        comm.send(arena.send.device(), 7, DataType::u8, 1, stream);
      if (rank == 1 && by_graph) {
        backend_of(comm).begin_capture(stream.native());
        receive();
        const auto graph = backend_of(comm).end_capture(stream.native());
        for (std::size_t i = 0; i < received; ++i) graph->launch(stream.native());
        comm.synchronize(stream);
      } else {
        for (std::size_t i = 0; i < received && rank == 1; ++i) receive();
      }
      comm.synchronize(stream);
      comm.bootstrap().barrier();
    });
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warned(2, false), HasSubstr("plait warn: rank 1: a communicator is destroyed with "
                                          "messages that this rank has not received: "
                                          "1 from rank 0, 1 from rank 2"));
  EXPECT_THAT(warned(3, false), Not(HasSubstr("has not received")));
  EXPECT_THAT(warned(3, true), Not(HasSubstr("has not received")));
}

/// For what is never to end by itself.
CommunicatorOptions impatient() {
  CommunicatorOptions options;
  options.timeout = std::chrono::milliseconds(under_tsan ? 4000 : 500);
  return test_options(options);
}
std::optional<Error> heard_in_time(Communicator& comm) {
  return heard(comm, std::chrono::seconds(under_tsan ? 60 : 10));
}

/// A receiver that never comes: the timeout names it, and the message that waits.
TEST(MessagesWithoutReceiver, TimeOut) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  RankGroup group(3, impatient());
  group.run([&](Communicator& comm, Arena& arena) {
    arena.recv.place(0, 4096);
    if (comm.rank() == 0) {
      comm.recv(arena.recv.device(), 7, DataType::u8, 2);
      expect_error(
          error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
          AllOf(HasSubstr("rank 2 is missing"), HasSubstr("in message 1 (pairwise_"),
                HasSubstr("no collective yet; messages: 1 from rank 2"), HasSubstr("no call yet")));
    } else {
      expect_error(heard_in_time(comm), ErrorCode::timeout, HasSubstr("rank 2 is missing"));
    }
  });
}

/// Rank 0 has left out a collective and waits for a message of a rank that is in it.
TEST(MessagesInACircle, WithACollectiveNameWhoLeftItOut) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  RankGroup group(3, impatient());
  group.run([&](Communicator& comm, Arena& arena) {
    arena.recv.place(0, 4096);
    if (comm.rank() == 0) comm.recv(arena.recv.device(), 100, DataType::f32, 2);
    else
      comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32, ReduceOp::sum,
                      {}, {.algorithm = "oneshot_ll"});
    expect_error(heard_in_time(comm), ErrorCode::timeout,
                 AllOf(HasSubstr("rank 0 is missing: in call 1 (oneshot_ll)"),
                       Not(HasSubstr("wait for each other"))));
  });
}

/// Ranks that send to each other first, or receive: no rank is missing, and all say the same.
TEST(MessagesInACircle, AreReported) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  for (const int circle : {2, 3}) {
    RankGroup group(3, impatient());
    std::array<std::string, 3> said;
    group.run([&](Communicator& comm, Arena& arena) {
      arena.recv.place(0, 4096);
      if (comm.rank() < circle) {
        comm.recv(arena.recv.device(), 100, DataType::f32, (comm.rank() + 1) % circle);
        comm.send(arena.send.device(), 100, DataType::f32, (comm.rank() + circle - 1) % circle);
      }
      const auto error = heard_in_time(comm);
      expect_error(
          error, ErrorCode::timeout,
          AllOf(HasSubstr(circle == 2 ? "ranks 0 and 1 wait for each other: in message 1 (pairwise_"
                                      : "ranks wait for each other in a circle, 0 for rank 1, 1 "
                                        "for rank 2, 2 for rank 0: in message 1"),
                HasSubstr(under_tsan ? "rank 0 waited 4 s for rank 1"
                                     : "rank 0 waited 0.5 s for rank 1"),
                HasSubstr("one send_recv or a group"), Not(HasSubstr("missing"))));
      if (error) said[static_cast<std::size_t>(comm.rank())] = error->what();
    });
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
  }
}

}  // namespace
}  // namespace plait::test
