#include "core/user_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

std::string kind_of(mode_t mode) {
  const char* const kind = S_ISDIR(mode)    ? "a directory"
                           : S_ISFIFO(mode) ? "a FIFO"
                           : S_ISSOCK(mode) ? "a socket"
                                            : "a device";
  return fmt::format("it is {}, not a regular file", kind);
}

[[noreturn]] void refuse(std::string_view source, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", source, why));
}

}  // namespace

UserFile open_user_file(const std::string& path, int flags) {
  UserFile file;
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    file.why_not = kind_of(facts.st_mode);
    return file;
  }
  file.descriptor =
      new_fd([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644); });
  if (!file.descriptor.valid() || ::fstat(file.descriptor.get(), &facts) != 0) {
    file.why_not = std::strerror(errno);
    file.descriptor = UniqueFd();
  } else if (!S_ISREG(facts.st_mode)) {  // it was replaced after the first look
    file.why_not = kind_of(facts.st_mode);
    file.descriptor = UniqueFd();
  } else {
    file.bytes = static_cast<std::size_t>(facts.st_size);
  }
  return file;
}

std::string read_user_file(const std::string& path, std::size_t most, std::string_view source) {
  const UserFile file = open_user_file(path, O_RDONLY);
  if (!file.descriptor.valid()) refuse(source, file.why_not);
  // Not file.bytes: that is 0 for files that the kernel makes up, and it may change.
  std::string text(most + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(file.descriptor.get(), text.data() + size, text.size() - size);
    if (n == 0) break;
    if (n > 0) size += static_cast<std::size_t>(n);
    else if (errno != EINTR) refuse(source, std::strerror(errno));
  }
  if (size > most) refuse(source, fmt::format("the file has more than {}", format_bytes(most)));
  text.resize(size);
  return text;
}

}  // namespace plait
