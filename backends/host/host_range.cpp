#include "backends/host/host_range.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "backends/host/memory_limits.hpp"
#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::host {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const char* call, std::size_t bytes) {
  const int error = errno;
  throw Error(
      error == ENOMEM || error == ENOSPC ? ErrorCode::out_of_memory : ErrorCode::backend,
      fmt::format("{} of {} bytes of shared memory: {}", call, bytes, std::strerror(error)));
}

}  // namespace

HostRange::HostRange(int ranks, std::size_t bytes, Commit commit)
    : stride_((bytes + page - 1) / page * page),
      commit_(accounts_strictly() ? Commit::at_once : commit),
      is_mapped_(static_cast<std::size_t>(ranks)) {
  void* base = mmap(nullptr, size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail("reserving addresses", size());
  base_ = static_cast<std::byte*>(base);
}

HostRange::~HostRange() { munmap(base_, size()); }

UniqueFd HostRange::create_local(int rank) {
  UniqueFd file = new_fd([] { return memfd_create("plait", MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!file.valid()) fail("memfd_create", stride_);
  if (const std::size_t most = largest_file(); stride_ > most)
    throw Error(
        ErrorCode::out_of_memory,
        fmt::format("{} bytes of shared memory: the limit of a file's size (ulimit -f) is {} bytes",
                    stride_, most));
  if (ftruncate(file.get(), static_cast<off_t>(stride_)) != 0) fail("ftruncate", stride_);
  if (commit_ == Commit::at_once) commit_all(file.get());
  // All ranks map the file: if a rank could shrink it, the others would end by SIGBUS.
  if (fcntl(file.get(), F_ADD_SEALS, fixed_size) != 0) fail("sealing", stride_);
  map(rank, file.get());
  return file;
}

/// Commits now, because running out of memory later would be a SIGBUS in the middle of a kernel.
/// The ranks have found room for all of it, but other processes may take that in the meantime. So
/// this proceeds in steps and checks the limits again as it goes, because the kernel itself ends a
/// process rather than refuse memory. A signal restarts a step, so a step must be shorter than the
/// period of a profiler's timer.
void HostRange::commit_all(int file) const {
  constexpr std::size_t step = std::size_t{2} << 20, steps_per_check = 64;
  for (std::size_t done = 0, steps = 0; done < stride_; ++steps) {
    const std::size_t bytes = std::min(step, stride_ - done);
    if (steps % steps_per_check == 0 && stride_ > step)
      for (const MemoryLimit& limit : memory_limits())
        if (limit.left < std::min(step * steps_per_check, stride_ - done))
          throw Error(
              ErrorCode::out_of_memory,
              fmt::format(
                  "{} bytes of shared memory: {} of them are committed, and {} has only {} left",
                  stride_, done, limit.name.data(), limit.left));
    if (fallocate(file, 0, static_cast<off_t>(done), static_cast<off_t>(bytes)) == 0) done += bytes;
    else if (errno != EINTR) fail("fallocate", stride_);
  }
}

/// Counts all pages that the file has, whichever rank has touched them.
std::size_t HostRange::committed(int rank) const {
  std::vector<unsigned char> resident(stride_ / page);
  if (mincore(address(rank), stride_, resident.data()) != 0) return stride_;
  return page *
         static_cast<std::size_t>(std::count_if(resident.begin(), resident.end(),
                                                [](unsigned char one) { return (one & 1) != 0; }));
}

void HostRange::import_peer(int rank, UniqueFd descriptor) {
  struct stat file {};
  const bool known = fstat(descriptor.get(), &file) == 0;
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);  // -1: not a memory file
  if (!known || !S_ISREG(file.st_mode) || seals < 0 || (seals & fixed_size) != fixed_size ||
      file.st_size != static_cast<off_t>(stride_))
    throw Error(
        ErrorCode::backend,
        fmt::format("no sealed memory file of {} bytes came (type {:#o}, {} bytes, seals "
                    "{:#x})",
                    stride_, known ? file.st_mode & S_IFMT : 0, known ? file.st_size : -1, seals));
  map(rank, descriptor.get());
}

void HostRange::map(int rank, int file) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(rank);
  if (is_mapped_[index]) return;  // another rank of this process has mapped it
  if (mmap(address(rank), stride_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
      MAP_FAILED)
    fail("mmap", stride_);
  mapped(address(rank), stride_);
  is_mapped_[index] = true;
}

std::shared_ptr<ReservedRange> shared_range(int ranks, std::size_t bytes, std::uint64_t token,
                                            Commit commit) {
  struct Ranges {
    std::mutex mutex;
    std::map<std::uint64_t, std::weak_ptr<ReservedRange>> by_token;
  };
  static OfProcess<Ranges> of_process;
  auto& [mutex, ranges] = of_process.get();
  const std::lock_guard lock(mutex);
  std::erase_if(ranges, [](const auto& entry) { return entry.second.expired(); });
  if (auto range = ranges[token].lock()) return range;
  auto range = std::make_shared<HostRange>(ranks, bytes, commit);
  ranges[token] = range;
  return range;
}

}  // namespace plait::host
