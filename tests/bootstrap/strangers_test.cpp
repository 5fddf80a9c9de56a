// Another user of the machine attacks an exchange of descriptors. Needs root, which can be both
// users.
//
//   strangers_test --beside COMMAND...
//     runs COMMAND, such as mpirun with a program that makes communicators, as one ordinary user
//     beside an attacker that is another: it must succeed, within a third of the time that a stray
//     lingers
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/thread_ranks.hpp"
#include "plait/error.hpp"
#include "support/interfering_bootstrap.hpp"
#include "symm_mem/descriptor_exchange.hpp"
#include "symm_mem/descriptor_letter.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::InterferingBootstrap;
constexpr uid_t nobody = 65534, somebody = 65533;
constexpr int linger_seconds = 30;

/// The attacker's report to the test, in memory that both have.
struct Score {
  std::atomic<int> attacks, lingering, loot;
  std::atomic<int> looks, intrusions;  // at processes of the victim, and into them
  std::atomic<bool> on_user;           // the victim is all processes of a user, else the test's
  sockaddr_un own_name;                // of a socket at which the attacker listens
  std::atomic<socklen_t> own_length;
};

/// TCP sockets whose close would block: they linger, and their peer does not read.
class LingeringSockets {
 public:
  LingeringSockets() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int small = 4096;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    socklen_t length = sizeof address_;
    ok_ = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address_), length) == 0 &&
          ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address_), &length) == 0 &&
          ::listen(listener_.get(), 100) == 0;
  }
  UniqueFd make() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4096;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    if (!ok_ || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_) != 0)
      return {};
    unread_.emplace_back(::accept(listener_.get(), nullptr, nullptr));
    if (unread_.size() > 400) unread_.erase(unread_.begin(), unread_.begin() + 100);
    const std::vector<char> data(65536);
    while (::send(fd.get(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger patient{1, linger_seconds};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &patient, sizeof patient);
    return fd;
  }

 private:
  UniqueFd listener_;
  sockaddr_in address_{};
  bool ok_ = false;
  std::vector<UniqueFd> unread_;
};

/// An abstract socket, as /proc/net/unix shows it.
struct Target {
  int type;
  std::string name;
  bool operator<(const Target& other) const {
    return std::tie(type, name) < std::tie(other.type, other.name);
  }
};
std::set<Target> targets() {
  std::set<Target> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
    if (path.starts_with("@") && (state == "01" || type == "0002"))
      found.insert({std::stoi(type), path.substr(1)});
  }
  return found;
}

/// Whether anything of worth has come from the victim: bytes or a descriptor. Other programs of the
/// machine may be free with theirs.
bool loot(int socket, bool on_user) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  if (on_user ? peer.uid != somebody : peer.pid != ::getppid()) return false;
  std::array<char, 64> bytes{};
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  return ::recvmsg(socket, &message, MSG_DONTWAIT) > 0;
}

/// The attacker's own copy is closed elsewhere, too: if the other one is gone already, that
/// lingers.
void send_stray(int socket, UniqueFd stray, const sockaddr* to, socklen_t length) {
  constexpr std::array<char, 16> bytes{};
  send_descriptors(socket, bytes.data(), std::array{stray.get()}, to, length);
  std::thread([stray = std::move(stray)]() mutable { stray = UniqueFd(); }).detach();
}

void become(uid_t user) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // not to outlive a test that is ended
}

