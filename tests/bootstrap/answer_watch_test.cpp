// Links to machines that are gone, and to ranks that are late.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/socket_link.hpp"

namespace plait::detail {
namespace {

using namespace std::chrono_literals;

/// The two ends of a connection within this machine.
std::pair<GroupFd, UniqueFd> connect_ends() {
  const UniqueFd listener = listen_at(resolve("127.0.0.1", 0));
  auto caller = connect_to(own_end(listener.get()), Deadline(10s), false);
  UniqueFd called(::accept(listener.get(), nullptr, nullptr));
  return {std::move(caller.value()), std::move(called)};
}

/// From now on the socket's system drops whatever comes, unseen: it acknowledges nothing, as a
/// machine that is gone. Some systems let only root do so.
bool make_deaf(int socket) {
  sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop_all};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0)
    return true;
  EXPECT_EQ(errno, EPERM);
  return false;
}

/// Whether rank 1 counts as ended within `time`, after `messages` of 1 MB to it.
bool ends_within(std::chrono::seconds time, GroupFd socket, int messages) {
  std::vector<GroupFd> sockets;
  sockets.emplace_back();
  sockets.push_back(std::move(socket));
  SocketLink link(std::move(sockets), {0, 0}, 1s);
  const std::vector<std::byte> data(1 << 20);
  for (int message = 0; message < messages; ++message) link.send(1, {}, data);
  const Deadline deadline(time);
  while (!link.has_ended(1) && !deadline.expired()) {
    link.advance();
    std::this_thread::sleep_for(5ms);
  }
  return link.has_ended(1);
}

TEST(AnswerWatch, AMachineThatAcknowledgesNothingIsGone) {
  auto [socket, peer] = connect_ends();
  if (!make_deaf(peer.get())) GTEST_SKIP() << "a filter of a socket needs root here";
  EXPECT_TRUE(ends_within(20s, std::move(socket), 1));
}

/// All buffers between them are full.
TEST(AnswerWatch, ARankThatDoesNotReadIsNot) {
  auto [socket, peer] = connect_ends();
  EXPECT_FALSE(ends_within(6s, std::move(socket), 20));
}

TEST(AnswerWatch, AnIdleRankIsNot) {
  auto [socket, peer] = connect_ends();
  EXPECT_FALSE(ends_within(3s, std::move(socket), 0));
}

}  // namespace
}  // namespace plait::detail
