#include "backends/host/host_range.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "core/process.hpp"
#include "plait/error.hpp"

namespace plait::host {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const char* call, std::size_t bytes) {
  const int error = errno;
  throw Error(error == ENOMEM || error == ENOSPC ? ErrorCode::out_of_memory : ErrorCode::backend,
              fmt::format("{} of {} bytes of shared memory: {}", call, bytes, std::strerror(error)));
}

}  // namespace

HostRange::HostRange(int ranks, std::size_t bytes)
    : stride_((bytes + page - 1) / page * page), is_mapped_(static_cast<std::size_t>(ranks)) {
  void* base = mmap(nullptr, size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail("reserving addresses", size());
  base_ = static_cast<std::byte*>(base);
}

HostRange::~HostRange() { munmap(base_, size()); }

UniqueFd HostRange::create_local(int rank) {
  UniqueFd file(memfd_create("plait", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) fail("memfd_create", stride_);
  // Reserve the pages now: running out later would be a SIGBUS in the middle of a kernel.
  int status = 0;
  do status = fallocate(file.get(), 0, 0, static_cast<off_t>(stride_));
  while (status != 0 && errno == EINTR);
  if (status != 0) fail("fallocate", stride_);
  // All ranks map it: one that could shrink it would end the others by SIGBUS.
  if (fcntl(file.get(), F_ADD_SEALS, fixed_size) != 0) fail("sealing", stride_);
  map(rank, file.get());
  return file;
}

void HostRange::import_peer(int rank, UniqueFd descriptor) {
  struct stat file {};
  const bool known = fstat(descriptor.get(), &file) == 0;
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);  // -1: no memory file
  if (!known || !S_ISREG(file.st_mode) || seals < 0 || (seals & fixed_size) != fixed_size || file.st_size != static_cast<off_t>(stride_))
    throw Error(ErrorCode::backend, fmt::format("rank {} did not send a sealed memory file of {} bytes (type {:#o}, {} bytes, seals {:#x})",
                                                rank, stride_, known ? file.st_mode & S_IFMT : 0, known ? file.st_size : -1, seals));
  map(rank, descriptor.get());
}

void HostRange::map(int rank, int file) {
  const std::lock_guard lock(mutex_);
  const auto slot = static_cast<std::size_t>(rank);
  if (is_mapped_[slot]) return;  // another rank of this process has done it
  if (mmap(address(rank), stride_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) fail("mmap", stride_);
  is_mapped_[slot] = true;
  mapped(rank);
}

std::shared_ptr<SymmetricRange> shared_range(int ranks, std::size_t bytes, std::uint64_t token) {
  struct Ranges {
    std::mutex mutex;
    std::map<std::uint64_t, std::weak_ptr<SymmetricRange>> by_token;
  };
  static OfProcess<Ranges> of_process;
  auto& [mutex, ranges] = of_process.get();
  const std::lock_guard lock(mutex);
  std::erase_if(ranges, [](const auto& entry) { return entry.second.expired(); });
  if (auto range = ranges[token].lock()) return range;
  auto range = std::make_shared<HostRange>(ranks, bytes);
  ranges[token] = range;
  return range;
}

}  // namespace plait::host
