// What belongs to the program of a process: standard input, output and error, also where it was
// started without them, and signals.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/processes.hpp"
#include "core/standard_fds.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"
#include "plait/unique_id.hpp"
#include "support/data.hpp"
#include "support/signals.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using Closed = std::bitset<3>;

constexpr int ranks = 3;  // 0 and 1 share a node

/// While it exists, this process lacks some of its standard descriptors, and a thread writes to
/// them.
class Without {
 public:
  explicit Without(Closed closed) : closed_(closed) {
    std::signal(SIGPIPE, SIG_IGN);
    for (int fd = 0; fd < 3; ++fd) kept_[at(fd)] = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);
    for (int fd = 0; fd < 3; ++fd)
      if (closed_[at(fd)]) ::close(fd);
    writer_ = std::thread([this] {
      thread_ = ::gettid();
      thread_.notify_one();
      constexpr std::string_view text = "a line of the program\n";
      while (!stop_) {
        for (int fd = 0; fd < 3; ++fd)
          if (closed_[at(fd)] && (::write(fd, text.data(), text.size()) >= 0 || errno != EBADF))
            ++strays_;
        std::this_thread::sleep_for(10us);
      }
    });
    thread_.wait(0);
  }
  ~Without() {
    stop_ = true;
    writer_.join();
    for (int fd = 0; fd < 3; ++fd) ::dup2(kept_[at(fd)], fd);
    EXPECT_EQ(strays_, 0) << "lines that a descriptor of Plait's has taken";
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

  void expect_untouched(const char* after) const {
    expect_closed(after);
    EXPECT_EQ(test::signals_taken({::getpid(), thread_}), 0u) << after;
  }

 private:
  /// A stand-in of Plait's may be seen for a moment, because its threads open files at any time.
  void expect_closed(const char* after) const {
    for (int fd = 0; fd < 3; ++fd) {
      const auto until = std::chrono::steady_clock::now() + 5s;
      int flags = 0;
      while (closed_[at(fd)] && (flags = ::fcntl(fd, F_GETFL)) >= 0) {
        if ((flags & O_PATH) != 0 && std::chrono::steady_clock::now() < until) continue;
        std::error_code gone;
        ADD_FAILURE() << after << ": " << fd << " is open: "
                      << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), gone);
        break;
      }
    }
  }

  static std::size_t at(int fd) { return static_cast<std::size_t>(fd); }

  Closed closed_;
  std::array<int, 3> kept_{};
  std::atomic<bool> stop_ = false;
  std::atomic<int> strays_ = 0;
  std::atomic<pid_t> thread_ = 0;  // of the writer
  std::thread writer_;
};

void expect_sum(Communicator& comm, int rank, std::uint64_t seed, std::size_t count) {
  std::vector<std::int64_t> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i)
    in[i] = test::element<std::int64_t>(seed, rank, i, ReduceOp::sum);
  comm.all_reduce(std::span(in), std::span(out), ReduceOp::sum, {});
  comm.synchronize();
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(out[i], test::expected<std::int64_t>(seed, comm.size(), i, ReduceOp::sum, 1)) << i;
}

/// The variables of torchrun, as in launcher_test.cpp. The ranks pretend to be on two nodes.
void set_environment(int rank, const std::string& job) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("LOCAL_RANK", std::to_string(rank));
  set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "localhost");
  set("MASTER_PORT", "29517");
  set("TORCHELASTIC_RUN_ID", job);
  set("PLAIT_NODE", rank < 2 ? "first" : "second");
  set("PLAIT_LOG", "debug");
  set("PLAIT_SCRATCH_BYTES", "8M");
  set("PLAIT_NET_THREADS", "2");
}

void run_job(int rank, Closed closed) {
  const Without without(closed);
  auto world = make_world_bootstrap();
  without.expect_untouched("meeting");
  Communicator comm = Communicator::create(std::move(world), {.backend = BackendKind::host});
  without.expect_untouched("creating a communicator");
  const std::uint64_t seed = closed.to_ulong() * 100;
  expect_sum(comm, rank, seed + 1, 100);
  without.expect_untouched("a short call");
  expect_sum(comm, rank, seed + 2, 300'000);
  without.expect_untouched("a long call");
  auto shared = comm.allocate<int>(25'000);
  without.expect_untouched("allocating");
  {
    const Stream stream = comm.create_stream();
    Communicator pair = *comm.split(rank == 1 ? 1 : 0, rank);
    without.expect_untouched("splitting");
    // Ranks of a part have new numbers: rank 2 of the job is rank 1 of two.
    expect_sum(pair, pair.rank(), seed + 3 + (rank == 1 ? 1 : 0), 5000);
  }
  without.expect_untouched("the end of a part");
  shared = {};
  { const Communicator gone = std::move(comm); }
  without.expect_untouched("the end");
}

TEST(ProcessOfAJob, KeepsItsDescriptorsAndSignals) {
  for (unsigned long which = 0; which < 8; ++which) {
    const Closed closed(which);
    SCOPED_TRACE("closed descriptors 2, 1, 0: " + closed.to_string());
    const std::string job = std::to_string(::getpid()) + "-" + closed.to_string();
    test::run_processes(ranks, [&](int rank) {
      set_environment(rank, job);
      if (closed.all()) ::setenv("PLAIT_TRACE", "/dev/null", 1);  // takes long
      run_job(rank, closed);
    });
  }
}

/// Two threads: the stand-ins of one stay while the other needs them. A file that the program opens
/// in the place of one is the program's.
TEST(StandardFds, StandInsGoWithTheLastUser) {
  test::Process child([] {
    const Without without(Closed{0b101});
    const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
    errno = EAGAIN;
    auto first = std::make_unique<StandardFdsTaken>();
    EXPECT_TRUE(is_open(0) && is_open(2));
    {
      const StandardFdsTaken second;
      first.reset();
      EXPECT_TRUE(is_open(0) && is_open(2));
      EXPECT_EQ(errno, EAGAIN);
      // The writer gets EBADF from one that is open for reading.
      const UniqueFd own = new_fd([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); });
      EXPECT_GT(own.get(), 2);
      ASSERT_EQ(::dup2(own.get(), 0), 0);
    }
    EXPECT_TRUE(is_open(0));
    ::close(0);
    EXPECT_FALSE(is_open(2));
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Files that another thread opens in the place of closed descriptors, for a moment.
TEST(StandardFds, FilesComeAndGo) {
  test::Process child([] {
    const Without without(Closed{0b011});
    std::atomic<bool> stop = false;
    std::thread other([&] {
      while (!stop) {
        const UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC)),
            next(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
      }
    });
    int low = 0;
    for (int i = 0; i < 20'000; ++i)
      low += new_fd([] { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }).get() < 3;
    stop = true;
    other.join();
    EXPECT_EQ(low, 0);
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace plait
