#include "backends/model/explorer.hpp"

#include <fmt/format.h>

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

Weakening Explorer::weakening(const char* word, const void* site) {
  const auto [found, is_new] = site_numbers_.try_emplace(site, site_names_.size());
  if (is_new) site_names_.emplace_back(word);
  return weakened_ == found->second ? how_ : Weakening::none;
}

void Explorer::store(Thread& thread, void* place, const void* value, std::size_t bytes,
                     bool releases, const void* site) {
  if (releases && weakening("signal", site) != Weakening::none) releases = false;
  current_->store(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes, releases);
}
void Explorer::await(Thread& thread, const void* place, void* value, std::size_t bytes,
                     std::function<bool(const Value&)> wanted) {
  current_->await(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes, std::move(wanted));
}
void Explorer::wait(Thread& thread, const std::uint32_t* place, std::uint32_t at_least,
                    const void* site) {
  const Weakening how = weakening("wait", site);
  if (how == Weakening::left_out) return;
  current_->wait(thread, reinterpret_cast<std::uintptr_t>(place),
                 how == Weakening::one_early ? at_least - 1 : at_least,
                 how != Weakening::to_relaxed);
}
std::uint32_t Explorer::add_one(Thread& thread, std::uint32_t* word, const void* site) {
  const bool orders = weakening("arrive", site) == Weakening::none;
  return current_->add_one(thread, reinterpret_cast<std::uintptr_t>(word), orders);
}
void Explorer::fence(Thread& thread, bool acquires, const void* site) {
  if (weakening(acquires ? "acquire" : "release", site) == Weakening::none)
    current_->fence(thread, acquires);
}
bool Explorer::barrier(Thread& thread, bool flag, const void* site) {
  if (weakening("barrier of the block", site) != Weakening::none) return flag;
  return current_->barrier(thread, flag);
}
void Explorer::plain_by_current(const void* place, std::size_t bytes, bool stores) {
  current_->plain(*current_->running(), reinterpret_cast<std::uintptr_t>(place), bytes, stores);
}
void Explorer::fail(Thread& thread, const std::string& what) { current_->fail(thread, what); }
void Explorer::plain(Thread& thread, const void* place, std::size_t bytes, bool stores) {
  current_->plain(thread, reinterpret_cast<std::uintptr_t>(place), bytes, stores);
}

}  // namespace plait::model
