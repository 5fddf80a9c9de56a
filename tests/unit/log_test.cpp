// The log: it never waits for a reader, and what is thrown is not logged as well.
#include "core/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/unique_fd.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// Standard error is something else for a while.
class Redirected {
 public:
  explicit Redirected(int to) : before_(dup(STDERR_FILENO)) { dup2(to, STDERR_FILENO); }
  ~Redirected() { dup2(before_.get(), STDERR_FILENO); }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  UniqueFd before_;
};

struct Ends {
  UniqueFd reads, writes;
};
Ends make_pipe() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}
Ends make_socket() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_blocking(int fd, bool blocks) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/// Fills the pipe to the last byte, so that the next write blocks.
void fill(int fd) {
  const std::array<char, 4096> bytes{};
  set_blocking(fd, false);
  while (write(fd, bytes.data(), bytes.size()) > 0) {
  }
  while (write(fd, bytes.data(), 1) > 0) {
  }
  set_blocking(fd, true);
}

/// All that is there.
std::string drain(int fd) {
  std::string text;
  std::array<char, 4096> part;
  set_blocking(fd, false);
  for (ssize_t n = 0; (n = read(fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  text.erase(0, text.find_last_of('\0') == std::string::npos
                    ? 0
                    : text.find_last_of('\0') + 1);  // what filled it
  return text;
}

class FullStandardError : public testing::TestWithParam<std::pair<const char*, Ends (*)()>> {};
INSTANTIATE_TEST_SUITE_P(Kinds, FullStandardError,
                         testing::Values(std::pair("pipe", &make_pipe),
                                         std::pair("socket", &make_socket)),
                         [](const auto& test) { return std::string(test.param.first); });

TEST_P(FullStandardError, CostsLinesAndNoTime) {
  {
    const Ends empty = make_pipe();
    const Redirected redirected(empty.writes.get());
    log::warn("what other tests have lost is no longer counted");
  }
  const Ends ends = GetParam().second();
  fill(ends.writes.get());
  const auto begin = Clock::now();
  {
    const Redirected redirected(ends.writes.get());
    for (int i = 0; i < 100; ++i) log::warn("line {}", i);
    EXPECT_LT(Clock::now() - begin, 1s);
    drain(ends.reads.get());
    log::warn("there is room again");
    log::warn("and again");
    const std::string text = drain(ends.reads.get());
    EXPECT_EQ(text,
              "plait warn: 100 lines were dropped, as standard error took none\nplait warn: there "
              "is room again\nplait warn: and again\n");
  }
}

/// A reader that is only slow loses nothing.
TEST_P(FullStandardError, WaitsALittleForAReader) {
  const Ends ends = GetParam().second();
  fill(ends.writes.get());
  std::string text;
  {
    const Redirected redirected(ends.writes.get());
    std::thread reader([&] {
      std::this_thread::sleep_for(20ms);
      text = drain(ends.reads.get());
    });
    log::warn("in time");
    reader.join();
    text += drain(ends.reads.get());
  }
  EXPECT_EQ(text, "plait warn: in time\n");
}

TEST_P(FullStandardError, SurvivesAReaderThatHasGone) {
  Ends ends = GetParam().second();
  ends.reads = UniqueFd();
  const Redirected redirected(ends.writes.get());
  log::warn("to nobody");
}

TEST(Log, LongReportsArriveWhole) {
  const Ends ends = make_pipe();
  std::string report;
  for (int i = 0; i < 900; ++i)
    report += fmt::format("line {} of many, of which each has some length\n  ", i);
  {
    const Redirected redirected(ends.writes.get());
    log::warn("{}", report);
  }
  EXPECT_EQ(drain(ends.reads.get()), "plait warn: " + report + "\n");
}

std::string logged(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

/// Rank 1 stays away until the others' time is over.
void time_out(bool others_look, bool last_looks) {
  const auto options = test_options({.timeout = 200ms});
  run_ranks(
      2,
      [&](Communicator& comm, int rank) {
        if (rank == 1) std::this_thread::sleep_for(600ms);
        else comm.barrier();
        const auto error = rank == 1     ? (last_looks ? heard(comm) : std::nullopt)
                           : others_look ? error_of([&] { comm.synchronize(); })
                                         : std::nullopt;
        if (rank == 1 ? last_looks : others_look)
          expect_error(error, ErrorCode::timeout, HasSubstr("rank 1 is missing"));
        else std::this_thread::sleep_for(600ms);
      },
      options);
}

class LogOfTwoRanks : public testing::Test {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(2); }
};

TEST_F(LogOfTwoRanks, HasNothingThatIsThrown) {
  EXPECT_EQ(logged([] { time_out(true, true); }), "");
}

TEST_F(LogOfTwoRanks, HasWhatWasNeverThrownOnce) {
  const auto matcher = testing::AllOf(testing::StartsWith("plait error: rank 1 is missing"),
                                      HasSubstr("the communicator is broken"));
  const auto errors = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("plait error"); at != std::string::npos;
         at = text.find("plait error", at + 1))
      ++count;
    return count;
  };
  const std::string one = logged([] { time_out(true, false); });
  EXPECT_THAT(one, matcher);
  EXPECT_EQ(errors(one), 1u);
  const std::string both = logged([] { time_out(false, false); });
  EXPECT_EQ(errors(both), 2u) << both;
}

TEST_F(LogOfTwoRanks, HasNoAbortForTheRankThatAborts) {
  const std::string text = logged([] {
    run_ranks(2, [](Communicator& comm, int rank) {
      std::optional<Communicator> part = comm.duplicate();
      comm.bootstrap().barrier();
      if (rank == 0) comm.abort("enough");
      else expect_error(heard(comm), ErrorCode::aborted, HasSubstr("enough"));
    });
  });
  EXPECT_EQ(text, "");
}

TEST_F(LogOfTwoRanks, HasOneLineForADeviceGroup) {
  const auto break_group = [](bool look) {
    DeviceGroup group({0, 1},
                      test_options().backend == BackendKind::host
                          ? DeviceGroupOptions{.backend = BackendKind::host, .timeout = 200ms}
                          : DeviceGroupOptions{.timeout = 200ms});
    group.device(0).barrier();  // and not on device 1
    std::this_thread::sleep_for(500ms);
    if (look) {
      EXPECT_TRUE(group.async_error());
    }
  };
  EXPECT_EQ(logged([&] { break_group(true); }), "");
  EXPECT_THAT(logged([&] { break_group(false); }),
              testing::ContainsRegex("^plait error: rank 1 is missing"));
}

/// Lines without a reader hold up neither the monitor nor an abort.
TEST_F(LogOfTwoRanks, FullStandardErrorHoldsUpNoAbort) {
  const Ends ends = make_pipe();
  fill(ends.writes.get());
  const Redirected redirected(ends.writes.get());
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        comm.bootstrap().barrier();
        if (rank == 1) {
          log::error("a line before");
          comm.abort("enough");
          return;
        }
        const auto begin = Clock::now();
        expect_error(error_of([&] {
                       comm.barrier();
                       comm.synchronize();
                     }),
                     ErrorCode::aborted, HasSubstr("enough"));
        EXPECT_LT(Clock::now() - begin, promised);
      },
      patient());
}

}  // namespace
}  // namespace plait::test
