#include "bootstrap/mpi/heartbeat.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/standard_fds.hpp"

namespace plait::detail {
namespace {

constexpr const char* name = "plait-heartbeat";

std::int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

Heartbeat::Heartbeat(std::uint64_t number) {
  UniqueFd file = new_fd([] { return ::memfd_create(name, MFD_CLOEXEC); });
  if (!file.valid() || ::ftruncate(file.get(), sizeof(Page)) != 0) return;
  void* const memory =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  page_ = new (memory) Page{number, now()};
  file_ = std::move(file);
}

Heartbeat::~Heartbeat() {
  if (page_ != nullptr) ::munmap(page_, sizeof(Page));
}

void Heartbeat::beat() noexcept {
  if (page_ != nullptr) page_->beat.store(now(), std::memory_order_relaxed);
}

std::optional<std::chrono::nanoseconds> Heartbeat::silence(std::int32_t process,
                                                           std::int32_t descriptor,
                                                           std::uint64_t number) {
  if (process == 0 || descriptor < 0) return std::nullopt;
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  // The descriptor may be that of another file by now, and opening some files has effects.
  std::array<char, 64> target{};
  if (::readlink(path.c_str(), target.data(), target.size() - 1) < 0 ||
      !std::string_view(target.data()).starts_with(fmt::format("/memfd:{}", name)))
    return std::nullopt;
  const UniqueFd file = new_fd([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  std::array<std::int64_t, 2> words{};
  if (!file.valid() || ::pread(file.get(), words.data(), sizeof words, 0) != sizeof words)
    return std::nullopt;
  if (static_cast<std::uint64_t>(words[0]) != number) return std::nullopt;
  return std::chrono::nanoseconds(now() - words[1]);
}

}  // namespace plait::detail
