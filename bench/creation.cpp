#include "bench/creation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/files.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

void measure_creation(Bootstrap& world, const Options& options,
                      const std::function<std::unique_ptr<Bootstrap>()>& make_world) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < options.creations; ++i) {
    world.barrier();
    const auto start = Clock::now();
    const Communicator comm = Communicator::create(make_world(), {.backend = options.backend});
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    const std::vector<double> all = world.all_gather(time.count());
    times.push_back(*std::max_element(all.begin(), all.end()));
  }
  if (world.rank() != 0) return;
  const std::string text = creations_text(world, options.command_line, times);
  if (options.json.empty()) fmt::print("{}", text);
  else write_text(options.json, text);
}

}  // namespace plait::bench
