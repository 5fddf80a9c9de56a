#include "backends/model/explorer.hpp"

#include <cstring>
#include <random>
#include <unordered_set>

#include "backends/model/execution.hpp"

namespace plait::model {

Explorer::~Explorer() = default;

namespace {

/// Instead of the choices themselves, which are long.
std::uint64_t hash_of(const Choices& choices) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const Choice& choice : choices)
    for (const std::uint64_t part :
         {std::uint64_t(choice.read.thread), std::uint64_t{choice.read.index},
          std::uint64_t(choice.from.thread), std::uint64_t{choice.from.index}})
      hash = (hash ^ part) * 0x100000001b3;
  return hash;
}

}  // namespace

Result Explorer::explore(const Program& program) {
  Result result;
  std::vector<Choices> left{{}};
  std::unordered_set<std::uint64_t> seen, graphs;
  std::mt19937 random;
  while (!left.empty()) {
    if (sample_) std::swap(left[random() % left.size()], left.back());
    const Choices choices = std::move(left.back());
    left.pop_back();
    if (result.executions == most_) {
      result.complete = false;
      return result;
    }
    const auto run = [&](bool notes) {
      program.reset();
      auto execution = std::make_unique<Execution>(*this, program, choices, notes);
      current_ = execution.get();
      of_thread() = this;
      const bool exists = execution->run();
      current_ = nullptr;
      of_thread() = nullptr;
      return exists ? std::move(execution) : nullptr;
    };
    auto execution = run(false);
    if (!execution) continue;
    result.steps += execution->steps();
    if (!execution->failure().empty()) {
      ++result.executions;
      result.failure = run(true)->failure();
      return result;
    }
    if (!graphs.insert(hash_of(execution->graph())).second) continue;
    ++result.executions;
    for (Choices& other : execution->others()) {
      if (sample_ && left.size() > most_) {
        result.complete = false;
        break;
      }
      if (seen.insert(hash_of(other)).second) left.push_back(std::move(other));
    }
  }
  return result;
}

std::string_view Site::file() const {
  const std::string_view name(file_name);
  for (const char* const root : {"algorithms/", "interop/", "backends/", "tests/"})
    if (const std::size_t found = name.rfind(root); found != std::string_view::npos)
      return name.substr(found);
  return name;
}

/// Also notes the word, with all ways to weaken it.
Weakening Explorer::weakening(Thread& thread, Word word, const Site& site) {
  thread.at = site;
  if (met_.emplace(site.file_name, site.line * 16 + static_cast<unsigned>(word)).second) {
    const auto add = [&](Weakening how) {
      mutants_.insert({std::string(site.file()), site.line, word, how});
    };
    if (word == Word::signal || word == Word::wait || word == Word::arrive)
      add(Weakening::to_relaxed);
    else add(Weakening::left_out);
    if (word == Word::wait) add(Weakening::one_early);
  }
  const bool is_weakened =
      weakened_.line == site.line && weakened_.word == word && weakened_.file == site.file();
  return is_weakened ? weakened_.how : Weakening::none;
}

/// Code of this target may call functions that another file has compiled, with hooks that tell the
/// explorer of accesses.
class Inside {
 public:
  explicit Inside(Thread& thread) : thread_(thread) { thread.in_explorer = true; }
  ~Inside() { thread_.in_explorer = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Thread& thread_;
};

void Explorer::store(Thread& thread, void* place, const void* value, std::size_t bytes,
                     bool releases, const Site& site) {
  const Inside inside(thread);
  thread.at = site;
  if (releases && weakening(thread, Word::signal, site) != Weakening::none) releases = false;
  current_->store(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes, releases);
}
void Explorer::empty(Thread& thread, void* place, std::size_t bytes, const Site& site) {
  const Inside inside(thread);
  if (weakening(thread, Word::empty, site) != Weakening::none) return;
  const Value nothing{};
  current_->store(thread, reinterpret_cast<std::uintptr_t>(place), &nothing, bytes, false);
}
bool Explorer::await(Thread& thread, const void* place, void* value, std::size_t bytes,
                     std::function<bool(const Value&)> wanted, const Site& site) {
  const Inside inside(thread);
  if (weakening(thread, Word::get, site) != Weakening::none)
    wanted = [](const Value&) { return true; };
  return current_->await(thread, reinterpret_cast<std::uintptr_t>(place), value, bytes,
                         std::move(wanted));
}
bool Explorer::wait(Thread& thread, const std::uint32_t* place, std::uint32_t at_least,
                    const Site& site) {
  const Inside inside(thread);
  const Weakening how = weakening(thread, Word::wait, site);
  return current_->wait(thread, reinterpret_cast<std::uintptr_t>(place),
                        how == Weakening::one_early ? at_least - 1 : at_least,
                        how != Weakening::to_relaxed);
}
std::uint32_t Explorer::add_one(Thread& thread, std::uint32_t* word, const Site& site) {
  const Inside inside(thread);
  const bool orders = weakening(thread, Word::arrive, site) == Weakening::none;
  const auto next = [](const Value& value) { return std::optional<Value>({value[0] + 1}); };
  return static_cast<std::uint32_t>(current_->update(thread, reinterpret_cast<std::uintptr_t>(word),
                                                     sizeof(*word), next, orders, orders)[0]);
}
void Explorer::fence(Thread& thread, bool acquires, const Site& site) {
  const Inside inside(thread);
  if (weakening(thread, acquires ? Word::acquire : Word::release, site) == Weakening::none)
    current_->fence(thread, acquires);
}
void Explorer::acquire(Thread& thread, const void* place, std::size_t bytes, const Site& site) {
  const Inside inside(thread);
  if (weakening(thread, Word::acquire, site) == Weakening::none)
    current_->acquire(thread, reinterpret_cast<std::uintptr_t>(place), bytes);
}
bool Explorer::barrier(Thread& thread, bool flag, const Site& site) {
  const Inside inside(thread);
  if (weakening(thread, Word::barrier, site) != Weakening::none) return flag;
  return current_->barrier(thread, flag);
}
void Explorer::fail(Thread& thread, const std::string& what) { current_->fail(thread, what); }
void Explorer::plain(Thread& thread, const void* place, std::size_t bytes, bool stores,
                     const Site& site) {
  const Inside inside(thread);
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

void Explorer::plain_load_by_current(const void* place, std::size_t bytes) {
  Explorer& explorer = *of_thread();
  explorer.plain(*explorer.current_->running(), place, bytes, false, {});
}

}  // namespace plait::model
