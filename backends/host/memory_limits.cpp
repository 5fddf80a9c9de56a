#include "backends/host/memory_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/standard_fds.hpp"

namespace plait::host {
namespace {

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// The number in a file; empty for a word such as "max".
std::optional<std::size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (status != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// The number after `key` in a file of lines "key number" or "key: number kB"; 0 if there is none.
std::size_t value_in(const std::string& path, std::string_view key, std::size_t unit = 1) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t number = 0;
    if (words >> name >> number && name == key) return number * unit;
  }
  return 0;
}

std::size_t saturating_difference(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }
std::size_t saturating_sum(std::size_t a, std::size_t b) {
  return a > no_limit - b ? no_limit : a + b;
}

MemoryLimit limit(std::uint64_t id, std::size_t left, const std::string& name) {
  MemoryLimit made{.id = id, .left = left - left / 32, .name = {}};
  std::copy_n(name.begin(), std::min(name.size(), made.name.size() - 1), made.name.begin());
  return made;
}

/// A hierarchy of control groups and this process's group in it.
struct Hierarchy {
  bool is_v2;
  std::string mount, group;
};

/// This process's group, from the line "4:memory:/job" (version 1) or "0::/job" (version 2).
std::optional<std::string> group_of(const std::string& root, bool is_v2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), last = line.find(':', first + 1);
    if (first == std::string::npos || last == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, last - first - 1) + ',';
    if (is_v2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos)
      return line.substr(last + 1);
  }
  return std::nullopt;
}

/// All mounted hierarchies that limit memory. A container may see only its own group, which is then
/// at the mount point.
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // number parent device root mount-point options [fields] - type source super-options
    std::istringstream words(line);
    std::string word, inside, point, type, source, options;
    words >> word >> word >> word >> inside >> point;
    while (words >> word && word != "-") {
    }
    words >> type >> source >> options;
    const bool is_v2 = type == "cgroup2";
    if (!is_v2 && (type != "cgroup" || (',' + options + ',').find(",memory,") == std::string::npos))
      continue;
    auto group = group_of(root, is_v2);
    if (!group) continue;
    if (inside != "/" && group->starts_with(inside)) group->erase(0, inside.size());
    struct stat there {};
    if (::stat((root + point + *group).c_str(), &there) != 0) group->clear();
    found.push_back({is_v2, root + point, *group});
  }
  return found;
}

/// Page cache that the kernel would drop first counts as free.
std::optional<std::size_t> left_in(const std::string& folder, bool is_v2) {
  const auto most = number_in(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = number_in(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  constexpr std::size_t unlimited = std::size_t{1} << 62;  // version 1: a number near 2^63
  if (!most || !used || *most >= unlimited) return std::nullopt;
  const std::size_t cache =
      value_in(folder + "/memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
  return saturating_sum(saturating_difference(*most, *used), cache);
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  const StandardFdsTaken taken;
  std::vector<MemoryLimit> limits;
  const std::string machine = root + "/proc/meminfo";
  if (const std::size_t available = value_in(machine, "MemAvailable:", 1024); available != 0)
    limits.push_back(
        limit(0, saturating_sum(available, value_in(machine, "SwapFree:", 1024)), "the machine"));
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    for (std::string group = hierarchy.group;; group.erase(group.rfind('/'))) {
      const std::string folder = hierarchy.mount + group;
      struct stat place {};
      const auto left = left_in(folder, hierarchy.is_v2);
      if (left && ::stat(folder.c_str(), &place) == 0)
        limits.push_back(limit((std::uint64_t{place.st_dev} << 32) ^ place.st_ino, *left,
                               fmt::format("the control group {}", group.empty() ? "/" : group)));
      if (group.empty() || group.find('/') == std::string::npos) break;
    }
  }
  return limits;
}

std::size_t largest_file() {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY ? most.rlim_cur
                                                                                 : no_limit;
}

bool accounts_strictly() {
  const StandardFdsTaken taken;
  return number_in("/proc/sys/vm/overcommit_memory") == std::size_t{2};
}

}  // namespace plait::host
