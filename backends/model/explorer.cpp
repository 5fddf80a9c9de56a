#include "backends/model/explorer.hpp"

#include <cstring>

#include "backends/model/execution.hpp"

namespace plait::model {

Explorer::~Explorer() = default;

Result Explorer::explore(const Program& program) {
  Result result;
  std::vector<Choices> left{{}};
  std::set<Choices> seen, graphs;
  while (!left.empty()) {
    const Choices choices = std::move(left.back());
    left.pop_back();
    if (result.executions == most_) {
      result.complete = false;
      return result;
    }
    program.reset();
    Execution execution(*this, program, choices);
    current_ = &execution;
    of_thread() = this;
    const bool exists = execution.run();
    current_ = nullptr;
    if (!exists) continue;
    result.steps += execution.steps();
    result.failure = execution.failure();
    if (!result.failure.empty()) {
      ++result.executions;
      return result;
    }
    if (!graphs.insert(execution.graph()).second) continue;
    ++result.executions;
    for (Choices& other : execution.others())
      if (seen.insert(other).second) left.push_back(std::move(other));
  }
  return result;
}

/// Also notes the word, with all ways to weaken it.
Weakening Explorer::weakening(Thread& thread, Word word, const Site& site) {
  thread.at = site;
  Mutant mutant{site.file_name(), site.line(), word, Weakening::none};
  if (met_.emplace(site.file_name(), site.line() * 16 + static_cast<unsigned>(word)).second) {
    const auto add = [&](Weakening how) {
      mutant.how = how;
      mutants_.insert(mutant);
    };
    if (word == Word::signal || word == Word::wait || word == Word::arrive)
      add(Weakening::to_relaxed);
    else add(Weakening::left_out);
    if (word == Word::wait) add(Weakening::one_early);
  }
  mutant.how = weakened_.how;
  return mutant == weakened_ ? weakened_.how : Weakening::none;
}

void Explorer::store(Thread& thread, void* place, const void* value, std::size_t bytes,
                     bool releases, const Site& site) {
  thread.at = site;
  if (releases && weakening(thread, Word::signal, site) != Weakening::none) releases = false;
  current_->store(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes, releases);
}
void Explorer::empty(Thread& thread, void* place, std::size_t bytes, const Site& site) {
  if (weakening(thread, Word::empty, site) != Weakening::none) return;
  const Value nothing{};
  current_->store(thread, reinterpret_cast<std::uintptr_t>(place), &nothing, bytes, false);
}
bool Explorer::await(Thread& thread, const void* place, void* value, std::size_t bytes,
                     std::function<bool(const Value&)> wanted, const Site& site) {
  if (weakening(thread, Word::get, site) != Weakening::none)
    wanted = [](const Value&) { return true; };
  return current_->await(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes,
                         std::move(wanted));
}
bool Explorer::wait(Thread& thread, const std::uint32_t* place, std::uint32_t at_least,
                    const Site& site) {
  const Weakening how = weakening(thread, Word::wait, site);
  return current_->wait(thread, reinterpret_cast<std::uintptr_t>(place),
                        how == Weakening::one_early ? at_least - 1 : at_least,
                        how != Weakening::to_relaxed);
}
std::uint32_t Explorer::add_one(Thread& thread, std::uint32_t* word, const Site& site) {
  const bool orders = weakening(thread, Word::arrive, site) == Weakening::none;
  return current_->add_one(thread, reinterpret_cast<std::uintptr_t>(word), orders);
}
void Explorer::fence(Thread& thread, bool acquires, const Site& site) {
  if (weakening(thread, acquires ? Word::acquire : Word::release, site) == Weakening::none)
    current_->fence(thread, acquires);
}
bool Explorer::barrier(Thread& thread, bool flag, const Site& site) {
  if (weakening(thread, Word::barrier, site) != Weakening::none) return flag;
  return current_->barrier(thread, flag);
}
void Explorer::plain_by_current(const void* place, std::size_t bytes, bool stores) {
  plain(*current_->running(), place, bytes, stores, {});
}
void Explorer::fail(Thread& thread, const std::string& what) { current_->fail(thread, what); }
void Explorer::plain(Thread& thread, const void* place, std::size_t bytes, bool stores,
                     const Site& site) {
  thread.at = site;
  current_->plain(thread, reinterpret_cast<std::uintptr_t>(place), bytes, stores);
}
void Explorer::plain_load(Thread& thread, void* to, const void* from, std::size_t bytes,
                          const Site& site) {
  plain(thread, from, bytes, false, site);
  std::memcpy(to, from, bytes);
}
void Explorer::plain_store(Thread& thread, void* to, const void* from, std::size_t bytes,
                           const Site& site) {
  plain(thread, to, bytes, true, site);
  std::memcpy(to, from, bytes);
}

}  // namespace plait::model
