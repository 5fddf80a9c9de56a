#include "backends/model/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace plait::model {
namespace {

void raise_to(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}
void raise_to(Clock& clock, std::size_t index, std::size_t value) {
  if (clock.size() <= index) clock.resize(index + 1);
  clock[index] = std::max(clock[index], static_cast<std::uint32_t>(value));
}
std::uint32_t at(const Clock& clock, std::size_t index) {
  return index < clock.size() ? clock[index] : 0;
}
void* pointer_to(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): it was one
}

}  // namespace

Execution::Execution(Explorer& explorer, const Program& program, const Choices& choices)
    : explorer_(explorer), program_(program), choices_(choices) {
  next_launch_.resize(program.ranks.size());
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    unsigned blocks = 0, threads = 0;
    for (const Launch& launch : program.ranks[rank]) {
      blocks = std::max(blocks, launch.blocks);
      threads = std::max(threads, launch.threads);
    }
    for (unsigned block = 0; block < blocks; ++block)
      for (unsigned thread = 0; thread < threads; ++thread)
        threads_.emplace_back(
            new Thread(static_cast<int>(rank), block, thread, static_cast<int>(threads_.size())));
  }
  for (const auto& thread : threads_) {
    thread->known.resize(threads_.size());
    thread->caused.resize(threads_.size());
  }
}

Execution::~Execution() {
  for (const auto& thread : threads_)
    if (thread->fiber) explorer_.idle_.push_back(std::move(thread->fiber));
}

bool Execution::start_launches() {
  bool started = false;
  for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
    const auto mine = [&](const auto& thread) { return thread->rank == static_cast<int>(rank); };
    if (std::any_of(threads_.begin(), threads_.end(),
                    [&](const auto& thread) { return mine(thread) && thread->running; }))
      continue;
    if (next_launch_[rank] == program_.ranks[rank].size()) continue;
    const Launch& launch = program_.ranks[rank][next_launch_[rank]++];
    Clock known, caused, view;  // the end of a launch comes before the next one
    for (const auto& thread : threads_)
      if (mine(thread)) {
        raise_to(known, thread->known);
        raise_to(caused, thread->caused);
        raise_to(view, thread->view);
      }
    for (const auto& thread : threads_) {
      if (!mine(thread) || thread->block >= launch.blocks || thread->thread >= launch.threads)
        continue;
      thread->known = known;
      thread->caused = caused;
      thread->view = view;
      thread->blocks = launch.blocks;
      thread->threads = launch.threads;
      if (!thread->fiber) {
        if (explorer_.idle_.empty()) {
          thread->fiber = std::make_unique<Fiber>();
        } else {
          thread->fiber = std::move(explorer_.idle_.back());
          explorer_.idle_.pop_back();
        }
      }
      thread->fiber->begin([body = &launch.body, its = thread.get()] { (*body)(*its); });
      thread->running = true;
      thread->ready = nullptr;
      started = true;
    }
  }
  return started;
}

bool Execution::run() {
  for (;;) {
    bool moved = start_launches();
    for (const auto& thread : threads_) {
      if (!thread->running || (thread->ready && !thread->ready())) continue;
      thread->ready = nullptr;
      running_ = thread.get();
      thread->fiber->resume();
      thread->running = !thread->fiber->done();
      moved = true;
      if (!failure_.empty()) return true;
    }
    if (moved) continue;
    if (std::any_of(threads_.begin(), threads_.end(),
                    [](const auto& thread) { return thread->running; })) {
      infeasible_ = false;
      for (const auto& thread : threads_)
        if (thread->running && thread->ready) thread->ready();
      if (infeasible_) return false;
      failure_ = "nobody can go on: " + who_waits() + "\n" + table();
      return true;
    }
    const std::string wrong = program_.check();
    if (!wrong.empty()) failure_ = wrong + "\n" + table();
    return true;
  }
}

std::string Execution::who_waits() const {
  std::string all;
  for (const auto& thread : threads_)
    if (thread->running)
      all += fmt::format("{}rank {} block {} thread {}", all.empty() ? "" : ", ", thread->rank,
                         thread->block, thread->thread);
  return all;
}

void Execution::wait_until(Thread& thread, std::function<bool()> ready) {
  if (ready()) return;
  thread.ready = std::move(ready);
  thread.fiber->leave();
}

void Execution::say(const Thread& thread, std::string text) {
  steps_.push_back({thread.number, std::move(text)});
}
void Execution::fail(Thread& thread, const std::string& what) {
  failure_ = fmt::format("rank {} block {} thread {}: {}\n{}", thread.rank, thread.block,
                         thread.thread, what, table());
  for (;;) thread.fiber->leave();
}
std::string Execution::table() const {
  std::string text = "| step | rank | block | thread | does |\n";
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Thread& thread = *threads_[static_cast<std::size_t>(steps_[i].thread)];
    text += fmt::format("| {} | {} | {} | {} | {} |\n", i, thread.rank, thread.block, thread.thread,
                        steps_[i].text);
  }
  return text;
}