/// Tries the ways into somebody's processes that the system has: their descriptors, their memory, a
/// signal, a descriptor by pidfd.
void intrude(Score& score) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const int process = std::atoi(entry.path().filename().c_str());
    struct stat owner {};
    if (process == 0 || ::stat(entry.path().c_str(), &owner) != 0 || owner.st_uid != somebody)
      continue;
    ++score.looks;
    const UniqueFd folder(
        ::open((entry.path() / "fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const UniqueFd memory(::open((entry.path() / "mem").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    if (folder.valid() || memory.valid() || ::kill(process, 0) == 0) ++score.intrusions;
    for (int fd = 0; fd < 64; ++fd) {
#ifdef SYS_pidfd_getfd
      const UniqueFd stolen(static_cast<int>(::syscall(SYS_pidfd_getfd, handle.get(), fd, 0)));
#else
      const UniqueFd stolen;
#endif
      const UniqueFd opened(::open((entry.path() / "fd" / std::to_string(fd)).c_str(),
                                   O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      if (stolen.valid() || opened.valid()) ++score.intrusions;
    }
  }
}

/// Connects to every abstract socket that it has not seen at its start, sends descriptors that
/// linger, and reads what is sent to it.
[[noreturn]] void attack(Score& score) {
  const std::set<Target> old = targets();
  become(nobody);
  const UniqueFd own(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  score.own_name.sun_family = AF_UNIX;
  socklen_t own_length = sizeof score.own_name;
  if (::bind(own.get(), reinterpret_cast<sockaddr*>(&score.own_name), sizeof(sa_family_t)) != 0 ||
      ::getsockname(own.get(), reinterpret_cast<sockaddr*>(&score.own_name), &own_length) != 0 ||
      ::listen(own.get(), 10) != 0)
    ::_exit(2);
  score.own_length = own_length;
  LingeringSockets lingering;
  std::vector<UniqueFd> connections;
  for (;;) {
    for (const Target& target : targets()) {
      if (old.contains(target)) continue;
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      target.name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
      const auto length =
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + target.name.size());
      if (length == own_length && std::memcmp(&address, &score.own_name, length) == 0) continue;
      const auto* to = reinterpret_cast<const sockaddr*>(&address);
      UniqueFd connection(::socket(AF_UNIX, target.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const bool datagrams = target.type == SOCK_DGRAM;
      if (!datagrams && ::connect(connection.get(), to, length) != 0) continue;
      UniqueFd stray = lingering.make();
      if (stray.valid()) ++score.lingering;
      else stray = UniqueFd(::dup(own.get()));
      send_stray(connection.get(), std::move(stray), datagrams ? to : nullptr,
                 datagrams ? length : 0);
      if (!datagrams) connections.push_back(std::move(connection));
      ++score.attacks;
    }
    if (UniqueFd caller(::accept(own.get(), nullptr, nullptr)); caller.valid()) {
      send_stray(caller.get(), lingering.make(), nullptr, 0);
      connections.push_back(std::move(caller));
      ++score.attacks;
    }
    for (const UniqueFd& connection : connections)
      score.loot += loot(connection.get(), score.on_user) ? 1 : 0;
    if (score.on_user) intrude(score);
    if (connections.size() > 200) connections.erase(connections.begin(), connections.begin() + 100);
  }
}

class Attacker {
 public:
  explicit Attacker(bool on_user = false) {
    void* memory =
        ::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    score_ = new (memory) Score{};
    score_->on_user = on_user;
    process_ = ::fork();
    if (process_ == 0) attack(*score_);
    wait_for([&] { return score_->own_length != 0; });
  }
  ~Attacker() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::munmap(score_, sizeof(Score));
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  const Score& score() const { return *score_; }
  void wait_for_more(int attacks) const {
    const int before = score_->attacks;
    wait_for([&] { return score_->attacks >= before + attacks; });
  }

 private:
  static void wait_for(const std::function<bool()>& condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(condition());
  }
  Score* score_;
  pid_t process_;
};

void on_ranks(int size, const std::function<void(Bootstrap&)>& body) {
  run_ranks(
      size, [&](std::unique_ptr<Bootstrap>& bootstrap) { body(*bootstrap); }, 20s);
}

class Strangers : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  }
};

TEST_F(Strangers, NeitherStopNorStallNorRob) {
  const Attacker attacker;
  const int before = open_descriptors();
  const auto start = std::chrono::steady_clock::now();
  on_ranks(4, [&](Bootstrap& bootstrap) {
    for (int round = 0; round < 5; ++round) {
      // A rank is held up when all sockets are bound: in every queue there is a stranger.
      InterferingBootstrap held_up(bootstrap, [&] {
        if (bootstrap.rank() == 2) attacker.wait_for_more(8);
      });
      exchange_and_check(held_up, 10 * round);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(linger_seconds / 3));
  EXPECT_EQ(attacker.score().loot, 0);
  EXPECT_GT(attacker.score().lingering, 0) << "the test's descriptors would not block";
  EXPECT_EQ(open_descriptors(), before);
}

/// A name that was this rank's and now is a stranger's.
TEST_F(Strangers, SquatterIsRefused) {
  const Attacker attacker;
  const auto start = std::chrono::steady_clock::now();
  on_ranks(3, [&](Bootstrap& bootstrap) {
    InterferingBootstrap deceived(bootstrap, nullptr,
                                  [&](void* addresses) {  // rank 0's comes first
                                    auto& address = *static_cast<ExchangeAddress*>(addresses);
                                    address.name = attacker.score().own_name;
                                    address.length = attacker.score().own_length;
                                  });
    try {
      exchange_descriptors(deceived, make_memfd(1));
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 1 refuses the socket of rank 0"), std::string::npos) << text;
      EXPECT_NE(text.find("of user 65534"), std::string::npos) << text;
    }
    bootstrap.barrier();
    EXPECT_EQ(exchange_descriptors(bootstrap, make_memfd(1)).size(),
              3U);  // the group is still in order
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(linger_seconds / 3));
  EXPECT_EQ(attacker.score().loot, 0);
}

/// Returns the exit status; 77: it can't be tried.
int run_beside(char** command) {
  if (::geteuid() != 0) {
    std::puts("SKIPPED: needs root");
    return 77;
  }
  const Attacker attacker(true);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    become(somebody);
    ::setenv("HOME", "/tmp", 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread
    // A build in root's home is out of its reach, and so is the folder that the test runs in.
    bool reaches = ::chdir("/") == 0;
    for (char** word = command; *word != nullptr; ++word)
      reaches = reaches && (**word != '/' || ::access(*word, X_OK) == 0);
    if (reaches) ::execvp(command[0], command);
    ::_exit(77);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const Score& score = attacker.score();
  std::printf(
      "status %#x after %.1f s; %d attacks, %d of them lingering, %d looks at processes; loot %d, "
      "intrusions %d\n",
      status, seconds.count(), score.attacks.load(), score.lingering.load(), score.looks.load(),
      score.loot.load(), score.intrusions.load());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    std::puts("SKIPPED: another user can't run the command");
    return 77;
  }
  const bool tried = score.lingering > 0 && score.looks > 0;
  return status == 0 && tried && score.loot == 0 && score.intrusions == 0 &&
                 seconds.count() < linger_seconds / 3.0
             ? 0
             : 1;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--beside") return plait::run_beside(argv + 2);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
