#include "core/cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/environment.hpp"
#include "core/standard_fds.hpp"
#include "core/unique_fd.hpp"

namespace plait {

std::optional<std::string> cache_folder() {
  if (const auto cache = environment("XDG_CACHE_HOME"); cache && cache->front() == '/')
    return *cache + "/plait";
  if (const auto home = environment("HOME"); home && home->front() == '/')
    return *home + "/.cache/plait";
  return std::nullopt;
}

std::string why_no_cache() {
  const auto folder = cache_folder();
  if (!folder) return "neither XDG_CACHE_HOME nor HOME names a folder";
  std::error_code failed;
  std::filesystem::create_directories(*folder, failed);
  if (failed) return failed.message();
  return ::access(folder->c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

std::string write_cached(const std::string& path, std::string_view text) {
  if (std::string why = why_no_cache(); !why.empty()) return why;
  // Under another name first. Its last letters differ for each process that writes.
  std::string temporary = path + ".XXXXXX";
  const UniqueFd file = new_fd([&] { return ::mkostemp(temporary.data(), O_CLOEXEC); });
  if (!file.valid()) return std::strerror(errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (text.empty() && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  std::string why = std::strerror(errno);
  std::remove(temporary.c_str());
  return why;
}

}  // namespace plait
