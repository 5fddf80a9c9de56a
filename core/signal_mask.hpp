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

/// While it exists, writes of this thread raise no SIGPIPE: a reader that has gone must not end the
/// program.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&sigpipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_, before_;
  bool was_pending_ = false;
};

}  // namespace plait
