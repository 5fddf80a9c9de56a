// Refuses a second thread inside an object that only one thread at a time may use.
#pragma once
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "plait/error.hpp"

namespace plait {
/// Two threads inside one communicator at the same time would take the same call number and the
/// same scratch memory: other ranks would get wrong values or wait for ever. So the second thread
/// is refused. A scope costs one atomic exchange and one store.
class InUse {
 public:
  /// A thread holds a scope while it is inside a call. It may then enter again.
  class Scope {
   public:
    /// Throws `Error(invalid_argument)` if another thread is inside. The message calls the object
    /// `object`, such as "communicator".
    Scope(InUse& in_use, std::string_view call, std::string_view object = "communicator") {
      const void* owner = nullptr;
      if (in_use.owner_.compare_exchange_strong(owner, this_thread(), std::memory_order_acquire,
                                                std::memory_order_relaxed))
        in_use_ = &in_use;
      else if (owner != this_thread()) refuse(call, object);
    }
    ~Scope() {
      if (in_use_ != nullptr) in_use_->owner_.store(nullptr, std::memory_order_release);
    }
    Scope(Scope&& other) noexcept : in_use_(std::exchange(other.in_use_, nullptr)) {}
    Scope& operator=(Scope&&) = delete;

   private:
    InUse* in_use_ = nullptr;  // null: the thread was inside already
  };

  /// For a call that only reads: throws as a scope does, but keeps no other thread out.
  void look(std::string_view call, std::string_view object = "communicator") const {
    const void* const owner = owner_.load(std::memory_order_acquire);
    if (owner != nullptr && owner != this_thread()) refuse(call, object);
  }

 private:
  /// Not null, and another value for each thread that lives.
  static const void* this_thread() noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): pthread_t is a number or a pointer
    return reinterpret_cast<const void*>(::pthread_self());
  }
  [[noreturn]] static void refuse(std::string_view call, std::string_view object) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: another thread is inside a call of this {}: one thread at a time "
                            "may use it, so the call was not made",
                            call, object));
  }

  std::atomic<const void*> owner_ = nullptr;
};

}  // namespace plait
