#include "core/process.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "plait/error.hpp"

namespace plait {
namespace {

using Number = std::atomic<std::uint64_t>;
static_assert(Number::is_always_lock_free);

/// Zero until the process has drawn its number. The kernel zeroes the page in every child that has
/// its own memory, also in one made by the bare system call. The handler does it where the kernel
/// is older than 4.14 or there is no page.
Number& number_of_process() {
  static Number& number = [&]() -> Number& {
    static Number without_page = 0;
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) madvise(page, size, MADV_WIPEONFORK);
    pthread_atfork(nullptr, nullptr,
                   [] { number_of_process().store(0, std::memory_order_relaxed); });
    return page == MAP_FAILED ? without_page : *new (page) Number(0);
  }();
  return number;
}

struct Kept {
  std::shared_ptr<const void> object;
  Kept* next;
};
std::atomic<Kept*> kept = nullptr;  // reachable, so leak checkers do not report the objects

}  // namespace

namespace detail {

// Before there is a second thread: a fork could catch it in the middle of this.
std::atomic<std::uint64_t>* process_word = &number_of_process();

std::uint64_t draw_process_number() noexcept {
  Number& number = number_of_process();
  std::uint64_t mine = 0;
  if (getrandom(&mine, sizeof mine, 0) != sizeof mine || mine == 0)
    mine = (static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())
            << 16) ^
           static_cast<std::uint64_t>(getpid());
  std::uint64_t drawn = 0;  // or the number that another thread has drawn meanwhile
  return number.compare_exchange_strong(drawn, mine, std::memory_order_relaxed) ? mine : drawn;
}

}  // namespace detail

Origin::Origin() noexcept : number_(process_number()), process_(getpid()) {}

bool Origin::is_exactly_here() const noexcept { return is_here() && process_ == getpid(); }

void Origin::refuse(std::string_view call, std::string_view object) const {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: this {} belongs to process {}, and process {} was forked from it: a "
                          "child can't use what its parent has made: "
                          "exec, or create communicators after the fork",
                          call, object, process_, getpid()));
}

void keep_for_ever(std::shared_ptr<const void> object) {
  auto* const entry = new Kept{std::move(object), kept.load(std::memory_order_relaxed)};
  while (!kept.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

}  // namespace plait
