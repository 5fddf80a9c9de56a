#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/model/execution.hpp"

namespace plait::model {
namespace {

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

std::size_t Execution::place_of(std::uintptr_t address, std::size_t bytes) {
  const auto [found, is_new] = place_numbers_.try_emplace(address, places_.size());
  if (is_new) {
    Place& place = places_.emplace_back(Place{address, bytes, {}, {}});
    Message first;
    std::memcpy(first.value.data(), pointer_to(address), bytes);
    first.caused.resize(threads_.size());
    place.messages.push_back(std::move(first));
  }
  return found->second;
}

EventId Execution::next_event(Thread& thread) {
  const auto self = static_cast<std::size_t>(thread.number);
  if (program_.stop && thread.rank == program_.stop->rank &&
      ++steps_of_stopped_ > program_.stop->steps)
    for (;;) thread.fiber->leave();
  ++thread.events;
  thread.known[self] = thread.caused[self] = thread.events;
  return {thread.number, thread.events};
}

void Execution::pause(Thread& thread) {
  Thread::Iteration& iteration = thread.iteration;
  std::vector<std::size_t> places;
  for (const auto& [place, value] : iteration.read) places.push_back(place);
  // The first iteration may come after reads that don't come again.
  if (!iteration.stored && places == iteration.read_before) {
    for (std::uint32_t event = iteration.events + 1; event <= thread.events; ++event)
      impossible_ = impossible_ || choice_of({thread.number, event}) != nullptr;
    std::erase_if(reads_, [&](const Read& read) {
      return read.event.thread == thread.number && read.event.index > iteration.events;
    });
    thread.events = iteration.events;
    thread.known = iteration.known;
    thread.caused = iteration.caused;
    thread.view = iteration.view;
    thread.pending_known = iteration.pending_known;
    thread.pending_view = iteration.pending_view;
  }
  wait_until(thread, [&] {
    return iteration.read.empty() || impossible_ ||
           std::any_of(iteration.read.begin(), iteration.read.end(), [&](const auto& read) {
             return places_[read.first].messages.size() > read.second + 1;
           });
  });
  iteration = {
      thread.events,       thread.known, thread.caused,     thread.view, thread.pending_known,
      thread.pending_view, {},           std::move(places), false};
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
  thread.iteration.stored = thread.iteration.stored || stores;
  say(thread, [&] {
    return fmt::format("{} {} bytes at {}", stores ? "stores" : "loads", bytes,
                       program_.name(address));
  });
  touch(thread, address, bytes, stores, false);
}

/// The stores to a place must come one after the other by what their threads have seen, or an
/// execution would have them the other way round. And a value for which somebody waits stays until
/// it was read.
void Execution::check_order(Thread& thread, std::size_t number, const Message& message) {
  const Place& place = places_[number];
  if (at(thread.view, number) + 1 != place.messages.size())
    fail(thread, fmt::format("a store to {} has no order to the one before it",
                             program_.name(place.address)));
  for (const Place::Awaited& read : place.awaited)
    if (!is_known(message.caused, read.event) && !read.wanted(message.value))
      fail(thread, fmt::format("{} is overwritten before another thread has read it",
                               program_.name(place.address)));
}

void Execution::store(Thread& thread, std::uintptr_t address, const void* value, std::size_t bytes,
                      bool releases, bool exclusive) {
  const std::size_t number = place_of(address, bytes);
  Place& place = places_[number];
  thread.iteration.stored = true;
  Message message;
  message.store = next_event(thread);
  std::memcpy(message.value.data(), value, bytes);
  message.caused = thread.caused;
  if (!exclusive) check_order(thread, number, message);
  message.known = releases ? thread.known : thread.released_known;
  message.view = releases ? thread.view : thread.released_view;
  raise_to(message.view, number, place.messages.size());
  touch(thread, address, bytes, true, true);
  raise_to(thread.view, number, place.messages.size());
  say(thread, [&] {
    return fmt::format("{}{} = {:x}", program_.name(address), releases ? " (release)" : "",
                       message.value[0]);
  });
  place.messages.push_back(std::move(message));
  std::memcpy(pointer_to(address), value, bytes);
}

/// The message that the thread's next event reads.
std::optional<std::size_t> Execution::choose(
    const Thread& thread, std::size_t number,
    const std::function<bool(const Value&)>& wanted) const {
  const Place& place = places_[number];
  const Choice* const choice = choice_of({thread.number, thread.events + 1});
  for (std::size_t i = place.messages.size(); i-- > at(thread.view, number);)
    if ((choice == nullptr || choice->from == place.messages[i].store) &&
        wanted(place.messages[i].value))
      return i;
  return {};
}

/// Whether another thread will read the store and overwrite it at once.
bool Execution::is_reserved(const Thread& thread, EventId store) const {
  const auto found = reserved_.find(store);
  return found != reserved_.end() && found->second.thread != thread.number &&
         found->second.index > threads_[static_cast<std::size_t>(found->second.thread)]->events;
}

void Execution::read_from(Thread& thread, std::size_t number, std::size_t index, bool acquires) {
  const Message& message = places_[number].messages[index];
  raise_to(thread.caused, message.caused);
  raise_to(thread.view, number, index);
  raise_to(acquires ? thread.known : thread.pending_known, message.known);
  raise_to(acquires ? thread.view : thread.pending_view, message.view);
}

/// The value for which a thread waits must stay: one that looks later sees a newer value.
void Execution::note_awaited(Thread& thread, std::size_t number, std::size_t index, EventId event,
                             const std::function<bool(const Value&)>& wanted) {
  Place& place = places_[number];
  for (std::size_t later = index + 1; later < place.messages.size(); ++later)
    if (!wanted(place.messages[later].value))
      fail(thread, fmt::format("{} was overwritten before this thread has read it",
                               program_.name(place.address)));
  place.awaited.push_back({event, wanted});
}

bool Execution::wait(Thread& thread, std::uintptr_t address, std::uint32_t at_least,
                     bool acquires) {
  const std::size_t number = place_of(address, sizeof(at_least));
  const auto wanted = [at_least](const Value& value) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(value[0]) - at_least) >= 0;
  };
  const auto first = [&]() -> std::optional<std::size_t> {
    const Place& place = places_[number];
    for (std::size_t i = at(thread.view, number); i < place.messages.size(); ++i)
      if (wanted(place.messages[i].value)) return i;
    return {};
  };
  if (!wait_for_value(thread, [&] { return first().has_value(); })) return false;
  const std::size_t index = *first();
  note_awaited(thread, number, index, next_event(thread), wanted);
  say(thread, [&] {
    return fmt::format("waits for {} >= {:x}{}", program_.name(address), at_least,
                       acquires ? " (acquire)" : "");
  });
  read_from(thread, number, index, acquires);
  touch(thread, address, sizeof(at_least), false, true);
  return true;
}

