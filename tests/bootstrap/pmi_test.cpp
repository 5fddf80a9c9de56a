// A launcher that speaks PMI-1, and processes that it starts.
#include "bootstrap/launcher/pmi.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/processes.hpp"
#include "core/text.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"
#include "plait/unique_id.hpp"
#include "support/bootstrap_conduct.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::message_of;
using test::Process;

std::string value_of(std::string_view line, std::string_view name) {
  for (const std::string_view word : words(line))
    if (word.starts_with(name) && word.substr(name.size()).starts_with('='))
      return std::string(word.substr(name.size() + 1));
  return {};
}

/// Serves ranks over socket pairs until all have hung up.
class PmiServer {
 public:
  explicit PmiServer(int size) {
    for (int rank = 0; rank < size; ++rank) {
      std::array<int, 2> pair{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
      ours_.emplace_back(pair[0]);
      theirs_.emplace_back(pair[1]);
    }
  }
  /// In a rank's process.
  void enter(int rank) {
    ours_.clear();
    const auto set = [](const char* name, int value) {
      ::setenv(name, std::to_string(value).c_str(), 1);
    };
    set("PMI_FD", theirs_[static_cast<std::size_t>(rank)].get());
    set("PMI_RANK", rank);
    set("PMI_SIZE", static_cast<int>(theirs_.size()));
  }
  /// Returns how many ranks have said good-bye.
  int serve() {
    theirs_.clear();
    std::vector<pollfd> sockets;
    for (const UniqueFd& socket : ours_) sockets.push_back({socket.get(), POLLIN, 0});
    std::size_t open = sockets.size();
    while (open > 0 && ::poll(sockets.data(), sockets.size(), 20000) > 0) {
      for (pollfd& socket : sockets) {
        if (socket.revents == 0) continue;
        const std::string line = read_line(socket.fd);
        if (line.empty()) socket.fd = -1, --open;
        else answer(socket.fd, line);
      }
    }
    return finalized_;
  }

 private:
  static std::string read_line(int socket) {
    std::string line;
    for (char letter = 0; ::read(socket, &letter, 1) == 1 && letter != '\n';) line += letter;
    return line;
  }
  static void say(int socket, std::string line) {
    line += '\n';
    EXPECT_EQ(::write(socket, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  void answer(int socket, const std::string& line) {
    const std::string command = value_of(line, "cmd");
    if (command == "init") {
      say(socket, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    } else if (command == "get_my_kvsname") {
      say(socket, "cmd=my_kvsname kvsname=kvs_17_0");
    } else if (command == "put") {
      EXPECT_EQ(value_of(line, "kvsname"), "kvs_17_0");
      kept_[value_of(line, "key")] = value_of(line, "value");
      say(socket, "cmd=put_result rc=0 msg=success");
    } else if (command == "get") {
      const auto found = kept_.find(value_of(line, "key"));
      if (found == kept_.end()) say(socket, "cmd=get_result rc=-1 msg=key_not_found");
      else say(socket, "cmd=get_result rc=0 msg=success value=" + found->second);
    } else if (command == "barrier_in") {
      if (++in_barrier_ < ours_.size()) return;
      in_barrier_ = 0;
      for (const UniqueFd& other : ours_) say(other.get(), "cmd=barrier_out");
    } else if (command == "finalize") {
      ++finalized_;
      say(socket, "cmd=finalize_ack");
    } else {
      ADD_FAILURE() << line;
    }
  }

  std::vector<UniqueFd> ours_, theirs_;
  std::map<std::string, std::string> kept_;
  std::size_t in_barrier_ = 0;
  int finalized_ = 0;
};

void forget_other_launchers() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) ::unsetenv(name);
}

TEST(Pmi, ProcessesMeet) {
  PmiServer server(3);
  std::vector<Process> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      forget_other_launchers();
      server.enter(rank);
      for (int round = 0; round < 3; ++round) {
        auto world = make_world_bootstrap(10s);
        EXPECT_EQ(world->rank(), rank);
        EXPECT_EQ(world->all_gather(rank * 10), (std::vector<int>{0, 10, 20}));
      }
    });
  }
  EXPECT_EQ(server.serve(), 3);
  for (Process& process : ranks) EXPECT_EQ(process.wait(), 0);
}

TEST(Pmi, AMissingRankEndsTheWait) {
  PmiServer server(2);
  Process one([&] {
    forget_other_launchers();
    server.enter(1);
    expect_contains(message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(300ms); }),
                    "a rank has not come");
    expect_contains(message_of(ErrorCode::bootstrap, [] { make_world_bootstrap(300ms); }),
                    "PMI can't be asked again");
  });
  std::thread serving([&] { server.serve(); });
  EXPECT_EQ(one.wait(), 0);
  // The server's rank 0 has nobody: it waits for the hang-up of its socket pair, which it closed.
  serving.join();
}

TEST(Pmi, NonsenseOfTheLauncherIsShown) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const UniqueFd ours(pair[0]), theirs(pair[1]);
  constexpr std::string_view words = "cmd=welcome\n";
  ASSERT_EQ(::write(ours.get(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
  Process rank([&] {
    expect_contains(message_of(ErrorCode::bootstrap,
                               [&] {
                                 detail::share_id({1, 2, theirs.get()}, 1s);
                               }),
                    "it answered \"cmd=welcome\" to \"cmd=init");
  });
  EXPECT_EQ(rank.wait(), 0);
}

TEST(Pmi, VariablesThatContradictEachOther) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const UniqueFd ours(pair[0]), theirs(pair[1]), file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::setenv("PMI_FD", std::to_string(theirs.get()).c_str(), 1);
  ::setenv("PMI_RANK", "3", 1);
  EXPECT_FALSE(detail::find_pmi().has_value());
  ::setenv("PMI_SIZE", "4", 1);
  EXPECT_EQ(detail::find_pmi().value().rank, 3);
  // A program that a rank has started has the variables, and another file at that place.
  ::setenv("PMI_FD", std::to_string(file.get()).c_str(), 1);
  EXPECT_FALSE(detail::find_pmi().has_value());
  ::setenv("PMI_FD", std::to_string(theirs.get()).c_str(), 1);
  ::setenv("PMI_SIZE", "3", 1);
  expect_contains(message_of(ErrorCode::invalid_argument, [] { detail::find_pmi(); }),
                  "PMI_RANK=3 and PMI_SIZE=3 contradict each other");
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"}) ::unsetenv(name);
}

}  // namespace
}  // namespace plait
