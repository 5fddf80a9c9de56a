#include "core/log.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <string>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"

namespace plait::log {
namespace {

constexpr std::array<std::string_view, 5> names = {"off", "error", "warn", "info", "debug"};

Level read_level() {
  const auto value = environment("PLAIT_LOG");
  if (!value) return Level::warn;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == *value) return static_cast<Level>(i);
  throw Error(ErrorCode::invalid_argument, fmt::format("PLAIT_LOG={}: expected one of {}",
                                                       in_quotes(*value), fmt::join(names, ", ")));
}

std::atomic<Level> raised = Level::off;

/// While it exists, writes of this thread raise no SIGPIPE: a log whose reader has gone must not
/// end the program.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&sigpipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_, before_;
  bool was_pending_ = false;
};

/// Standard error, written without blocking. O_NONBLOCK belongs to the open file, which the
/// caller's descriptor shares with other processes. So a pipe or a terminal is opened a second
/// time. For a socket, each call has a flag.
class StandardError {
 public:
  StandardError() {
    struct stat status {};
    if (::fstat(STDERR_FILENO, &status) != 0) return;
    is_socket_ = S_ISSOCK(status.st_mode);
    if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))
      own_ = UniqueFd(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    asks_first_ = !is_socket_ && !own_.valid() && !S_ISREG(status.st_mode);
  }

  /// Like `::write`. `text` has at most PIPE_BUF bytes: a pipe takes that many as a whole or not at
  /// all.
  ssize_t write(std::string_view text) const {
    if (is_socket_) return ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT);
    if (asks_first_ && !has_room(std::chrono::milliseconds(0))) return errno = EAGAIN, -1;
    return ::write(own_.valid() ? own_.get() : STDERR_FILENO, text.data(), text.size());
  }

  static bool has_room(std::chrono::milliseconds within) {
    pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    return ::poll(&room, 1, static_cast<int>(within.count())) == 1;
  }

 private:
  bool is_socket_ = false;
  // It can't be opened a second time, for example without /proc, so `write` asks for room first.
  // Another writer may still come in between.
  bool asks_first_ = false;
  UniqueFd own_;
};

/// How long a line waits for room, unless the line before it has waited in vain.
constexpr std::chrono::milliseconds patience{100};
std::atomic<bool> is_stuck = false;
std::atomic<unsigned> dropped = 0;  // lines since the last one that was written

bool write_whole(std::string_view text) {
  const StandardError standard_error;
  const NoSigpipe no_sigpipe;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!text.empty()) {
    // Cut at the end of a line, if one fits.
    std::string_view part = text.substr(0, PIPE_BUF);
    if (part.size() < text.size())
      if (const auto end = part.rfind('\n'); end != std::string_view::npos)
        part = part.substr(0, end + 1);
    const ssize_t written = standard_error.write(part);
    if (written > 0) {
      is_stuck = false;
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (!is_stuck && left.count() > 0 && StandardError::has_room(left)) continue;
      is_stuck = true;
      return false;
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

Level level() {
  static const Level value = read_level();
  return std::max(value, raised.load(std::memory_order_relaxed));
}
void raise(Level least) noexcept {
  Level before = raised;
  while (before < least && !raised.compare_exchange_weak(before, least)) {
  }
}

void write(Level level, std::string_view text) {
  std::string line = fmt::format("plait {}: {}\n", names[static_cast<std::size_t>(level)], text);
  const unsigned before = dropped.exchange(0);
  if (before != 0)
    line.insert(0, fmt::format("plait warn: {} dropped, as standard error took none\n",
                               before == 1 ? "a line was" : fmt::format("{} lines were", before)));
  if (!write_whole(line)) dropped += before + 1;
}

}  // namespace plait::log