bool Execution::await(Thread& thread, std::uintptr_t address, void* value, std::size_t bytes,
                      std::function<bool(const Value&)> wanted, bool acquires) {
  const std::size_t number = place_of(address, bytes);
  const bool there = wait_for_value(thread, [&] {
    if (choose(thread, number, wanted)) return true;
    infeasible_ = infeasible_ || choice_of({thread.number, thread.events + 1}) != nullptr;
    return false;
  });
  if (!there) return false;
  const std::size_t index = *choose(thread, number, wanted);
  const std::size_t oldest = at(thread.view, number);
  const EventId event = next_event(thread);
  const EventId from = places_[number].messages[index].store;
  std::memcpy(value, places_[number].messages[index].value.data(), bytes);
  say(thread, [&] {
    return fmt::format("reads {}: {:x}{}", program_.name(address),
                       places_[number].messages[index].value[0],
                       index + 1 == places_[number].messages.size() ? "" : ", not the newest");
  });
  note_awaited(thread, number, index, event, wanted);
  thread.iteration.read.emplace_back(number, index);
  read_from(thread, number, index, acquires);
  reads_.push_back({event, number, oldest, from, std::move(wanted), thread.caused});
  touch(thread, address, bytes, false, true);
  return true;
}

Value Execution::update(Thread& thread, std::uintptr_t address, std::size_t bytes,
                        const Update& change, bool acquires, bool releases) {
  const std::size_t number = place_of(address, bytes);
  // As memory has it: between launches a program may have stored it plainly.
  const auto now = [&] {
    Value value{};
    std::memcpy(value.data(), pointer_to(address), bytes);
    return value;
  };
  wait_until(thread, [&] {
    const EventId last = places_[number].messages.back().store;
    const Choice* const choice = choice_of({thread.number, thread.events + 1});
    const bool its_turn = choice == nullptr ? !is_reserved(thread, last) : last == choice->from;
    if (!its_turn) infeasible_ = true;
    return its_turn && change(now()).has_value();
  });
  const std::size_t index = places_[number].messages.size() - 1;
  const EventId event = next_event(thread);
  const Value before = now(), after = *change(before);
  read_from(thread, number, index, acquires);
  reads_.push_back({event, number, 0, places_[number].messages[index].store,
                    [change](const Value& value) { return change(value).has_value(); },
                    thread.caused, true});
  store(thread, address, after.data(), bytes, releases, true);
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
  say(thread, [&] { return std::string(acquires ? "fence (acquire)" : "fence (release)"); });
}

