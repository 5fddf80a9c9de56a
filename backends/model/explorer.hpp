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
// Found are: races of plain accesses; waits without an end; stores to one place that might come in
// either order; values that are overwritten before the thread that waits for them has read them;
// and whatever the program's own check says at the end.
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
#include <string_view>
#include <tuple>
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

/// A rank that stops in the middle: after so many steps, its threads do nothing more.
struct Stop {
  int rank;
  std::size_t steps;
};

struct Program {
  std::vector<std::vector<Launch>> ranks;
  std::size_t threads_of_its_own = 0;  // at most so many, which the program starts itself
  std::function<void()> reset;         // makes all memory as it was before the first launch
  std::function<std::string()> check;  // after the last one: empty, or what is wrong
  /// The other ranks give up once nobody can go on: their waits are over, and they launch nothing
  /// more. Then only their ends are checked.
  std::optional<Stop> stop;
  /// Whether plain accesses of an address are looked at; if empty, all but those of threads' stacks
  /// are. For accesses that the compiler reports.
  std::function<bool(const void*)> watches;
  /// What an address is called in tables of steps.
  std::function<std::string(std::uintptr_t)> name;
};

/// Where a word of a kernel stands in the source. (std::source_location is too new for clang 14.)
struct Site {
  const char* file_name = "";
  unsigned line = 0;
  static Site here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  /// From the root of the sources on. A compiler may give absolute names, and others.
  std::string_view file() const;
};

/// How a word is weakened, for a test of the explorer itself and of what is explored. `one_early`:
/// it waits for the value before.
enum class Weakening { none, to_relaxed, left_out, one_early };
enum class Word { signal, wait, arrive, barrier, release, acquire, get, empty };
struct Mutant {
  std::string file;
  unsigned line = 0;
  Word word{};
  Weakening how = Weakening::none;
  friend bool operator==(const Mutant&, const Mutant&) = default;
  friend bool operator<(const Mutant& a, const Mutant& b) {
    return std::tie(a.file, a.line, a.word, a.how) < std::tie(b.file, b.line, b.word, b.how);
  }
};

struct Result {
  std::size_t executions = 0, steps = 0;
  /// Empty, or what went wrong, with a table of the steps that led to it.
  std::string failure;
  bool complete = true;  // false: there are more executions than allowed
};

/// Values of an atomic place: up to 128 bytes.
using Value = std::array<std::uint64_t, 16>;
using Update = std::function<std::optional<Value>(const Value&)>;
using Clock = std::vector<std::uint32_t>;

/// A store, or what was there first (thread -1).
struct EventId {
  int thread = -1;
  std::uint32_t index = 0;
  friend bool operator==(const EventId&, const EventId&) = default;
  friend bool operator<(const EventId& a, const EventId& b) {
    return std::tie(a.thread, a.index) < std::tie(b.thread, b.index);
  }
};
/// A read, and the store that it returns. `exclusive`: the read stores, too, and nothing may come
/// between.
struct Choice {
  EventId read, from;
  bool exclusive = false;
};
using Choices = std::vector<Choice>;  // by rising `read`

/// A thread of a block of a rank, in one launch after another.
class Thread {
 public:
  const int rank;
  const unsigned block, thread;
  const int number;                  // among all threads of the program
  unsigned blocks = 1, threads = 1;  // of the launch that it is in
  bool in_explorer = false;          // for hooks, which the explorer's own code may call, too

 private:
  friend class Execution;
  friend class Explorer;
  Thread(int its_rank, unsigned its_block, unsigned its_thread, int its_number)
      : rank(its_rank), block(its_block), thread(its_thread), number(its_number) {}

  std::unique_ptr<Fiber> fiber;
  bool running = false;         // in a launch, and not at its end
  Site at{};                    // its last word
  std::function<bool()> ready;  // set: it waits until this says true
  std::uint32_t events = 0;
  Clock known, caused;  // what happens before its next step; and what comes before by any read
  Clock view;           // the oldest value of each place that it may still read
  Clock released_known, released_view;  // at its last fence of release
  Clock pending_known, pending_view;    // what a fence of acquire would add
  /// What it was at the end of the last iteration of a loop, and what it did since.
  struct Iteration {
    std::uint32_t events = 0;
    Clock known, caused, view, pending_known, pending_view;
    std::vector<std::pair<std::size_t, std::size_t>> read;  // places, and the number of the value
    std::vector<std::size_t> read_before;                   // the places of the one before
    bool stored = false;
  } iteration;
};

class Execution;

/// Where words of kernels tell what they do, in the thread of a fiber.
class Explorer {
 public:
  /// `sample`: where there may be more, in no order, so that they are of all sorts.
  explicit Explorer(std::size_t most_executions, bool sample = false)
      : most_(most_executions), sample_(sample) {}
  ~Explorer();
  Result explore(const Program& program);

  /// All ways to weaken a word that the explorations so far have met.
  const std::set<Mutant>& mutants() const { return mutants_; }
  /// Weakens the word from now on, wherever it is called; none with `{}`.
  void weaken(Mutant mutant) { weakened_ = std::move(mutant); }

  // For words.
  void store(Thread& thread, void* place, const void* value, std::size_t bytes, bool releases,
             const Site& site);
  /// An empty value, for the one who may store next.
  void empty(Thread& thread, void* place, std::size_t bytes, const Site& site);
  /// Returns once `wanted(value)` is true for a value that the thread may read. False: it gives up.
  bool await(Thread& thread, const void* place, void* value, std::size_t bytes,
             std::function<bool(const Value&)> wanted, const Site& site);
  /// An acquire that only waits: what it reads beyond that does not matter. So it reads the oldest
  /// value that will do. A newer one would let the thread know more, and so do less.
  bool wait(Thread& thread, const std::uint32_t* place, std::uint32_t at_least, const Site& site);
  /// An acquire and a release.
  std::uint32_t add_one(Thread& thread, std::uint32_t* word, const Site& site);
  void fence(Thread& thread, bool acquires, const Site& site);
  /// An acquire of what the thread has last read here, as of a load once more.
  void acquire(Thread& thread, const void* place, std::size_t bytes, const Site& site);
  bool barrier(Thread& thread, bool flag, const Site& site);
  void plain(Thread& thread, const void* place, std::size_t bytes, bool stores, const Site& site);
  void plain_load(Thread& thread, void* to, const void* from, std::size_t bytes, const Site& site);
  void plain_store(Thread& thread, void* to, const void* from, std::size_t bytes, const Site& site);
  /// A load by the thread that runs now, of the explorer that runs on the calling thread.
  static void plain_load_by_current(const void* place, std::size_t bytes);
  static Explorer*& of_thread() {
    thread_local Explorer* explorer = nullptr;
    return explorer;
  }
  /// The execution that runs, while one of its threads does; else null.
  Execution* execution() const { return current_; }
  /// Ends the execution: the thread has seen something wrong.
  [[noreturn]] void fail(Thread& thread, const std::string& what);

 private:
  friend class Execution;
  Weakening weakening(Thread& thread, Word word, const Site& site);

  std::size_t most_;
  bool sample_;
  Mutant weakened_;
  std::set<Mutant> mutants_;
  std::set<std::pair<const char*, unsigned>> met_;  // lines, to look for new mutants once
  Execution* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> idle_;  // with their stacks, for the next execution
};

}  // namespace plait::model
