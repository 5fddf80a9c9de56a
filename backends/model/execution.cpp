#include "backends/model/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace plait::model {

Execution::Execution(Explorer& explorer, const Program& program, const Choices& choices, bool notes)
    : explorer_(explorer), program_(program), choices_(choices), notes_(notes) {
  for (const Choice& choice : choices)
    if (choice.exclusive) reserved_.emplace(choice.from, choice.read);
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
  first_own_ = threads_.size();
  for (std::size_t i = 0; i < program.threads_of_its_own; ++i)
    threads_.emplace_back(new Thread(static_cast<int>(program.ranks.size() + i), 0, 0,
                                     static_cast<int>(threads_.size())));
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
    if (gave_up_ || next_launch_[rank] == program_.ranks[rank].size()) continue;
    const Launch& launch = program_.ranks[rank][next_launch_[rank]++];
    // The end of a launch comes before the next one, and both are fences of all threads.
    Clock known, caused, view;
    for (const auto& thread : threads_)
      if (mine(thread)) {
        raise_to(known, thread->known);
        raise_to(known, thread->pending_known);
        raise_to(caused, thread->caused);
        raise_to(view, thread->view);
        raise_to(view, thread->pending_view);
      }
    for (const auto& thread : threads_) {
      if (!mine(thread) || thread->block >= launch.blocks || thread->thread >= launch.threads)
        continue;
      thread->known = thread->released_known = known;
      thread->caused = caused;
      thread->view = thread->released_view = view;
      thread->blocks = launch.blocks;
      thread->threads = launch.threads;
      begin(*thread, launch.body);
      started = true;
    }
  }
  return started;
}

void Execution::begin(Thread& thread, const std::function<void(Thread&)>& body) {
  if (!thread.fiber) {
    if (explorer_.idle_.empty()) {
      thread.fiber = std::make_unique<Fiber>();
    } else {
      thread.fiber = std::move(explorer_.idle_.back());
      explorer_.idle_.pop_back();
    }
  }
  thread.fiber->begin([body, &thread] { body(thread); });
  thread.running = true;
  thread.ready = nullptr;
}

int Execution::start(Thread& starter, const std::function<void(Thread&)>& body) {
  const auto place =
      std::find_if(threads_.begin() + static_cast<std::ptrdiff_t>(first_own_), threads_.end(),
                   [](const auto& thread) { return !thread->fiber; });
  if (place == threads_.end()) fail(starter, "the program starts more threads than it said");
  Thread& started = **place;
  starter.iteration.stored = true;
  next_event(starter);
  for (const auto clock : {&Thread::known, &Thread::caused, &Thread::view})
    raise_to(started.*clock, starter.*clock);
  say(starter, [&] { return fmt::format("starts thread {}", started.number); });
  begin(started, body);
  return started.number;
}
void Execution::await_end(Thread& thread, int number) {
  const Thread& other = *threads_[static_cast<std::size_t>(number)];
  wait_until(thread, [&] { return !other.running; });
  next_event(thread);
  for (const auto clock : {&Thread::known, &Thread::caused, &Thread::view})
    raise_to(thread.*clock, other.*clock);
  say(thread, [&] { return fmt::format("thread {} has ended", number); });
}

bool Execution::watches(const void* place) const {
  if (program_.watches) return program_.watches(place);
  return std::none_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
    return thread->fiber && thread->fiber->has_on_stack(place);
  });
}

bool Execution::run() {
  for (;;) {
    bool moved = start_launches();
    for (const auto& thread : threads_) {
      if (!thread->running || has_stopped(*thread) || (thread->ready && !thread->ready())) continue;
      thread->ready = nullptr;
      running_ = thread.get();
      thread->fiber->resume();
      running_ = nullptr;
      thread->running = !thread->fiber->done();
      if (!thread->running) arrive(*thread);
      moved = true;
      if (impossible_) return false;
      if (!failure_.empty()) return true;
    }
    if (moved) continue;
    if (std::any_of(threads_.begin(), threads_.end(),
                    [&](const auto& thread) { return thread->running && !has_stopped(*thread); })) {
      if (program_.stop && !std::exchange(gave_up_, true)) continue;
      infeasible_ = false;
      for (const auto& thread : threads_)
        if (thread->running && thread->ready) thread->ready();
      if (infeasible_) return false;
      failure_ = "nobody can go on: " + who_waits() + "\n" + table();
      return true;
    }
    if (program_.stop) return true;
    const std::string wrong = program_.check();
    if (!wrong.empty()) failure_ = wrong + "\n" + table();
    return true;
  }
}

std::string Execution::who_waits() const {
  std::string all;
  for (const auto& thread : threads_)
    if (thread->running && !has_stopped(*thread))
      all += fmt::format("{}rank {} block {} thread {}", all.empty() ? "" : ", ", thread->rank,
                         thread->block, thread->thread);
  return all;
}

void Execution::wait_until(Thread& thread, std::function<bool()> ready) {
  if (ready()) return;
  thread.ready = std::move(ready);
  thread.fiber->leave();
}
/// False: the thread gives up.
bool Execution::wait_for_value(Thread& thread, const std::function<bool()>& there) {
  wait_until(thread, [&] { return there() || gave_up_; });
  return there();
}

void Execution::say(const Thread& thread, const std::function<std::string()>& what) {
  if (++steps_ == most_steps) {
    failure_ = "the threads find no end\n" + table();
    for (;;) thread.fiber->leave();
  }
  if (!notes_) return;
  std::string text = what();
  if (thread.at.line != 0) {
    const std::string_view file(thread.at.file_name);
    text += fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), thread.at.line);
  }
  table_.push_back({thread.number, std::move(text)});
}
void Execution::fail(Thread& thread, const std::string& what) {
  failure_ = fmt::format("rank {} block {} thread {}: {}\n{}", thread.rank, thread.block,
                         thread.thread, what, table());
  for (;;) thread.fiber->leave();
}
std::string Execution::table() const {
  std::string text = "| step | rank | block | thread | does |\n";
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const Thread& thread = *threads_[static_cast<std::size_t>(table_[i].thread)];
    text += fmt::format("| {} | {} | {} | {} | {} |\n", i, thread.rank, thread.block, thread.thread,
                        table_[i].text);
  }
  return text;
}

}  // namespace plait::model
