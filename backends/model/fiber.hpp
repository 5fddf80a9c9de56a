// A function with a stack of its own, which may be left in the middle and entered again.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace plait::model {

class Fiber {
 public:
  Fiber() : stack_(stack_bytes) {}
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// What was on the stack is forgotten.
  void begin(std::function<void()> function) {
    function_ = std::move(function);
    done_ = false;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.data();
    inside_.uc_stack.ss_size = stack_.size();
    inside_.uc_link = &outside_;
    makecontext(&inside_, enter, 0);
  }
  /// Runs it until it leaves or ends.
  void resume() {
    entered() = this;
    swapcontext(&outside_, &inside_);
  }
  /// Within the function: back to where it was resumed.
  void leave() { swapcontext(&inside_, &outside_); }
  bool done() const { return done_; }
  bool has_on_stack(const void* place) const {
    const auto* const byte = static_cast<const std::byte*>(place);
    return byte >= stack_.data() && byte < stack_.data() + stack_.size();
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
  static Fiber*& entered() {
    thread_local Fiber* fiber = nullptr;
    return fiber;
  }
  static void enter() {
    Fiber* const self = entered();
    self->function_();
    self->done_ = true;
  }

  std::vector<std::byte> stack_;
  std::function<void()> function_;
  ucontext_t outside_{}, inside_{};
  bool done_ = true;
};

}  // namespace plait::model
