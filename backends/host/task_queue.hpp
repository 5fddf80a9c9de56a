// The tasks of a host stream that have not run yet.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace plait::host {

class HostStream;

/// First in, first out. An entry is as large as its task and stays in place until it is popped, so
/// tasks run in place. Memory is allocated in slabs and freed with them, so a queue that was long
/// once does not stay large. The caller synchronizes.
class TaskQueue {
 public:
  /// A queue that holds this much is full.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  TaskQueue() = default;
  ~TaskQueue() {
    while (!empty()) {
      front().destroy();
      pop();
    }
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  bool empty() const noexcept { return entries_ == 0; }
  bool full() const noexcept { return slabs_.size() > most_bytes / slab_bytes; }

  /// Appends a task, a function of a `HostStream&`, with `more` bytes of memory behind it. Returns
  /// the stored task.
  template <class F>
  std::decay_t<F>& push(F&& task, std::size_t more = 0) {
    using Stored = std::decay_t<F>;
    static_assert(alignof(Stored) <= alignment);
    const std::size_t bytes = sizeof(Entry) + aligned(sizeof(Stored) + more);
    std::byte* const place = make_room(bytes);
    auto* const stored = new (place + sizeof(Entry)) Stored(std::forward<F>(task));
    Entry entry{
        bytes,
        [](void* function, HostStream& stream) { (*static_cast<Stored*>(function))(stream); },
        nullptr};
    if constexpr (!std::is_trivially_destructible_v<Stored>) {
      entry.destroy = [](void* function) { static_cast<Stored*>(function)->~Stored(); };
    }
    new (place) Entry(entry);
    slabs_.back().end += bytes;
    ++entries_;
    return *stored;
  }

  /// The next task, to run, destroy and pop. `push` may be called while it runs or is destroyed.
  class Front {
   public:
    void run(HostStream& stream) const { entry_->run(entry_ + 1, stream); }
    void destroy() const {
      if (entry_->destroy != nullptr) entry_->destroy(entry_ + 1);
    }

   private:
    friend class TaskQueue;
    struct alignas(16) Entry {
      std::size_t bytes;
      void (*run)(void*, HostStream&);
      void (*destroy)(void*);  // null: trivial
    };
    explicit Front(Entry* entry) : entry_(entry) {}
    Entry* entry_;
  };

  /// The queue must not be empty.
  Front front() const {
    return Front(reinterpret_cast<Entry*>(slabs_.front().memory.get() + slabs_.front().begin));
  }
  void pop() noexcept {
    Slab& first = slabs_.front();
    first.begin += front().entry_->bytes;
    --entries_;
    if (first.begin != first.end) return;
    if (slabs_.size() > 1) slabs_.pop_front();
    else first.begin = first.end = 0;
  }

 private:
  using Entry = Front::Entry;
  static constexpr std::size_t alignment = 16, slab_bytes = std::size_t{16} << 10;
  static constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  struct Slab {
    explicit Slab(std::size_t size) : memory(new std::byte[size]), bytes(size) {}
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
    std::size_t begin = 0, end = 0;  // of the entries, in bytes
  };

  std::byte* make_room(std::size_t bytes) {
    if (slabs_.empty() || slabs_.back().bytes - slabs_.back().end < bytes)
      slabs_.emplace_back(bytes < slab_bytes ? slab_bytes : bytes);
    return slabs_.back().memory.get() + slabs_.back().end;
  }

  std::deque<Slab> slabs_;  // only the last one may be empty
  std::size_t entries_ = 0;
};

}  // namespace plait::host
