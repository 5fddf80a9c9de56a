// The signals that the threads of this process take.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <system_error>

namespace plait::test {

/// Signals of the process that some thread beside `of_program` takes, as a mask in which signal n
/// is bit n - 1. Those of a thread's own mistakes don't count.
inline std::uint64_t signals_taken(std::initializer_list<pid_t> of_program) {
  std::uint64_t taken = 0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    const pid_t number = std::stoi(thread.path().filename());
    if (std::find(of_program.begin(), of_program.end(), number) != of_program.end()) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) taken |= ~std::stoull(line.substr(7), nullptr, 16);
  }
  const auto forget = [&](int signal) { taken &= ~(std::uint64_t{1} << (signal - 1)); };
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) forget(own);
  for (const int never : {SIGKILL, SIGSTOP, 32, 33}) forget(never);  // 32, 33: the C library's
  return taken;
}

}  // namespace plait::test
