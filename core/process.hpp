// The identity of this process. A child made by fork has a copy of every object and of every lock
// in its state at that time, but none of the threads, and it shares the parent's shared memory. So
// objects remember the process that made them.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace plait {

namespace detail {
/// Holds the number of the process, or zero until it is drawn. Null before this library is
/// initialised.
extern std::atomic<std::uint64_t>* process_word;
std::uint64_t draw_process_number() noexcept;
}  // namespace detail

/// A number that no other process has: neither the process that this one was forked from, nor one
/// with the same PID in another container. Costs two loads. A child of vfork, or of clone with
/// CLONE_VM, runs in its parent's memory and has its parent's number. Such a child may only exec or
/// _exit.
inline std::uint64_t process_number() noexcept {
  const std::uint64_t known =
      detail::process_word == nullptr ? 0 : detail::process_word->load(std::memory_order_relaxed);
  return known != 0 ? known : detail::draw_process_number();
}

/// The process that made an object.
class Origin {
 public:
  Origin() noexcept;
  bool is_here() const noexcept { return number_ == process_number(); }
  /// The PID, without the system call that getpid makes.
  pid_t process() const noexcept { return process_; }
  /// Like `is_here`, but false also in a child that runs in its parent's memory. Costs a system
  /// call.
  bool is_exactly_here() const noexcept;
  /// Throws `Error(invalid_argument)` in a child: "all_reduce: this communicator belongs to process
  /// 4711, ...".
  void require(std::string_view call, std::string_view object) const {
    if (!is_here()) refuse(call, object);
  }

 private:
  [[noreturn]] void refuse(std::string_view call, std::string_view object) const;

  std::uint64_t number_;
  pid_t process_;
};

/// Keeps `object` until the process ends. For a child's copies of its parent's objects, whose
/// destructors would wait for threads that the child does not have. Takes no lock.
void keep_for_ever(std::shared_ptr<const void> object);

/// One object per process: a child gets a new one when it first calls `get`. Static ones need no
/// destruction.
template <class T>
class OfProcess {
 public:
  constexpr OfProcess() = default;
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  T& get() {
    Entry* found = latest_.load(std::memory_order_acquire);
    while (found == nullptr || found->process != process_number()) {
      auto mine = std::make_unique<Entry>(process_number(), found);
      if (latest_.compare_exchange_strong(found, mine.get(), std::memory_order_acq_rel))
        return mine.release()->object;
    }
    return found->object;
  }

 private:
  struct Entry {
    Entry(std::uint64_t number, Entry* parents) : process(number), of_parent(parents) {}
    std::uint64_t process;
    Entry* of_parent;  // left alone
    T object{};
  };
  std::atomic<Entry*> latest_ = nullptr;
};

}  // namespace plait
