#include "symm_mem/strays.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

namespace plait {
namespace {

/// Gives this thread a table of descriptors of its own, a copy. Containers often forbid unshare() and allow close_range().
bool own_descriptor_table() {
#ifdef SYS_close_range
  constexpr unsigned none = std::numeric_limits<int>::max(), unshare_too = 1u << 1;  // CLOSE_RANGE_UNSHARE
  if (::syscall(SYS_close_range, none, none, unshare_too) == 0) return true;
#endif
  return ::unshare(CLONE_FILES) == 0;
}

struct Handover {
  std::vector<UniqueFd> strays;
  std::promise<bool> copied;    // whether the thread has a table of its own
  std::promise<void> released;  // the process has closed its descriptors: the thread's are the last
};

void end_with(const std::shared_ptr<Handover>& handover) {
  const bool own = own_descriptor_table();
  auto released = handover->released.get_future();
  handover->copied.set_value(own);
  released.wait();
  // With its own table, the thread's end closes all of it. Otherwise this thread is the one that may have to wait.
  if (!own) handover->strays.clear();
}

}  // namespace

void Strays::dispose() noexcept {
  if (strays_.empty()) return;
  try {
    const auto handover = std::make_shared<Handover>();
    handover->strays = std::move(strays_);
    strays_.clear();
    auto copied = handover->copied.get_future();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the process's signals are for threads that live on
    try {
      std::thread(end_with, handover).detach();
    } catch (const std::exception&) {  // no thread can be started: the descriptors stay open, which harms less than waiting
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      static_cast<void>(new std::vector<UniqueFd>(std::move(handover->strays)));
      return;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (copied.get()) handover->strays.clear();
    handover->released.set_value();
  } catch (const std::exception&) {  // no memory: as above
    static_cast<void>(new (std::nothrow) std::vector<UniqueFd>(std::move(strays_)));
  }
}

}  // namespace plait