void Execution::acquire(Thread& thread, std::uintptr_t address, std::size_t bytes) {
  const std::size_t number = place_of(address, bytes);
  read_from(thread, number, at(thread.view, number), true);
  say(thread, [&] { return fmt::format("acquires {}", program_.name(address)); });
}

bool Execution::barrier(Thread& thread, bool flag) {
  Meeting& meeting = meetings_[{thread.rank, thread.block}];
  meeting.all = meeting.all && flag;
  const unsigned round = meeting.round;
  ++meeting.arrived;
  arrive(thread);
  wait_until(thread, [&] { return meeting.round != round; });
  raise_to(thread.known, meeting.joined_known);
  raise_to(thread.caused, meeting.joined_caused);
  raise_to(thread.view, meeting.joined_view);
  return meeting.result;
}
/// The thread has come to a barrier of its block, or to its end. As on GPUs, nobody waits for
/// threads that have ended.
void Execution::arrive(const Thread& thread) {
  Meeting& meeting = meetings_[{thread.rank, thread.block}];
  raise_to(meeting.known, thread.known);
  raise_to(meeting.caused, thread.caused);
  raise_to(meeting.view, thread.view);
  const auto expected = std::count_if(threads_.begin(), threads_.end(), [&](const auto& other) {
    return other->rank == thread.rank && other->block == thread.block && other->running;
  });
  if (meeting.arrived == 0 || meeting.arrived < static_cast<unsigned>(expected)) return;
  meeting.result = meeting.all;
  meeting.joined_known = std::exchange(meeting.known, {});
  meeting.joined_caused = std::exchange(meeting.caused, {});
  meeting.joined_view = std::exchange(meeting.view, {});
  meeting.all = true;
  meeting.arrived = 0;
  ++meeting.round;
}

const Choice* Execution::choice_of(EventId read) const {
  const auto found =
      std::lower_bound(choices_.begin(), choices_.end(), read,
                       [](const Choice& choice, EventId event) { return choice.read < event; });
  return found != choices_.end() && found->read == read ? &*found : nullptr;
}

Choices Execution::graph() const {
  Choices all;
  for (const Read& read : reads_) all.push_back({read.event, read.from, read.exclusive});
  std::sort(all.begin(), all.end(),
            [](const Choice& a, const Choice& b) { return a.read < b.read; });
  return all;
}

/// All reads that do not come after the changed one stay as they are. That leads from any
/// execution, read by read, to any other.
std::vector<Choices> Execution::others() const {
  std::vector<const Read*> sorted;
  for (const Read& read : reads_) sorted.push_back(&read);
  std::sort(sorted.begin(), sorted.end(),
            [](const Read* a, const Read* b) { return a->event < b->event; });
  std::vector<Choices> all;
  for (const Read& read : reads_) {
    const Place& place = places_[read.place];
    for (std::size_t i = read.oldest; i < place.messages.size(); ++i) {
      const Message& message = place.messages[i];
      if (message.store == read.from || is_known(message.caused, read.event) ||
          !read.wanted(message.value))
        continue;
      // Another one that overwrites the same store has to come later, with all that follows it.
      std::vector<EventId> later{read.event};
      if (read.exclusive)
        for (const Read& rival : reads_)
          if (rival.exclusive && rival.place == read.place && rival.from == message.store)
            later.push_back(rival.event);
      const auto stays = [&](const Read& other) {
        return std::none_of(later.begin(), later.end(),
                            [&](EventId event) { return is_known(other.caused, event); });
      };
      Choices& other = all.emplace_back();
      for (const Read* kept : sorted)
        if (kept == &read) other.push_back({read.event, message.store, read.exclusive});
        else if (stays(*kept)) other.push_back({kept->event, kept->from, kept->exclusive});
    }
  }
  return all;
}

}  // namespace plait::model
