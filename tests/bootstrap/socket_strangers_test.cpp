// Strangers at the door of ranks that meet by a unique id: garbage, silence, guesses.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "plait/error.hpp"
#include "plait/unique_id.hpp"
#include "support/bootstrap_conduct.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::message_of;

using detail::GroupFd;

GroupFd call(const detail::Endpoint& root) {
  auto socket = detail::connect_to(root, detail::Deadline(5s), false);
  return socket ? std::move(*socket) : GroupFd();
}
void say(const GroupFd& socket, std::span<const std::byte> bytes) {
  if (socket.valid()) ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}
/// True if the other side closes the connection within a moment.
bool is_closed(const GroupFd& socket, std::chrono::milliseconds within) {
  std::byte one{};
  return receive_one(socket.get(), one, detail::Deadline(within)) == detail::Transfer::closed;
}
std::span<const std::byte> bytes_of(const detail::Hello& hello) {
  return std::as_bytes(std::span(&hello, 1));
}

struct Attack {
  std::string name;
  /// What the `number`-th stranger sends; then it keeps its connection.
  std::function<void(const GroupFd& socket, int number)> act;
};
std::vector<Attack> attacks() {
  return {
      {"Silence", [](const GroupFd&, int) {}},
      {"HalfClosed", [](const GroupFd& socket, int) { ::shutdown(socket.get(), SHUT_WR); }},
      {"Garbage",
       [](const GroupFd& socket, int number) {
         std::mt19937 random(static_cast<unsigned>(number));
         std::array<std::uint32_t, 300> words{};
         for (auto& word : words) word = static_cast<std::uint32_t>(random());
         say(socket, std::as_bytes(std::span(words)).first(random() % sizeof words));
       }},
      {"WrongSecret",
       [](const GroupFd& socket, int number) {
         detail::Hello hello{.magic = detail::hello_magic,
                             .protocol = detail::socket_protocol,
                             .rank = 1,
                             .size = 2};
         std::memcpy(hello.proof.data(), &number, sizeof number);
         say(socket, bytes_of(hello));
       }},
      {"Http", [](const GroupFd& socket,
                  int) { say(socket, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n"))); }},
  };
}

class Strangers : public testing::TestWithParam<Attack> {};
INSTANTIATE_TEST_SUITE_P(Who, Strangers, testing::ValuesIn(attacks()),
                         [](const auto& given) { return given.param.name; });

TEST_P(Strangers, DoNotKeepRanksFromMeeting) {
  constexpr int tries = 1000;
  const int before = open_descriptors();
  {
    const UniqueId id = UniqueId::create();
    const detail::Endpoint root = detail::contents_of(id).root;
    std::vector<GroupFd> strangers(tries);
    std::thread zero([&] {
      auto group = make_socket_bootstrap(id, 0, 2, 30s);
      EXPECT_EQ(group->all_gather(5), (std::vector<int>{5, 6}));
    });
    for (int number = 0; number < tries; ++number) {
      GroupFd& socket = strangers[static_cast<std::size_t>(number)];
      socket = call(root);
      GetParam().act(socket, number);
      if (number % 4 != 0) socket = GroupFd();  // some stay
    }
    const auto start = std::chrono::steady_clock::now();
    auto group = make_socket_bootstrap(id, 1, 2, 30s);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
    EXPECT_EQ(group->all_gather(6), (std::vector<int>{5, 6}));
    zero.join();
    for (const GroupFd& socket : strangers) {
      EXPECT_TRUE(!socket.valid() || is_closed(socket, 1s));
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

/// A rank that has said its words is not forgotten for strangers that came after it.
TEST_P(Strangers, DoNotPushOutARankThatCameBeforeRankZero) {
  const UniqueId id = UniqueId::create();
  const detail::Endpoint root = detail::contents_of(id).root;
  std::thread one([&] {
    EXPECT_EQ(make_socket_bootstrap(id, 1, 2, 30s)->all_gather(6), (std::vector<int>{5, 6}));
  });
  std::this_thread::sleep_for(100ms);
  std::vector<GroupFd> strangers(500);
  for (int number = 0; number < 500; ++number) {
    GroupFd& socket = strangers[static_cast<std::size_t>(number)];
    socket = call(root);
    GetParam().act(socket, number);
  }
  EXPECT_EQ(make_socket_bootstrap(id, 0, 2, 30s)->all_gather(5), (std::vector<int>{5, 6}));
  one.join();
}

/// More ranks than callers that rank 0 keeps waiting.
TEST(Stranger, IsNoRankAmongManyThatCameBeforeRankZero) {
  constexpr int ranks = 400;
  const UniqueId id = UniqueId::create();
  const auto contents = detail::contents_of(id);
  std::vector<GroupFd> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.push_back(call(contents.root));
    say(others.back(), bytes_of({.magic = detail::hello_magic,
                                 .proof = contents.secret.of_caller,
                                 .protocol = detail::socket_protocol,
                                 .rank = rank,
                                 .size = ranks}));
  }
  std::thread zero([&] {  // no rank gets ready
    message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 0, ranks, 2s); });
  });
  for (const GroupFd& socket : others) {
    detail::Note heard;
    EXPECT_EQ(receive_one(socket.get(), heard, detail::Deadline(5s)), detail::Transfer::done);
    EXPECT_EQ(heard.type, detail::Note::Type::welcome);
  }
  others.clear();
  zero.join();
}

/// TCP tells rank 0 of the call, and may have to send the words again and again.
TEST(Stranger, IsNoRankWhoseWordsTheNetworkDelays) {
  const UniqueId id = UniqueId::create();
  const auto contents = detail::contents_of(id);
  std::thread zero([&] {  // the other rank gets never ready
    message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 0, 2, 8s); });
  });
  const GroupFd socket = call(contents.root);
  std::this_thread::sleep_for(6s);
  say(socket, bytes_of({.magic = detail::hello_magic,
                        .proof = contents.secret.of_caller,
                        .protocol = detail::socket_protocol,
                        .rank = 1,
                        .size = 2}));
  detail::Note heard;
  EXPECT_EQ(receive_one(socket.get(), heard, detail::Deadline(5s)), detail::Transfer::done);
  EXPECT_EQ(heard.type, detail::Note::Type::welcome);
  zero.join();
}