std::size_t Execution::place_of(std::uintptr_t address, std::size_t bytes) {
  const auto [found, is_new] = place_numbers_.try_emplace(address, places_.size());
  if (is_new) {
    Place& place = places_.emplace_back(Place{address, bytes, {}});
    Message first;
    std::memcpy(first.value.data(), pointer_to(address), bytes);
    first.caused.resize(threads_.size());
    place.messages.push_back(std::move(first));
  }
  return found->second;
}

EventId Execution::next_event(Thread& thread) {
  const auto self = static_cast<std::size_t>(thread.number);
  ++thread.events;
  thread.known[self] = thread.caused[self] = thread.events;
  return {thread.number, thread.events};
}

void Execution::touch(Thread& thread, std::uintptr_t address, std::size_t bytes, bool stores,
                      bool is_atomic) {
  const EventId event{thread.number, thread.events};
  for (std::uintptr_t at = address / 4 * 4; at < address + bytes; at += 4) {
    Shadow& shadow = shadows_[at];
    const auto races = [&](const Shadow::Access& other) {
      return !(is_atomic && other.is_atomic) && !is_known(thread.known, other.event);
    };
    bool race = races(shadow.store);
    if (stores)
      for (const Shadow::Access& load : shadow.loads) race = race || races(load);
    if (race)
      fail(thread, fmt::format("{} {} races with another thread's access",
                               stores ? "a store to" : "a load of", program_.name(at)));
    if (stores) {
      shadow.store = {event, is_atomic};
      shadow.loads.clear();
    } else {
      const auto mine =
          std::find_if(shadow.loads.begin(), shadow.loads.end(), [&](const auto& load) {
            return load.event.thread == thread.number && load.is_atomic == is_atomic;
          });
      if (mine != shadow.loads.end()) mine->event = event;
      else shadow.loads.push_back({event, is_atomic});
    }
  }
}

void Execution::plain(Thread& thread, std::uintptr_t address, std::size_t bytes, bool stores) {
  next_event(thread);
  say(thread,
      fmt::format("{} {} bytes at {}", stores ? "stores" : "loads", bytes, program_.name(address)));
  touch(thread, address, bytes, stores, false);
}

void Execution::store(Thread& thread, std::uintptr_t address, const void* value, std::size_t bytes,
                      bool releases) {
  const std::size_t number = place_of(address, bytes);
  Place& place = places_[number];
  Message message;
  message.store = next_event(thread);
  std::memcpy(message.value.data(), value, bytes);
  message.caused = thread.caused;
  message.known = releases ? thread.known : thread.released_known;
  message.view = releases ? thread.view : thread.released_view;
  raise_to(message.view, number, place.messages.size());
  touch(thread, address, bytes, true, true);
  raise_to(thread.view, number, place.messages.size());
  say(thread, fmt::format("{}{} = {:x}", program_.name(address), releases ? " (release)" : "",
                          message.value[0]));
  place.messages.push_back(std::move(message));
  std::memcpy(pointer_to(address), value, bytes);
}

/// The message that the thread's next event reads.
std::optional<std::size_t> Execution::choose(
    const Thread& thread, std::size_t number,
    const std::function<bool(const Value&)>& wanted) const {
  const Place& place = places_[number];
  const auto choice = choices_.find({thread.number, thread.events + 1});
  for (std::size_t i = place.messages.size(); i-- > at(thread.view, number);)
    if ((choice == choices_.end() || choice->second == place.messages[i].store) &&
        wanted(place.messages[i].value))
      return i;
  return {};
}

/// Whether another thread will read the store and overwrite it at once.
bool Execution::is_reserved(const Thread& thread, EventId store) const {
  return std::any_of(choices_.begin(), choices_.end(), [&](const auto& choice) {
    const auto& [event, from] = choice;
    return from == store && event.thread != thread.number &&
           event.index > threads_[static_cast<std::size_t>(event.thread)]->events;
  });
}

void Execution::read_from(Thread& thread, std::size_t number, std::size_t index, bool acquires) {
  const Message& message = places_[number].messages[index];
  raise_to(thread.caused, message.caused);
  raise_to(thread.view, number, index);
  raise_to(acquires ? thread.known : thread.pending_known, message.known);
  raise_to(acquires ? thread.view : thread.pending_view, message.view);
}

void Execution::wait(Thread& thread, std::uintptr_t address, std::uint32_t at_least,
                     bool acquires) {
  const std::size_t number = place_of(address, sizeof(at_least));
  const auto first = [&]() -> std::optional<std::size_t> {
    const Place& place = places_[number];
    for (std::size_t i = at(thread.view, number); i < place.messages.size(); ++i)
      if (static_cast<std::int32_t>(static_cast<std::uint32_t>(place.messages[i].value[0]) -
                                    at_least) >= 0)
        return i;
    return {};
  };
  wait_until(thread, [&] { return first().has_value(); });
  const std::size_t index = *first();
  next_event(thread);
  say(thread, fmt::format("waits for {} >= {:x}{}", program_.name(address), at_least,
                          acquires ? " (acquire)" : ""));
  read_from(thread, number, index, acquires);
  touch(thread, address, sizeof(at_least), false, true);
}

