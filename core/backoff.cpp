#include "core/backoff.hpp"

#include <thread>
#include <utility>

namespace plait {
namespace {

thread_local WhileWaiting::Act set_act = nullptr;

}  // namespace

WhileWaiting::Act WhileWaiting::set(Act act) noexcept { return std::exchange(set_act, act); }
bool WhileWaiting::is_set() noexcept { return set_act != nullptr; }
void WhileWaiting::act() noexcept {
  if (set_act != nullptr) set_act();
}

void Backoff::pause_longer() {
  const unsigned awake = pace_.spins + yields;
  if (pauses_ < awake + pace_.longest * equal_sleeps) ++pauses_;
  WhileWaiting::act();
  if (pauses_ <= awake) return std::this_thread::yield();
  const unsigned times = 1 + (pauses_ - awake - 1) / equal_sleeps;
  std::this_thread::sleep_for(pace_.sleep * times);
}

}  // namespace plait
