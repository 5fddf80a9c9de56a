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

/// First in, first out. An entry is as large as its task, and stays where it is until it is popped,
/// so tasks run in place. Memory comes in chunks and goes with them, so a queue that was long once
/// does not stay large. The caller synchronizes.
class TaskQueue {
 public:
  /// A queue that holds this much takes no more.
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
  bool full() const noexcept { return chunks_.size() > most_bytes / chunk_bytes; }

  /// Appends a task, a function of a `HostStream&`, with `more` bytes of memory behind it. Returns
  /// the task in the queue.
  template <class F>
  std::decay_t<F>& push(F&& task, std::size_t more = 0) {
    using Stored = std::decay_t<F>;
    static_assert(alignof(Stored) <= unit);
    const std::size_t bytes = sizeof(Entry) + whole_units(sizeof(Stored) + more);
    std::byte* const place = room(bytes);
    auto* const stored = new (place + sizeof(Entry)) Stored(std::forward<F>(task));
    Entry entry{
        bytes,
        [](void* function, HostStream& stream) { (*static_cast<Stored*>(function))(stream); },
        nullptr};
    if constexpr (!std::is_trivially_destructible_v<Stored>) {
      entry.destroy = [](void* function) { static_cast<Stored*>(function)->~Stored(); };
    }
    new (place) Entry(entry);
    chunks_.back().end += bytes;
    ++entries_;
    return *stored;
  }

  /// The task that is next: to be run, destroyed and popped. Running and destroying it may go on
  /// beside `push`.
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
      void (*destroy)(void*);  // null: there is nothing to do
    };
    explicit Front(Entry* entry) : entry_(entry) {}
    Entry* entry_;
  };

  /// Of a queue that is not empty.
  Front front() const {
    return Front(reinterpret_cast<Entry*>(chunks_.front().memory.get() + chunks_.front().begin));
  }
  void pop() noexcept {
    Chunk& first = chunks_.front();
    first.begin += front().entry_->bytes;
    --entries_;
    if (first.begin != first.end) return;
    if (chunks_.size() > 1) chunks_.pop_front();
    else first.begin = first.end = 0;
  }

 private:
  using Entry = Front::Entry;
  static constexpr std::size_t unit = 16, chunk_bytes = std::size_t{16} << 10;
  static constexpr std::size_t whole_units(std::size_t bytes) {
    return (bytes + unit - 1) / unit * unit;
  }

  struct Chunk {
    explicit Chunk(std::size_t size) : memory(new std::byte[size]), bytes(size) {}
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
    std::size_t begin = 0, end = 0;  // of the entries
  };

  std::byte* room(std::size_t bytes) {
    if (chunks_.empty() || chunks_.back().bytes - chunks_.back().end < bytes)
      chunks_.emplace_back(bytes < chunk_bytes ? chunk_bytes : bytes);
    return chunks_.back().memory.get() + chunks_.back().end;
  }

  std::deque<Chunk> chunks_;  // only the last may be without entries
  std::size_t entries_ = 0;
};

}  // namespace plait::host
