// Explores what the threads of a program may do on memory that is ordered by releases and acquires
// alone, as C++ and GPUs order it: a read may return any value that is not overwritten in what the
// reader knows, not only the newest one.
//
// Threads run in fibers, and each access that other threads may see is a call of this class. An
// execution is determined by what each read of an atomic place returns. The explorer runs the
// program with the newest values first. Then, for each read and each other store from which it
// might have read, it runs the program again with the reads before it as they were and this one
// held back until that store is there (after Kokologiannakis, Marmanis, Gladstein and Vafeiadis,
// "Truly stateless, optimal dynamic partial order reduction", 2022). Executions that differ only in
// the order of independent steps are one.
//
// Found are: races of plain accesses; waits without an end; and whatever the program's own check
// says at the end.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/model/fiber.hpp"

namespace plait::model {

class Thread;

/// Launches of one rank run one after the other, those of different ranks at the same time.
struct Launch {
  unsigned blocks = 1, threads = 1;
  std::function<void(Thread&)> body;  // of one thread
};

struct Program {
  std::vector<std::vector<Launch>> ranks;
  std::function<void()> reset;         // makes all memory as it was before the first launch
  std::function<std::string()> check;  // after the last one: empty, or what is wrong
  /// What an address is called in tables of steps.
  std::function<std::string(std::uintptr_t)> name;
};

/// An ordering word, weakened for a test of the explorer itself: see `Explorer::sites`.
enum class Weakening { none, to_relaxed, left_out, one_early };

struct Result {
  std::size_t executions = 0, steps = 0;
  /// Empty, or what went wrong, with a table of the steps that led to it.
  std::string failure;
  bool complete = true;  // false: there are more executions than allowed
};

/// Values of an atomic place: up to 128 bytes.
using Value = std::array<std::uint64_t, 16>;
using Clock = std::vector<std::uint32_t>;

/// A store, or what was there first (thread -1).
struct EventId {
  int thread = -1;
  std::uint32_t index = 0;
  friend bool operator==(const EventId&, const EventId&) = default;
  friend bool operator<(const EventId& a, const EventId& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.index < b.index;
  }
};
/// What reads return, by the store that they read.
using Choices = std::map<EventId, EventId>;

/// A thread of a block of a rank, in one launch after another.
class Thread {
 public:
  const int rank;
  const unsigned block, thread;
  unsigned blocks = 1, threads = 1;  // of the launch that it is in

 private:
  friend class Execution;
  friend class Explorer;
  Thread(int its_rank, unsigned its_block, unsigned its_thread, int its_number)
      : rank(its_rank), block(its_block), thread(its_thread), number(its_number) {}

  const int number;
  std::unique_ptr<Fiber> fiber;
  bool running = false;         // in a launch, and not at its end
  std::function<bool()> ready;  // set: it waits until this says true
  std::uint32_t events = 0;
  Clock known, caused;  // what happens before its next step; and what comes before by any read
  Clock view;           // the oldest value of each place that it may still read
  Clock released_known, released_view;  // at its last fence of release
  Clock pending_known, pending_view;    // what a fence of acquire would add
  unsigned votes = 0;
};

class Execution;

/// Where words of kernels tell what they do, in the thread of a fiber.
class Explorer {
 public:
  explicit Explorer(std::size_t most_executions) : most_(most_executions) {}
  ~Explorer();
  Result explore(const Program& program);

  /// The ordering words that the last exploration has met, by the addresses of their calls: their
  /// number, and what they are.
  const std::vector<std::string>& sites() const { return site_names_; }
  /// Weakens one of them from now on.
  void weaken(std::size_t site, Weakening how) {
    weakened_ = site;
    how_ = how;
  }

  // For words. `site`: the address of the call.
  void store(Thread& thread, void* place, const void* value, std::size_t bytes, bool releases,
             const void* site);
  /// Returns once `wanted(value)` is true for a value that the thread may read.
  void await(Thread& thread, const void* place, void* value, std::size_t bytes,
             std::function<bool(const Value&)> wanted);
  /// An acquire that only waits: what it reads beyond that does not matter. So it reads the oldest
  /// value that will do. A newer one would let the thread know more, and so do less.
  void wait(Thread& thread, const std::uint32_t* place, std::uint32_t at_least, const void* site);
  /// An acquire and a release.
  std::uint32_t add_one(Thread& thread, std::uint32_t* word, const void* site);
  void fence(Thread& thread, bool acquires, const void* site);
  bool barrier(Thread& thread, bool flag, const void* site);
  void plain(Thread& thread, const void* place, std::size_t bytes, bool stores);
  /// The same by the thread that runs now, of the explorer that runs on the calling thread.
  void plain_by_current(const void* place, std::size_t bytes, bool stores);
  static Explorer*& of_thread() {
    thread_local Explorer* explorer = nullptr;
    return explorer;
  }
  /// Ends the execution: the thread has seen something wrong.
  [[noreturn]] void fail(Thread& thread, const std::string& what);
  Weakening weakening(const char* word, const void* site);

 private:
  friend class Execution;

  std::size_t most_;
  std::optional<std::size_t> weakened_;
  Weakening how_ = Weakening::none;
  std::map<const void*, std::size_t> site_numbers_;
  std::vector<std::string> site_names_;
  Execution* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> idle_;  // with their stacks, for the next execution
};

}  // namespace plait::model
