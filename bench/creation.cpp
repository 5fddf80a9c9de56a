#include "bench/creation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/files.hpp"
#include "plait/communicator.hpp"
#include "plait/version.hpp"

namespace plait::bench {

void measure_creation(Bootstrap& world, const Options& options,
                      const std::function<std::unique_ptr<Bootstrap>()>& make_world) {
  using Clock = std::chrono::steady_clock;
  CommunicatorOptions wanted;
  wanted.backend = options.backend;
  std::vector<double> times;
  for (int i = 0; i < options.creations; ++i) {
    world.barrier();
    const auto start = Clock::now();
    const Communicator comm = Communicator::create(make_world(), wanted);
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    const std::vector<double> all = world.all_gather(time.count());
    times.push_back(*std::max_element(all.begin(), all.end()));
  }
  if (world.rank() != 0) return;
  const nlohmann::ordered_json document = {{"plait_version", PLAIT_VERSION},
                                           {"ranks", world.size()},
                                           {"nodes", world.nodes()},
                                           {"command_line", options.command_line},
                                           {"creation_us", times}};
  const std::string text = document.dump() + "\n";
  if (options.json.empty()) fmt::print("{}", text);
  else write_text(options.json, text);
}

}  // namespace plait::bench
