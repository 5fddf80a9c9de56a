// Tells whether a rank still runs while it is in an MPI call that can't say which rank is missing.
#pragma once
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/standard_fds.hpp"
#include "core/unique_fd.hpp"

namespace plait::detail {

/// A rank that waits beats, and the others read when it last did. The beat lies in a memory file
/// without a name, which the others open through /proc. So it works between processes of one user
/// that see each other's PIDs, and it leaves nothing behind. Other users can't open it.
class Heartbeat {
 public:
  /// No other heartbeat has this `number`, and the caller tells it to the other ranks. If memory is
  /// short there is no heartbeat, and the other ranks learn nothing of this one.
  explicit Heartbeat(std::uint64_t number) {
    UniqueFd file = new_fd([] { return ::memfd_create(name, MFD_CLOEXEC); });
    if (!file.valid() || ::ftruncate(file.get(), sizeof(Page)) != 0) return;
    void* const memory =
        ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return;
    page_ = new (memory) Page{number, now()};
    file_ = std::move(file);
  }
  ~Heartbeat() {
    if (page_ != nullptr) ::munmap(page_, sizeof(Page));
  }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// For the other ranks, together with this process's PID. -1 if there is no heartbeat.
  std::int32_t descriptor() const noexcept { return file_.get(); }
  void beat() noexcept {
    if (page_ != nullptr) page_->beat.store(now(), std::memory_order_relaxed);
  }

  /// The time since the last beat of `process`. None if it can't be known, or if the heartbeat is
  /// gone because the process waits no longer.
  static std::optional<std::chrono::nanoseconds> silence(std::int32_t process,
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

 private:
  static constexpr const char* name = "plait-heartbeat";
  static std::int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  struct Page {
    std::uint64_t number;
    std::atomic<std::int64_t> beat;  // on the steady clock, which is one for all processes
  };
  UniqueFd file_;
  Page* page_ = nullptr;
};

}  // namespace plait::detail
