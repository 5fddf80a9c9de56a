// Messages that can't arrive: arguments that are refused, ends that differ, receivers that never
// come, and ranks that wait for each other in a circle.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plait/error.hpp"
#include "support/device_array.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "zoo/message_round.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
    const DataType f32 = DataType::f32;
    expect_invalid([&] { comm.send(from, 1, f32, ranks); }, "send: " + who,
                   fmt::format("peer {} is none of the ranks", ranks));
    expect_invalid([&] { comm.recv(to, 1, f32, -1); }, "recv: " + who, "peer -1");
    expect_invalid([&] { comm.send(nullptr, 3, f32, self); }, "send is null, with count 3");
    expect_invalid([&] { comm.recv(nullptr, 3, f32, self); }, "recv is null, with count 3");
    expect_invalid([&] { comm.recv(static_cast<std::byte*>(to) + 1, 3, f32, self); },
                   "not aligned");
    expect_invalid([&] { comm.send(from, ~std::size_t{0} / 2, f32, self); }, "overflows");
    expect_invalid([&] { comm.send(from, 1, static_cast<DataType>(99), self); },
                   "99 is no data type");
    expect_invalid([&] { comm.send(from, 1, f32, self, {}, {.algorithm = "rign"}); },
                   "unknown algorithm");
    expect_throws(
        ErrorCode::unsupported, [&] { comm.send(from, 1, f32, self, {}, {.algorithm = "ring"}); },
        "\"ring\" serves");
    expect_invalid([&] { comm.send(from, 1, f32, self); },
                   "sends to itself: 1 messages, and receives 0", "nothing");
    expect_invalid([&] { comm.send_recv(from, 2, self, to, 3, self, f32); },
                   "in message 1 2 f32 elements, and receives 3 f32");
    expect_invalid(in_a_group([&] {
                     comm.send(from, 2, f32, self, {}, {.algorithm = "pairwise_ll"});
                     comm.recv(to, 2, f32, self, {}, {.algorithm = "pairwise_push"});
                   }),
                   "sends to itself: message 1 by pairwise_ll with",
                   "and receives by pairwise_push with");
    expect_invalid(
        [&] { comm.send_recv(from, 8, self, static_cast<std::byte*>(from) + 16, 8, self, f32); },
        "send_recv: " + who, "send and recv use the same memory");
    expect_invalid(in_a_group([&] {
                     comm.send(from, 1, f32, self);
                     comm.recv(to, 1, f32, ranks + 3);
                   }),
                   "group: call 2: recv", "nothing of the group was enqueued");
    expect_invalid(in_a_group([&] {
                     comm.send_recv(from, 1, self, to, 1, self, f32);
                     comm.recv(to, 1, f32, ranks + 3);
                   }),
                   "group: call 2: recv");
    expect_invalid(in_a_group([&] {
                     comm.send_recv(from, 1, self, to, 1, self, f32);
                     comm.send_recv(to, 1, self, static_cast<std::byte*>(to) + 16, 1, self, f32);
                   }),
                   "calls 1 and 2 use the same memory");
    expect_invalid(in_a_group([&] {
                     comm.send_recv(from, 8, self, static_cast<std::byte*>(from) + 16, 8, self,
                                    f32);
                   }),
                   "messages of call 1 use the same memory");
    expect_invalid(in_a_group([&] {
                     comm.send(from, 1, f32, self);
                     comm.barrier();
                     comm.recv(to, 1, f32, self);
                   }),
                   "no barrier between");
    const std::vector<std::size_t> zeros(static_cast<std::size_t>(ranks)), longer(zeros.size() + 1),
        large(zeros.size(), ~std::size_t{0} / 2), ones(zeros.size(), 1);
    const auto all_to_all_v = [&](const auto& counts, const auto& begins) {
      return [&] { comm.all_to_all_v(from, {counts, begins}, to, {zeros, zeros}, f32); };
    };
    expect_invalid(all_to_all_v(longer, zeros), "all_to_all_v",
                   fmt::format("{} send counts, with {} ranks", ranks + 1, ranks));
    expect_invalid(all_to_all_v(ones, large), "displacement");
    expect_invalid(all_to_all_v(large, zeros), "overflows");
    std::vector<std::size_t> for_first = zeros;
    for_first[0] = 2;
    expect_invalid(
        [&] {
          comm.all_to_all_v(from, {for_first, zeros}, static_cast<std::byte*>(from) + 4,
                            {for_first, zeros}, f32);
        },
        "all_to_all_v: " + who,
        "the block for rank 0 and the block from rank 0 use the same memory");
    messages.expect_untouched();

    // Nothing at all is no message.
    comm.send(nullptr, 0, f32, (self + 1) % ranks);
    comm.all_to_all_v(nullptr, {zeros, large}, nullptr, {zeros, zeros}, f32);
    comm.synchronize();
    messages.call_all({}, true);
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
        std::vector<std::size_t> sent(3, wrong.alone ? 0 : 10), received = sent;
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
        const auto graph = captured(comm, stream, receive);
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
      expect_throws(
          ErrorCode::timeout, [&] { comm.synchronize(); }, "rank 2 is missing",
          "in message 1 (pairwise_", "no collective yet; messages: 1 from rank 2", "no call yet");
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
