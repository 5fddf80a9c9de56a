#include "symm_mem/stranger_sockets.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "core/standard_fds.hpp"
#include "core/start_thread.hpp"

namespace plait {
namespace {

/// Gives this thread its own copy of the descriptor table. Containers often forbid unshare() and
/// allow close_range().
bool own_descriptor_table() {
#ifdef SYS_close_range
  constexpr unsigned none = std::numeric_limits<int>::max(),
                     unshare_too = 1u << 1;  // CLOSE_RANGE_UNSHARE
  if (::syscall(SYS_close_range, none, none, unshare_too) == 0) return true;
#endif
  return ::unshare(CLONE_FILES) == 0;
}

/// Waits on atomics, not on std::future: that uses std::call_once, which fails where a program and
/// this library have two copies of the standard library (one of them linked statically).
struct Handover {
  enum Step : int {
    begun,
    copied,      // the thread has its own table
    not_copied,  // the thread shares the table of the process
    released,    // the process has closed its descriptors, so the thread's are the last
  };
  std::vector<UniqueFd> sockets;
  std::atomic<int> step = begun;

  void reach(Step next) {
    step.store(next, std::memory_order_release);
    step.notify_all();
  }
  void wait_beyond(int seen) const {
    while (step.load(std::memory_order_acquire) == seen) step.wait(seen, std::memory_order_acquire);
  }
};

void end_with(const std::shared_ptr<Handover>& handover) {
  const bool own = own_descriptor_table();
  const Handover::Step reached = own ? Handover::copied : Handover::not_copied;
  handover->reach(reached);
  handover->wait_beyond(reached);
  // The end of a thread that has its own table closes the sockets. Without one, this thread closes
  // them here, and it alone may have to wait.
  if (!own) handover->sockets.clear();
}

}  // namespace

UniqueFd accept_from(const UniqueFd& listener) {
  return new_fd(
      [&] { return ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

void StrangerSockets::shut(UniqueFd listener) {
  ::shutdown(listener.get(), SHUT_RDWR);
  for (;;) {
    UniqueFd caller = accept_from(listener);
    if (caller.valid()) add(std::move(caller));
    else if (errno != EINTR && errno != ECONNABORTED) break;
  }
  // accept() fails with EINVAL when the socket is shut down and its queue is empty.
  if (errno != EINVAL) add(std::move(listener));
}

void StrangerSockets::dispose() noexcept {
  if (strangers_.empty()) return;
  try {
    const auto handover = std::make_shared<Handover>();
    handover->sockets = std::move(strangers_);
    strangers_.clear();
    try {
      start_thread("a thread that closes connections", [handover] { end_with(handover); }).detach();
    } catch (const std::exception&) {
      // No thread can be started. The descriptors stay open, which harms less than waiting.
      static_cast<void>(new std::vector<UniqueFd>(std::move(handover->sockets)));
      return;
    }
    handover->wait_beyond(Handover::begun);
    if (handover->step.load(std::memory_order_acquire) == Handover::copied)
      handover->sockets.clear();
    handover->reach(Handover::released);
  } catch (const std::exception&) {  // no memory: as above
    static_cast<void>(new (std::nothrow) std::vector<UniqueFd>(std::move(strangers_)));
  }
}

}  // namespace plait
