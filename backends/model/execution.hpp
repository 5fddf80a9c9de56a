// One execution of a program: what threads know, what places have, and who may go on.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/model/explorer.hpp"

namespace plait::model {

inline void raise_to(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// A value in the order of stores to its place.
struct Message {
  Value value{};
  EventId store;
  Clock known, view;  // what an acquire that reads it learns; empty: nothing
  Clock caused;       // what comes before it by any read
};

struct Place {
  std::uintptr_t address;
  std::size_t bytes;
  std::vector<Message> messages;
  struct Awaited {
    EventId event;
    std::function<bool(const Value&)> wanted;
  };
  std::vector<Awaited> awaited;  // reads that wait for a value
};

/// A read that has happened, to find what else it could have returned.
struct Read {
  EventId event;
  std::size_t place;
  std::size_t oldest;  // of the messages that it could read
  EventId from;
  std::function<bool(const Value&)> wanted;
  Clock caused;            // what comes before it by any read, and itself
  bool exclusive = false;  // it stores, too, and nothing may come between
};

/// The last accesses of four bytes.
struct Shadow {
  struct Access {
    EventId event;
    bool is_atomic = false;
  };
  Access store;
  std::vector<Access> loads;  // since then, one for each thread
};

class Execution {
 public:
  /// `notes`: keeps a table of the steps, for a failure.
  Execution(Explorer& explorer, const Program& program, const Choices& choices, bool notes);
  ~Execution();

  /// False if a choice can't be made: no such execution exists.
  bool run();
  const std::string& failure() const { return failure_; }
  std::size_t steps() const { return steps_; }
  Thread* running() const { return running_; }
  bool watches(const void* place) const;
  Choices graph() const;
  /// The choices of executions in which one read returns something else.
  std::vector<Choices> others() const;

  void store(Thread& thread, std::uintptr_t address, const void* value, std::size_t bytes,
             bool releases, bool exclusive = false);
  bool await(Thread& thread, std::uintptr_t address, void* value, std::size_t bytes,
             std::function<bool(const Value&)> wanted, bool acquires = false);
  bool wait(Thread& thread, std::uintptr_t address, std::uint32_t at_least, bool acquires);
  /// Reads the newest value and stores what becomes of it, once `change` gives something.
  Value update(Thread& thread, std::uintptr_t address, std::size_t bytes, const Update& change,
               bool acquires, bool releases);
  void fence(Thread& thread, bool acquires);
  void acquire(Thread& thread, std::uintptr_t address, std::size_t bytes);
  bool barrier(Thread& thread, bool flag);
  void plain(Thread& thread, std::uintptr_t address, std::size_t bytes, bool stores);
  /// Ends an iteration of a loop that waits for others. If it has only read, it has never been, and
  /// the thread goes on once one of the places that it read has a newer value.
  void pause(Thread& thread);
  /// A thread of the program's own, and the wait for its end.
  int start(Thread& starter, const std::function<void(Thread&)>& body);
  void await_end(Thread& thread, int number);
  [[noreturn]] void fail(Thread& thread, const std::string& what);

 private:
  static constexpr std::size_t most_steps = 100'000;
  struct Step {
    int thread;
    std::string text;
  };
  struct Meeting {  // of the threads of a block
    unsigned arrived = 0, round = 0;
    bool all = true, result = true;
    Clock known, caused, view;                       // of those who have come
    Clock joined_known, joined_caused, joined_view;  // of all, in the last round
  };

  bool start_launches();
  void begin(Thread& thread, const std::function<void(Thread&)>& body);
  bool has_stopped(const Thread& thread) const {
    return program_.stop && thread.rank == program_.stop->rank &&
           steps_of_stopped_ > program_.stop->steps;
  }
  void wait_until(Thread& thread, std::function<bool()> ready);
  void arrive(const Thread& thread);
  bool wait_for_value(Thread& thread, const std::function<bool()>& there);
  std::string who_waits() const;
  void say(const Thread& thread, const std::function<std::string()>& what);
  std::string table() const;

  std::size_t place_of(std::uintptr_t address, std::size_t bytes);
  EventId next_event(Thread& thread);
  bool is_known(const Clock& clock, EventId event) const {
    return event.thread < 0 || clock[static_cast<std::size_t>(event.thread)] >= event.index;
  }
  void check_order(Thread& thread, std::size_t place, const Message& message);
  void note_awaited(Thread& thread, std::size_t place, std::size_t message, EventId event,
                    const std::function<bool(const Value&)>& wanted);
  const Choice* choice_of(EventId read) const;
  bool is_reserved(const Thread& thread, EventId store) const;
  std::optional<std::size_t> choose(const Thread& thread, std::size_t place,
                                    const std::function<bool(const Value&)>& wanted) const;
  void read_from(Thread& thread, std::size_t place, std::size_t message, bool acquires);
  void touch(Thread& thread, std::uintptr_t address, std::size_t bytes, bool stores,
             bool is_atomic);

  Explorer& explorer_;
  const Program& program_;
  const Choices& choices_;
  const bool notes_;
  std::map<EventId, EventId> reserved_;  // stores, by the choice that overwrites them
  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t first_own_;                 // of the threads that the program starts
  std::vector<std::size_t> next_launch_;  // by rank
  std::map<std::pair<int, unsigned>, Meeting> meetings_;
  std::vector<Place> places_;
  std::unordered_map<std::uintptr_t, std::size_t> place_numbers_;
  std::unordered_map<std::uintptr_t, Shadow> shadows_;
  std::vector<Read> reads_;
  std::vector<Step> table_;
  std::size_t steps_ = 0;
  Thread* running_ = nullptr;
  std::string failure_;
  bool infeasible_ = false, impossible_ = false, gave_up_ = false;
  std::size_t steps_of_stopped_ = 0;
};

}  // namespace plait::model
