#include "communicator/groups/birth.hpp"

#include <algorithm>
#include <atomic>

#include "bootstrap/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// The latest proposal counts, and sets the clock of every process that hears of it. So what a
/// process makes after that has a later time.
Birth agree_on_birth(Bootstrap& bootstrap) {
  static std::atomic<std::uint64_t> clock = 0;
  const Birth mine{.time = ++clock, .token = draw_token()};
  const auto all = on_behalf_of(bootstrap, "creating a communicator",
                                [&] { return bootstrap.all_gather(mine); });
  const Birth latest = *std::max_element(all.begin(), all.end());
  for (std::uint64_t now = clock; now < latest.time;)
    if (clock.compare_exchange_weak(now, latest.time)) break;
  return latest;
}

}  // namespace plait
