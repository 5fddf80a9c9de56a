// The signals that a thread takes.
#pragma once
#include <csignal>

namespace plait {

/// Sets this thread's signal mask as long as it exists. A thread inherits the mask of the thread
/// that starts it.
class SignalMask {
 public:
  explicit SignalMask(const sigset_t& mask) noexcept {
    ::pthread_sigmask(SIG_SETMASK, &mask, &before_);
  }
  ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

  static sigset_t of_thread() noexcept {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return mask;
  }
  /// That of the library's own threads. The program may wait for signals that it has blocked in
  /// its threads, and its handlers expect to run on one of them. A signal that tells a thread of
  /// its own mistake can't wait.
  static sigset_t of_library() noexcept {
    sigset_t mask;
    ::sigfillset(&mask);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      ::sigdelset(&mask, own);
    return mask;
  }

 private:
  sigset_t before_;
};

}  // namespace plait
