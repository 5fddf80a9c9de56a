#include "bootstrap/process_state.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "core/process_space.hpp"
#include "core/standard_fds.hpp"

namespace plait::detail {
namespace {

/// How long a wait goes on for messages of a process that has ended.
constexpr std::chrono::milliseconds last_words{100};

/// True if the process is gone, or in one of these states of /proc/PID/stat.
bool is_gone_or(std::int32_t process, std::string_view states) {
  if (process == 0 || ::kill(process, 0) != 0) return process != 0 && errno == ESRCH;
  const StandardFdsTaken taken;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), line);
  const std::size_t name_end = line.rfind(')');  // the program's name may hold any character
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         states.find(line[name_end + 2]) != std::string_view::npos;
}

}  // namespace

std::int32_t visible_process(std::int32_t process, std::uint64_t its_space) {
  const std::uint64_t space = process_space();
  return space != 0 && space == its_space ? process : 0;
}

/// A process whose first thread has ended is a zombie, too, but it still has other threads.
bool has_ended(std::int32_t process) {
  if (!is_gone_or(process, "ZX")) return false;
  const StandardFdsTaken taken;
  std::error_code gone;
  return std::distance(
             std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), gone),
             {}) <= 1;
}
bool is_out_of_action(std::int32_t process) { return is_gone_or(process, "TtZX"); }

std::vector<int> LostRanks::confirm(const std::vector<int>& ended) {
  const auto now = Clock::now();
  next_ = now + std::chrono::milliseconds(20);
  if (ended.empty()) since_.reset();
  else if (!since_) since_ = now;
  return since_ && now - *since_ >= last_words ? ended : std::vector<int>();
}

}  // namespace plait::detail