TEST(Stranger, ThatKnowsTheSecretIsNamed) {
  const UniqueId id = UniqueId::create();
  const auto contents = detail::contents_of(id);
  detail::Hello hello{.magic = detail::hello_magic,
                      .proof = contents.secret.of_caller,
                      .protocol = detail::socket_protocol + 1};
  GroupFd socket = call(contents.root);
  say(socket, bytes_of(hello).first(32));
  expect_contains(message_of(ErrorCode::mismatch, [&] { make_socket_bootstrap(id, 0, 2, 5s); }),
                  "different versions of the library");
  const UniqueId again = UniqueId::create();
  const auto more = detail::contents_of(again);
  hello = {.magic = detail::hello_magic,
           .proof = more.secret.of_caller,
           .protocol = detail::socket_protocol,
           .rank = 2000000000,
           .size = 2};
  socket = call(more.root);
  say(socket, bytes_of(hello));
  expect_contains(message_of(ErrorCode::mismatch, [&] { make_socket_bootstrap(again, 0, 2, 5s); }),
                  "rank 2000000000 called, but there are 2 ranks");
}

/// Another program at the address of an id whose process is gone can't pass for rank 0.
TEST(Stranger, ThatListensLearnsOnlyHalfTheSecret) {
  const UniqueId id = UniqueId::create();
  const auto contents = detail::contents_of(id);
  const UniqueFd listener = std::move(*detail::take_listener(contents));
  std::thread impostor([&] {
    detail::Door door(UniqueFd(::dup(listener.get())), contents.secret);
    std::vector<detail::Visitor> visitors;
    std::vector<pollfd> none;
    while (visitors.empty()) visitors = door.wait(none, 100);
    EXPECT_EQ(visitors[0].hello.proof, contents.secret.of_caller);
    const detail::Note note{.magic = detail::hello_magic, .proof = visitors[0].hello.proof};
    send_one(visitors[0].socket.get(), note, detail::Deadline(1s));
    std::this_thread::sleep_for(200ms);
  });
  expect_contains(message_of(ErrorCode::bootstrap, [&] { make_socket_bootstrap(id, 1, 2, 5s); }),
                  "another program than rank 0 answers at its address");
  impostor.join();
}

}  // namespace
}  // namespace plait
