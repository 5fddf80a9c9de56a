#include "communicator/groups/group_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "core/start_thread.hpp"
#include "core/thread_team.hpp"

namespace plait {
namespace {

using Turns = std::vector<std::size_t>;  // indices of parts that are enqueued in this order

/// Where one thread drives several ranks, a call on the first may wait for the same call on the
/// second. Enqueueing many calls on the first can block until some of them are done, for room in
/// the work FIFO or in the device's queue of launches. So each queue gets a thread. Parts in one
/// queue keep their order, which is that of the other ranks (put_in_order).
std::vector<Turns> turns_of(const std::vector<PlannedPart>& parts) {
  const bool long_ones = std::any_of(parts.begin(), parts.end(), [](const PlannedPart& part) {
    return part.plan.calls.size() > calls_in_turn;
  });
  if (!long_ones || parts.size() < 2) {
    Turns all(parts.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return {std::move(all)};
  }
  struct Taken {
    std::vector<const void*> queues;
    Turns turns;
  };
  std::vector<Taken> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Taken mine;
    for (const GroupedCall& call : parts[i].plan.calls) {
      const void* queue = parts[i].member->queue(call.stream);
      if (std::find(mine.queues.begin(), mine.queues.end(), queue) == mine.queues.end())
        mine.queues.push_back(queue);
    }
    // Merges with all that have a queue in common with it: they now share queues with each other.
    const auto apart = [&](const Taken& other) {
      return std::find_first_of(mine.queues.begin(), mine.queues.end(), other.queues.begin(),
                                other.queues.end()) == mine.queues.end();
    };
    const auto first = std::stable_partition(all.begin(), all.end(), apart);
    for (auto other = first; other != all.end(); ++other) {
      mine.queues.insert(mine.queues.end(), other->queues.begin(), other->queues.end());
      mine.turns.insert(mine.turns.end(), other->turns.begin(), other->turns.end());
    }
    all.erase(first, all.end());
    std::sort(mine.turns.begin(), mine.turns.end());
    mine.turns.push_back(i);
    all.push_back(std::move(mine));
  }
  std::vector<Turns> turns;
  for (Taken& taken : all) turns.push_back(std::move(taken.turns));
  return turns;
}

/// The growth of a part's scratch memory, on a thread.
class Growth {
 public:
  void begin(GroupMember& member, GroupPlan& plan) {
    thread_ = start_thread("a thread for memory that grows", [this, &member, &plan] {
      try {
        member.grow(plan);
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
  /// Waits for its end, and rethrows its error. Does nothing if it was not begun.
  void end() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  ~Growth() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
  std::exception_ptr failure_;
};

/// A communicator whose scratch memory must grow waits for its ranks. Each does so on a thread,
/// because another rank may come to the communicators in another order. All calls are published
/// first, so ranks that are in different calls notice. If any part grows, `growth` has an entry per
/// part, and a part is enqueued after its own has ended.
void begin_growth(std::vector<PlannedPart>& parts, std::vector<Growth>& growth) {
  if (parts.size() < 2) return;
  std::vector<std::size_t> growing;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].member->grows(parts[i].plan)) growing.push_back(i);
  if (growing.empty()) return;
  growth = std::vector<Growth>(parts.size());
  for (auto& [member, plan] : parts) member->publish(plan);
  for (const std::size_t i : growing) growth[i].begin(*parts[i].member, parts[i].plan);
}

}  // namespace

void enqueue_parts(std::vector<PlannedPart>& parts) {
  const std::vector<Turns> turns = turns_of(parts);
  std::mutex mutex;
  std::exception_ptr first;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      // At once, because the enqueued calls of the group wait for those that are not enqueued, and
      // other threads may wait for the enqueued ones.
      for (const PlannedPart& part : parts)
        part.member->abort(
            fmt::format("a part of a group could not be enqueued: {}", error.what()));
    }
  };
  std::vector<Growth> growth;
  attempt([&] { begin_growth(parts, growth); });
  const auto take_turns = [&](std::size_t thread) {
    attempt([&] {
      for (const std::size_t i : turns[thread]) {
        if (!growth.empty()) growth[i].end();
        parts[i].member->submit(parts[i].plan);
      }
    });
  };
  if (!first) {
    if (turns.size() > 1)
      ThreadTeam("a thread for each device", turns.size()).run(turns.size(), take_turns);
    else take_turns(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace plait
