// What is true of sockets alone: strangers, flows whose connections arrive in any order, forks.
#include "transport/socket/socket_transport.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/socket/connection.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"
#include "support/resource_limit.hpp"
#include "transport/flows.hpp"
#include "transport/socket/wire.hpp"

namespace plait::transport {
namespace {

using plait::detail::Deadline;
using plait::detail::GroupFd;
using plait::test::error_of;

constexpr plait::detail::Secret secret{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}};
constexpr plait::detail::Secret other_secret{{1, 2, 3, 4, 5, 6, 7, 9}, {9, 10, 11, 12, 13}};

std::unique_ptr<Transport> make(int connections = 2, const plait::detail::Secret& of_group = secret,
                                int threads = 0) {
  return make_socket_transport({.secret = of_group,
                                .connections = connections,
                                .threads = threads,
                                .address = std::nullopt});
}
Place place_of(const Listener& listener) {
  Place place;
  const Address address = listener.address();
  std::memcpy(static_cast<void*>(&place), address.bytes.data(), sizeof place);
  return place;
}
GroupFd call(const Place& place) {
  auto socket = plait::detail::connect_to(place.endpoint, Deadline(5s), false);
  return socket ? std::move(*socket) : GroupFd();
}
FlowHello hello_for(const Place& place) {
  return {.magic = flow_hello_magic,
          .proof = secret.of_caller,
          .listener = place.listener,
          .flow = {1, 2},
          .index = 0,
          .number = 1};
}
template <class T>
void say(const GroupFd& socket, const T& words, std::size_t bytes = sizeof(T)) {
  if (socket.valid()) ::send(socket.get(), &words, bytes, MSG_NOSIGNAL);
}

struct Attack {
  std::string name;
  /// What the `number`-th stranger sends; then it keeps its connection.
  std::function<void(const GroupFd& socket, const Place& place, unsigned number)> act;
};
FlowHello wrong(const Place& place, unsigned number) {
  FlowHello hello = hello_for(place);
  if (number % 4 == 0) std::memcpy(hello.proof.data(), &number, sizeof number);
  if (number % 4 == 1) ++hello.listener;
  if (number % 4 == 2) hello.index = hello.number + number;
  if (number % 4 == 3) hello.number = 1'000'000'000;
  return hello;
}
std::vector<Attack> attacks() {
  return {
      {"Silence", [](const GroupFd&, const Place&, unsigned) {}},
      {"HalfClosed",
       [](const GroupFd& socket, const Place&, unsigned) { ::shutdown(socket.get(), SHUT_WR); }},
      {"Garbage",
       [](const GroupFd& socket, const Place&, unsigned number) {
         std::mt19937 random(number);
         std::array<std::uint32_t, 100> words{};
         for (auto& word : words) word = static_cast<std::uint32_t>(random());
         say(socket, words, random() % sizeof words);
       }},
      {"WrongHello", [](const GroupFd& socket, const Place& place,
                        unsigned number) { say(socket, wrong(place, number)); }},
      {"HalfAHello",
       [](const GroupFd& socket, const Place& place, unsigned number) {
         say(socket, hello_for(place), 1 + number % (sizeof(FlowHello) - 1));
       }},
  };
}

class FlowStrangers : public testing::TestWithParam<Attack> {};
INSTANTIATE_TEST_SUITE_P(Who, FlowStrangers, testing::ValuesIn(attacks()),
                         [](const auto& given) { return given.param.name; });

TEST_P(FlowStrangers, DoNotKeepFlowsOut) {
  const int before = open_descriptors();
  {
    auto here = make(), there = make();
    auto listener = here->listen();
    const Place place = place_of(*listener);
    std::vector<GroupFd> strangers;
    Ends ends;
    auto& [sender, receiver] = ends;
    for (unsigned number = 0; number < 600; ++number) {
      GroupFd socket = call(place);
      GetParam().act(socket, place, number);
      if (number % 4 == 0) strangers.push_back(std::move(socket));
      if (!receiver) receiver = listener->accept();
      if (number == 300) sender = there->connect(listener->address());
    }
    wait_until(*here, [&] { return ends.advance(*there, *listener); });
    Buffer out(*sender, 100'000), in(*receiver, 100'000);
    out.fill(1);
    const Request sending = send(*there, *sender, out, 100'000);
    finish(*here, *receiver, receive(*here, *receiver, in, 100'000));
    finish(*there, *sender, sending);
    EXPECT_TRUE(in.begins_with(1, 100'000U));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FlowStrangers, AreClosedAfterFiveSeconds) {
  auto here = make();
  auto listener = here->listen();
  const GroupFd stranger = call(place_of(*listener));
  const auto start = std::chrono::steady_clock::now();
  std::byte one{};
  auto seen = plait::detail::Transfer::expired;
  wait_until(*here, [&] {
    EXPECT_EQ(listener->accept(), nullptr);
    seen = plait::detail::receive_one(stranger.get(), one, Deadline(1ms));
    return seen != plait::detail::Transfer::expired;
  });
  EXPECT_EQ(seen, plait::detail::Transfer::closed);
  EXPECT_GT(std::chrono::steady_clock::now() - start, 4s);
}

TEST(SocketTransport, ACallerWithAnotherSecretIsRefused) {
  auto here = make(), there = make(2, other_secret);
  auto listener = here->listen();
  const auto call = [&] {
    EXPECT_EQ(listener->accept(), nullptr);
    there->connect(listener->address());
  };
  expect_lost(*here, call, patience);
}

/// A program that listens at a rank's address in its place hears the proof of callers, but can't
/// answer.
TEST(SocketTransport, ACalledProgramMustShowTheSecret) {
  auto there = make(1);
  plait::detail::Endpoint own = plait::detail::choose_own_address();
  const UniqueFd listener = plait::detail::listen_at(own);
  const Place place{place_magic, 1, plait::detail::own_end(listener.get())};
  Address address;
  std::memcpy(address.bytes.data(), &place, sizeof place);
  GroupFd impostor;
  const auto call = [&] {
    EXPECT_EQ(there->connect(address), nullptr);
    if (impostor.valid()) return;
    impostor = GroupFd(UniqueFd(::accept(listener.get(), nullptr, nullptr)));
    say(impostor, FlowAnswer{flow_answer_magic, secret.of_caller});
  };
  expect_lost(*there, call, patience);
}

/// Two flows of three connections each, whose connections arrive in a random order.
TEST(SocketTransport, ConnectionsOfFlowsArriveInAnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    auto here = make();
    auto listener = here->listen();
    const Place place = place_of(*listener);
    std::vector<FlowHello> hellos;
    for (std::uint64_t flow = 0; flow < 2; ++flow) {
      for (std::uint32_t index = 0; index < 3; ++index) {
        FlowHello hello = hello_for(place);
        hello.flow = {flow, 5}, hello.index = index, hello.number = 3;
        hellos.push_back(hello);
      }
    }
    std::shuffle(hellos.begin(), hellos.end(), random);
    std::vector<std::unique_ptr<ReceiveFlow>> flows;
    std::vector<GroupFd> sockets;
    for (const FlowHello& hello : hellos) {
      sockets.push_back(call(place));
      say(sockets.back(), hello);
      if (hello.index == 0) say(sockets.back(), std::pair(StripeHead{0, 8}, hello.flow[0]));
      if (auto flow = listener->accept()) flows.push_back(std::move(flow));
    }
    wait_until(*here, [&] {
      if (auto flow = listener->accept()) flows.push_back(std::move(flow));
      return flows.size() == 2;
    });
    std::uint64_t sum = 0;
    for (const auto& flow : flows) {
      Buffer in(*flow, 8);
      finish(*here, *flow, receive(*here, *flow, in, 8));
      std::uint64_t number = 9;
      std::memcpy(&number, in.bytes.data(), sizeof number);
      sum += number;
    }
    EXPECT_EQ(sum, 1U);
  }
}

TEST(SocketTransport, RanksThatCallEachOtherBeforeTheyAcceptMeet) {
  auto here = make(), there = make();
  auto door_here = here->listen(), door_there = there->listen();
  std::unique_ptr<SendFlow> to_here, to_there;
  wait_until(*here, [&] {
    if (!to_there) to_there = here->connect(door_there->address());
    if (!to_here) to_here = there->connect(door_here->address());
    return to_here && to_there;
  });
  EXPECT_TRUE(door_here->accept() && door_there->accept());
}

/// While a process can open no more files, its callers wait.
TEST(SocketTransport, AcceptsWhenFilesCanBeOpenedAgain) {
  auto here = make();
  auto listener = here->listen();
  const Place place = place_of(*listener);
  const GroupFd caller = call(place);
  ASSERT_TRUE(caller.valid());
  say(caller, hello_for(place));
  {
    const test::ResourceLimit no_more_files(RLIMIT_NOFILE, 3);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(listener->accept(), nullptr);
  }
  wait_until(*here, [&] { return listener->accept() != nullptr; });
}

/// And so do its calls.
TEST(SocketTransport, ConnectsWhenFilesCanBeOpenedAgain) {
  auto here = make(), there = make();
  auto listener = here->listen();
  std::unique_ptr<SendFlow> flow;
  const auto connect = [&] { return (flow = there->connect(listener->address())) != nullptr; };
  {
    const test::ResourceLimit no_more_files(RLIMIT_NOFILE, 3);
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(connect());
  }
  wait_until(*here, [&] {
    static_cast<void>(listener->accept());
    return connect();
  });
}

/// There and back over one connection, with messages longer than what is read ahead.
TEST(SocketTransport, AFlowBackSharesTheConnection) {
  auto here = make(), there = make();
  auto listener = here->listen();
  const int before = open_descriptors();
  Ends ends;
  wait_until(*here, [&] { return ends.advance(*there, *listener, Ways::both); });
  auto& [call, called] = ends;
  auto replies = call->replies();
  auto reply = called->reply();
  ASSERT_TRUE(replies && reply);
  EXPECT_EQ(call->replies(), nullptr);
  EXPECT_EQ(reply->replies(), nullptr);
  EXPECT_EQ(open_descriptors(), before + 2);
  constexpr std::size_t longest = 20'000;
  Buffer out(*call, longest), back(*reply, longest), in(*called, longest),
      in_back(*replies, longest);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{0}, std::size_t{4096}, longest}) {
    out.fill(bytes), back.fill(bytes + 1);
    const Request sending = send(*there, *call, out, bytes);
    const Request sending_back = send(*here, *reply, back, bytes);
    finish(*here, *called, receive(*here, *called, in, bytes));
    finish(*there, *replies, receive(*there, *replies, in_back, bytes));
    finish(*there, *call, sending), finish(*here, *reply, sending_back);
    EXPECT_TRUE(in.begins_with(bytes, bytes));
    EXPECT_TRUE(in_back.begins_with(bytes + 1, bytes));
  }
  // The connection ends with both flows.
  reply.reset();
  finish(*there, *call, send(*there, *call, out, 8));
  finish(*here, *called, receive(*here, *called, in, 8));
  called.reset();
  const Request receiving = receive(*there, *replies, in_back, 8);
  expect_lost(
      *there, [&] { replies->test(receiving); }, patience);
}

/// With so many threads that move messages.
class SocketFork : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, SocketFork, testing::Values(0, 2));

/// A child has no copy of the connections, so the other rank sees the parent's end, and the
/// destructors in the child do nothing.
TEST_P(SocketFork, AChildKeepsNoConnection) {
  auto here = make(2, secret, GetParam()), there = make(2, secret, GetParam());
  auto listener = here->listen();
  Ends ends;
  wait_until(*here, [&] { return ends.advance(*there, *listener); });
  std::unique_ptr<SendFlow>& sender = ends.sender;
  std::unique_ptr<ReceiveFlow>& receiver = ends.receiver;
  sender->expect_large();
  receiver->expect_large();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(10);  // ends a child whose destructors wait for threads that it does not have
    ::close(pipe[1]);
    sender.reset(), receiver.reset(), listener.reset(), there.reset(), here.reset();
    char end = 0;
    const auto got = ::read(pipe[0], &end, 1);  // until the parent closes its end
    ::_exit(got == 0 ? 0 : 1);
  }
  ::close(pipe[0]);
  Buffer in(*receiver, 8);
  const Request receiving = receive(*here, *receiver, in, 8);
  EXPECT_FALSE(receiver->test(receiving));
  sender.reset();
  expect_lost(*here, [&] { receiver->test(receiving); });
  ::close(pipe[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// A thread may be about to read or write, or have news of a socket, when its flow ends.
TEST(SocketTransport, FlowsThatThreadsMoveEndAtAnyTime) {
  const auto transport = make(2, secret, 2);
  const auto listener = transport->listen();
  const int before = open_descriptors();
  for (unsigned round = 0; round < 200; ++round) {
    Ends ends;
    wait_until(*transport, [&] { return ends.advance(*transport, *listener); });
    auto& [sender, receiver] = ends;
    sender->expect_large();
    receiver->expect_large();
    constexpr std::size_t bytes = 256 << 10;
    Buffer out(*sender, bytes), in(*receiver, bytes);
    out.fill(round);
    const Request sending = send(*transport, *sender, out, bytes);
    const Request receiving = receive(*transport, *receiver, in, bytes);
    for (unsigned turns = round % 50; turns > 0; --turns) std::this_thread::yield();
    if (round % 3 == 0) {
      EXPECT_EQ(finish(*transport, *receiver, receiving), bytes);
      EXPECT_TRUE(in.begins_with(round, bytes));
      finish(*transport, *sender, sending);
    }
    out.memory.reset();
    in.memory.reset();
    if (round % 2 == 0) receiver.reset();
    sender.reset();
    receiver.reset();  // before its buffer
  }
  EXPECT_LE(open_descriptors(), before + 4);  // those of the two threads
}

TEST(SocketTransport, RefusesWrongNumbers) {
  for (const int connections : {0, -1, 9})
    EXPECT_EQ(error_of([&] { make(connections); })->code(), ErrorCode::invalid_argument);
  for (const int threads : {-1, 9})
    EXPECT_EQ(error_of([&] { make(2, secret, threads); })->code(), ErrorCode::invalid_argument);
}

TEST(SocketTransport, StripesCoverAMessage) {
  for (const std::size_t bytes : {0, 1, 32768, 32769, 40000, 1 << 20, 1'000'003}) {
    for (std::size_t connections = 1; connections <= 8; ++connections) {
      const Stripes stripes(bytes, connections);
      EXPECT_LE(stripes.count(), bytes <= Stripes::small ? 1 : connections);
      std::size_t end = 0;
      for (std::size_t at = 0; at < stripes.count(); ++at) {
        EXPECT_EQ(stripes.offset(at), end);
        EXPECT_TRUE(stripes.size(at) > 0 || bytes == 0);
        end += stripes.size(at);
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

}  // namespace
}  // namespace plait::transport
