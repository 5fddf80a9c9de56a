#include "backends/host/processes.hpp"

#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "core/standard_fds.hpp"

namespace plait::host {
namespace {

/// A random value, drawn once per process. A rank that reads it at a peer's address notices if the
/// peer's process number means another process here.
const std::uint64_t& process_nonce() {
  static const std::uint64_t value =
      (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return value;
}

/// The quota of this process's control group in processors, rounded up; 0: no limit.
std::uint64_t processor_quota() {
  const auto whole = [](double quota, double period) {
    return quota > 0 && period > 0 ? static_cast<std::uint64_t>((quota + period - 1) / period) : 0;
  };
  const StandardFdsTaken taken;
  std::string quota;
  double period = 0;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max");
      file >> quota >> period)  // "max 100000" or "150000 100000"
    return quota == "max" ? 0 : whole(std::strtod(quota.c_str(), nullptr), period);
  double old_quota = 0;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
      period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return quota_file >> old_quota && period_file >> period ? whole(old_quota, period) : 0;
}

}  // namespace

ProcessFacts process_facts() {
  ProcessFacts facts{.process = getpid(),
                     .address = reinterpret_cast<std::uintptr_t>(&process_nonce()),
                     .value = process_nonce(),
                     .quota = processor_quota()};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (std::size_t cpu = 0; cpu < 64 * facts.processors.size(); ++cpu)
      if (CPU_ISSET(cpu, &set)) facts.processors[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  return facts;
}

bool can_read(std::span<const ProcessFacts> processes) {
  return std::all_of(processes.begin(), processes.end(), [](const ProcessFacts& other) {
    std::uint64_t value = 0;
    const iovec local{&value, sizeof(value)};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the other process
    const iovec remote{reinterpret_cast<void*>(other.address), sizeof(value)};
    return process_vm_readv(static_cast<pid_t>(other.process), &local, 1, &remote, 1, 0) ==
               ssize_t{sizeof(value)} &&
           value == other.value;
  });
}

double turns_of(std::span<const ProcessFacts> processes, unsigned threads) {
  std::array<std::uint64_t, 16> all{};
  std::uint64_t quota = 0;
  for (const ProcessFacts& process : processes) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= process.processors[i];
    quota = std::max(quota, process.quota);
  }
  auto cores = std::accumulate(all.begin(), all.end(), std::uint64_t{0},
                               [](std::uint64_t sum, std::uint64_t bits) {
                                 return sum + static_cast<unsigned>(std::popcount(bits));
                               });
  if (quota != 0) cores = std::min(cores, quota);
  return static_cast<double>(threads * processes.size()) /
         static_cast<double>(std::max<std::uint64_t>(cores, 1));
}

unsigned spins_for(std::span<const ProcessFacts> processes, unsigned threads) {
  return turns_of(processes, threads) <= 1 ? 1000 : 8;
}

}  // namespace plait::host