void Execution::await(Thread& thread, std::uintptr_t address, void* value, std::size_t bytes,
                      std::function<bool(const Value&)> wanted) {
  const std::size_t number = place_of(address, bytes);
  wait_until(thread, [&] {
    if (choose(thread, number, wanted)) return true;
    infeasible_ = infeasible_ || choices_.contains({thread.number, thread.events + 1});
    return false;
  });
  const std::size_t index = *choose(thread, number, wanted);
  const std::size_t oldest = at(thread.view, number);
  const EventId event = next_event(thread);
  const EventId from = places_[number].messages[index].store;
  std::memcpy(value, places_[number].messages[index].value.data(), bytes);
  say(thread, fmt::format("reads {}: {:x}{}", program_.name(address),
                          places_[number].messages[index].value[0],
                          index + 1 == places_[number].messages.size() ? "" : ", not the newest"));
  read_from(thread, number, index, false);
  reads_.push_back({event, number, oldest, from, std::move(wanted), thread.caused});
  touch(thread, address, bytes, false, true);
}

std::uint32_t Execution::add_one(Thread& thread, std::uintptr_t address, bool orders) {
  const std::size_t number = place_of(address, sizeof(std::uint32_t));
  wait_until(thread, [&] {
    const EventId last = places_[number].messages.back().store;
    const auto choice = choices_.find({thread.number, thread.events + 1});
    if (choice == choices_.end() ? !is_reserved(thread, last) : last == choice->second) return true;
    infeasible_ = true;
    return false;
  });
  const std::size_t index = places_[number].messages.size() - 1;
  const EventId event = next_event(thread);
  // Between launches the program may have stored it plainly.
  std::uint32_t before;
  std::memcpy(&before, pointer_to(address), sizeof(before));
  read_from(thread, number, index, orders);
  reads_.push_back({event, number, 0, places_[number].messages[index].store,
                    [](const Value&) { return true; }, thread.caused, true});
  const std::uint32_t after = before + 1;
  store(thread, address, &after, sizeof(after), orders);
  return before;
}

void Execution::fence(Thread& thread, bool acquires) {
  if (acquires) {
    raise_to(thread.known, thread.pending_known);
    raise_to(thread.view, thread.pending_view);
  } else {
    thread.released_known = thread.known;
    thread.released_view = thread.view;
  }
  say(thread, acquires ? "fence (acquire)" : "fence (release)");
}

bool Execution::barrier(Thread& thread, bool flag) {
  Meeting& meeting = meetings_[{thread.rank, thread.block}];
  raise_to(meeting.known, thread.known);
  raise_to(meeting.caused, thread.caused);
  raise_to(meeting.view, thread.view);
  meeting.all = meeting.all && flag;
  const unsigned round = meeting.round;
  if (++meeting.arrived == thread.threads) {
    meeting.result = meeting.all;
    meeting.joined_known = std::exchange(meeting.known, {});
    meeting.joined_caused = std::exchange(meeting.caused, {});
    meeting.joined_view = std::exchange(meeting.view, {});
    meeting.all = true;
    meeting.arrived = 0;
    ++meeting.round;
  }
  wait_until(thread, [&] { return meeting.round != round; });
  raise_to(thread.known, meeting.joined_known);
  raise_to(thread.caused, meeting.joined_caused);
  raise_to(thread.view, meeting.joined_view);
  return meeting.result;
}

Choices Execution::graph() const {
  Choices all;
  for (const Read& read : reads_) all.emplace(read.event, read.from);
  return all;
}

/// All reads that do not come after the changed one stay as they are. That leads from any
/// execution, read by read, to any other.
std::vector<Choices> Execution::others() const {
  std::vector<Choices> all;
  for (const Read& read : reads_) {
    const Place& place = places_[read.place];
    for (std::size_t i = read.oldest; i < place.messages.size(); ++i) {
      const Message& message = place.messages[i];
      if (message.store == read.from || is_known(message.caused, read.event) ||
          !read.wanted(message.value))
        continue;
      const auto stays = [&](const Read& other) {
        if (is_known(other.caused, read.event)) return false;
        if (!read.exclusive) return true;
        // Another one that overwrites the same store has to come later, with all that follows it.
        return std::none_of(reads_.begin(), reads_.end(), [&](const Read& rival) {
          return rival.exclusive && rival.place == read.place && rival.from == message.store &&
                 is_known(other.caused, rival.event);
        });
      };
      Choices other;
      for (const Read& kept : reads_)
        if (stays(kept)) other.emplace(kept.event, kept.from);
      other[read.event] = message.store;
      all.push_back(std::move(other));
    }
  }
  return all;
}

}  // namespace plait::model
