#include "bootstrap/launcher/pmi.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <string>
#include <string_view>

#include "bootstrap/socket/unique_id.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr int longest_poll = 100;  // milliseconds

/// A conversation with the launcher: lines of words such as "cmd=get key=id".
class Pmi {
 public:
  Pmi(const PmiJob& job, std::chrono::nanoseconds limit) : job_(job), deadline_(limit) {}

  /// Sends a line, and returns the value of `wanted` in the answer, whose command is `answer`.
  std::string ask(const std::string& line, std::string_view answer, std::string_view wanted = {}) {
    write(line + "\n");
    const std::string heard = read_line();
    std::string value;
    bool right = false;
    for (const std::string_view word : words(heard)) {
      const std::size_t equal = word.find('=');
      if (equal == std::string_view::npos) continue;
      const std::string_view name = word.substr(0, equal), said = word.substr(equal + 1);
      if (name == "cmd") right = said == answer;
      if (name == "rc" && said != "0") fail(fmt::format("it refused {}", in_quotes(line)));
      if (!wanted.empty() && name == wanted) value = said;
    }
    if (!right || (!wanted.empty() && value.empty()))
      fail(fmt::format("it answered {} to {}", in_quotes(heard), in_quotes(line)));
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::bootstrap,
                fmt::format("make_world_bootstrap: rank {}: the launcher (PMI_FD={}): {}",
                            job_.rank, job_.socket, why));
  }
  void wait(short events) const {
    pollfd entry{job_.socket, events, 0};
    while (::poll(&entry, 1, deadline_.milliseconds_left(longest_poll)) <= 0)
      if (deadline_.expired()) fail("it does not answer, or a rank has not come");
  }
  void write(std::string_view text) const {
    while (!text.empty()) {
      wait(POLLOUT);
      ssize_t sent = ::send(job_.socket, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == ENOTSOCK) sent = ::write(job_.socket, text.data(), text.size());
      if (sent < 0 && errno != EINTR && errno != EAGAIN) fail("it is gone");
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string read_line() const {
    constexpr std::size_t longest = 4096;
    std::string line;
    for (char letter = 0;;) {
      wait(POLLIN);
      const ssize_t got = ::read(job_.socket, &letter, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) fail("it is gone");
      if (letter == '\n') return line;
      line += letter;
      if (line.size() > longest) fail("it sends no line");
    }
  }

  const PmiJob& job_;
  Deadline deadline_;
};

std::string to_hex(const UniqueId& id) {
  std::string text;
  for (const unsigned char byte : id.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// None if the text is no id.
std::optional<UniqueId> from_hex(const std::string& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  UniqueId id;
  if (text.size() != 2 * id.bytes.size()) return std::nullopt;
  for (std::size_t at = 0; at < id.bytes.size(); ++at) {
    const std::size_t high = digits.find(text[2 * at]), low = digits.find(text[2 * at + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    id.bytes[at] = static_cast<unsigned char>(high << 4 | low);
  }
  return id;
}

}  // namespace

std::optional<PmiJob> find_pmi() {
  constexpr long most = std::numeric_limits<int>::max();
  if (!environment("PMI_FD") || !environment("PMI_RANK") || !environment("PMI_SIZE"))
    return std::nullopt;
  PmiJob job{static_cast<int>(environment_integer("PMI_RANK", 0, 0, most)),
             static_cast<int>(environment_integer("PMI_SIZE", 1, 1, most)),
             static_cast<int>(environment_integer("PMI_FD", -1, 0, most))};
  // A program that a rank starts inherits the variables, but not the connection.
  struct stat file {};
  if (::fstat(job.socket, &file) != 0 || !(S_ISSOCK(file.st_mode) || S_ISFIFO(file.st_mode)))
    return std::nullopt;
  if (job.rank >= job.size)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("PMI_RANK={} and PMI_SIZE={} contradict each other", job.rank, job.size));
  return job;
}

UniqueId share_id(const PmiJob& job, std::chrono::nanoseconds limit) {
  static std::atomic<bool> done = false;
  if (done.exchange(true))
    throw Error(ErrorCode::bootstrap,
                fmt::format("make_world_bootstrap: rank {}: the first group of this launcher's "
                            "processes has failed, and PMI can't be asked again",
                            job.rank));
  Pmi pmi(job, limit);
  pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  const std::string space = pmi.ask("cmd=get_my_kvsname", "my_kvsname", "kvsname");
  UniqueId id;
  if (job.rank == 0) id = UniqueId::create();
  try {
    if (job.rank == 0)
      pmi.ask(fmt::format("cmd=put kvsname={} key=plait-id value={}", space, to_hex(id)),
              "put_result");
    pmi.ask("cmd=barrier_in", "barrier_out");
    if (job.rank != 0) {
      const std::string value =
          pmi.ask(fmt::format("cmd=get kvsname={} key=plait-id", space), "get_result", "value");
      const auto read = from_hex(value);
      if (!read)
        throw Error(ErrorCode::bootstrap,
                    fmt::format("make_world_bootstrap: rank {}: the launcher keeps no id but {}",
                                job.rank, in_quotes(value)));
      id = *read;
    }
    // Otherwise the launcher takes the end of this process for a crash.
    pmi.ask("cmd=finalize", "finalize_ack");
  } catch (const Error&) {
    if (job.rank == 0) discard(id);
    throw;
  }
  return id;
}

}  // namespace plait::detail
