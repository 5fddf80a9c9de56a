#include "communicator/observe/trace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "core/log.hpp"
#include "core/process.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"

namespace plait {
namespace {

constexpr std::string_view closing = "\n]}\n";

/// "a/trace.json", "rank3" -> "a/trace.rank3.json".
std::string with_part(const std::string& path, const std::string& part) {
  const std::filesystem::path whole(path);
  std::filesystem::path name = whole.stem();
  name += "." + part + whole.extension().string();
  return (whole.parent_path() / name).string();
}

UniqueFd create(const std::string& path) {
  UserFile file = open_user_file(path, O_RDWR | O_CREAT);
  if (!file.descriptor.valid())
    log::warn("PLAIT_TRACE: {}: {}; this rank writes no trace", printable(path), file.why_not);
  return std::move(file.descriptor);
}

bool is_beyond_limit(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         bytes > limit.rlim_cur;
}

bool is_taken(const UniqueFd& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else quoted += c;
  }
  return quoted + '"';
}

std::shared_ptr<TraceFile> TraceFile::open(const std::string& path, int rank, int ranks) {
  struct Files {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<TraceFile>> by_name;
  };
  // The files stay open until the process ends, because their locks keep other processes, children
  // made by fork among them, from overwriting them.
  static OfProcess<Files> of_process;
  auto& [mutex, files] = of_process.get();
  const std::lock_guard lock(mutex);
  const std::string wanted = ranks > 1 ? with_part(path, fmt::format("rank{}", rank)) : path;
  if (const auto known = files.find(wanted); known != files.end()) return known->second;
  std::string name = wanted;
  UniqueFd file = create(name);
  if (file.valid() && is_taken(file)) {
    name = with_part(wanted, fmt::format("pid{}", ::getpid()));
    file = create(name);
  }
  if (!file.valid()) return nullptr;
  return files[wanted] = std::make_shared<TraceFile>(std::move(file), std::move(name), rank);
}

TraceFile::TraceFile(UniqueFd file, std::string path, int rank)
    : file_(std::move(file)), path_(std::move(path)), rank_(rank) {
  // A path that names no regular file, such as /dev/null, has no length to cut.
  if (::ftruncate(file_.get(), 0) != 0 && errno != EINVAL) give_up(errno);
  write_at_end(fmt::format(R"({{"displayTimeUnit":"ns","traceEvents":[
{{"name":"process_name","ph":"M","pid":{0},"tid":0,"args":{{"name":"rank {0}"}}}})",
                           rank_));
}

void TraceFile::append(std::string_view events) {
  const std::lock_guard lock(mutex_);
  write_at_end(events);
}

void TraceFile::give_up(int error) {
  log::warn("PLAIT_TRACE: {}: {}; the trace is not complete", path_, std::strerror(error));
  failed_ = true;
}

/// Overwrites the closing bracket and writes a new one.
void TraceFile::write_at_end(std::string_view text) {
  const std::string all = fmt::format("{}{}", text, closing);
  std::size_t written = 0;
  // A write beyond the limit would end the process (SIGXFSZ). The file stays complete as it is.
  if (!failed_ && is_beyond_limit(static_cast<std::size_t>(end_) + all.size())) {
    log::warn(
        "PLAIT_TRACE: {}: the limit of a file's size (ulimit -f) is reached; the trace is not "
        "complete",
        path_);
    failed_ = true;
  }
  while (written < all.size() && !failed_) {
    const auto n = ::pwrite(file_.get(), all.data() + written, all.size() - written,
                            end_ + static_cast<off_t>(written));
    if (n > 0) {
      written += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      give_up(errno);
    }
  }
  end_ += static_cast<off_t>(text.size());
}

}  // namespace plait
