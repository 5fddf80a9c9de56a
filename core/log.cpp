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
#include <optional>
#include <string>

#include "core/environment.hpp"
#include "core/signal_mask.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"

namespace plait::log {
namespace {

constexpr std::array<std::string_view, 5> names = {"off", "error", "warn", "info", "debug"};

constexpr std::string_view choices = "select";

/// PLAIT_LOG: a level, `select`, or both with a comma between them.
struct Wish {
  std::optional<Level> level;
  bool choices = false;
};

Wish read_wish() {
  Wish wish;
  const auto value = environment("PLAIT_LOG");
  if (!value) return wish;
  for (const std::string_view word : split(*value, ',')) {
    const auto* const name = std::find(names.begin(), names.end(), word);
    const bool is_level = name != names.end();
    if (is_level ? wish.level.has_value() : word != choices || wish.choices)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("PLAIT_LOG={}: expected one of {}, or {}, or both as in info,{}",
                              in_quotes(*value), fmt::join(names, ", "), choices, choices));
    if (is_level) wish.level = static_cast<Level>(name - names.begin());
    else wish.choices = true;
  }
  return wish;
}

const Wish& wish() {
  static const Wish value = read_wish();
  return value;
}

std::atomic<Level> raised = Level::off;

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
      own_ = new_fd(
          [] { return ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); });
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

/// How long a line waits for room. After a line has found none, the next lines do not wait at all,
/// until one is written.
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
  return std::max(wish().level.value_or(Level::warn), raised.load(std::memory_order_relaxed));
}
void raise(Level least) noexcept {
  Level before = raised;
  while (before < least && !raised.compare_exchange_weak(before, least)) {
  }
}

bool says_choices() { return wish().choices; }

namespace {

void write_line(std::string_view kind, std::string_view text) {
  std::string line = fmt::format("plait {}: {}\n", kind, text);
  const unsigned before = dropped.exchange(0);
  if (before != 0)
    line.insert(0, fmt::format("plait warn: {} dropped, as standard error took none\n",
                               before == 1 ? "a line was" : fmt::format("{} lines were", before)));
  if (!write_whole(line)) dropped += before + 1;
}

}  // namespace

void write(Level level, std::string_view text) {
  write_line(names[static_cast<std::size_t>(level)], text);
}
void say_choice(std::string_view text) { write_line(choices, text); }

}  // namespace plait::log
