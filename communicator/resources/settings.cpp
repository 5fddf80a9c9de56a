// What options and the environment say, on all ranks alike.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/work_ring.hpp"
#include "communicator/resources/compared.hpp"
#include "communicator/resources/ring.hpp"
#include "communicator/resources/setup.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "plait/version.hpp"

namespace plait {
namespace {

constexpr std::size_t default_work_fifo = std::size_t{256} << 10;

std::string or_default(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "default";
}

/// The algorithms that are not the library's own, in words that ranks can compare.
std::string added_algorithms() {
  const Registry& registry = Registry::instance();
  std::vector<std::string> names;
  for (const auto& algorithm : registry.all())
    if (!registry.file_of(*algorithm).empty())
      names.push_back(fmt::format("{}:{}", name_of(algorithm->collective()), algorithm->name()));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// What the options and the environment of this rank say.
CommunicatorSettings read_settings(const CommunicatorOptions& options) {
  const std::chrono::duration<double> timeout(environment_seconds("PLAIT_TIMEOUT", 600));
  std::optional<std::size_t> scratch = options.scratch_bytes;
  if (!scratch && environment("PLAIT_SCRATCH_BYTES"))
    scratch = environment_bytes("PLAIT_SCRATCH_BYTES", 0);
  CommunicatorSettings settings{
      .scratch_bytes = scratch,
      .work_fifo_bytes = environment_bytes("PLAIT_WORK_FIFO_BYTES", default_work_fifo),
      .timeout =
          options.timeout.value_or(std::chrono::duration_cast<std::chrono::nanoseconds>(timeout)),
      .check_calls = environment_integer("PLAIT_CHECK", 0, 0, 1) == 1,
      .progress = environment_integer("PLAIT_PROGRESS", 1, 0, 1) == 1,
      .profiler_ranges = environment_integer("PLAIT_PROFILER_RANGES", 0, 0, 1) == 1,
      .peer_access = environment_integer("PLAIT_DISABLE_P2P", 0, 0, 1) == 0,
      .share_devices = environment_integer("PLAIT_SHARE_DEVICES", 0, 0, 1) == 1,
      .order = order_of(options),
      .network = {environment_number("PLAIT_NET_LATENCY_US", 0, 1e6, "microseconds, from 0 to 1e6"),
                  environment_number("PLAIT_NET_BANDWIDTH", 1e-3, 1e6, "GB/s, from 0.001 to 1e6")},
      .calibration = calibration_wish(),
      .tuning = load_tuning_file(),
      .trace = environment("PLAIT_TRACE"),
      .ring = {},
      .backend = {},
      .fewest_devices = {}};
  if (const auto ring = environment("PLAIT_RING")) settings.ring = parse_ring(*ring);
  if (settings.trace && !settings.progress)
    throw Error(ErrorCode::invalid_argument,
                "PLAIT_TRACE is set, and PLAIT_PROGRESS=0: a trace needs the counters");
  if (settings.timeout.count() < 0)
    throw Error(ErrorCode::invalid_argument, "the timeout is negative");
  if (!WorkRing::is_valid(settings.work_fifo_bytes))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("PLAIT_WORK_FIFO_BYTES={}: not a power of two from {} to {}",
                    format_bytes(settings.work_fifo_bytes), format_bytes(WorkRing::least_bytes),
                    format_bytes(WorkRing::most_bytes)));
  static_cast<void>(log::level());  // so an unknown level is an error here, not in a later call
  return settings;
}

/// The target that the options or else PLAIT_BACKEND ask for. Throws if the options are wrong.
std::optional<BackendKind> wanted_backend(const CommunicatorOptions& options) {
  constexpr std::size_t kinds = gpu_targets.size() + 1;
  if (options.backend && static_cast<std::size_t>(*options.backend) >= kinds)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no backend: they are 0 to {}",
                            static_cast<int>(*options.backend), kinds - 1));
  if (options.device < -1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is no device: they are numbered from 0, and -1 is the default",
                            options.device));
  const auto name = environment("PLAIT_BACKEND");
  return name && !options.backend ? parse_backend(*name) : options.backend;
}

/// Those that ranks must have in common.
std::string compared(const CommunicatorSettings& settings) {
  return fmt::format(
      "PLAIT_SCRATCH_BYTES={} PLAIT_WORK_FIFO_BYTES={} PLAIT_TIMEOUT={} PLAIT_CHECK={:d} "
      "PLAIT_DISABLE_P2P={:d} PLAIT_SHARE_DEVICES={:d} PLAIT_NET_LATENCY_US={} "
      "PLAIT_NET_BANDWIDTH={} PLAIT_CALIBRATE={} PLAIT_RING={} PLAIT_ALGO=\"{}\" reproducible={}",
      settings.scratch_bytes ? std::to_string(*settings.scratch_bytes) : "default",
      settings.work_fifo_bytes, std::chrono::duration<double>(settings.timeout).count(),
      settings.check_calls, !settings.peer_access, settings.share_devices,
      or_default(settings.network.latency_us), or_default(settings.network.gb_per_s),
      name_of(settings.calibration), fmt::join(settings.ring, ","),
      environment("PLAIT_ALGO").value_or(""), static_cast<int>(settings.order));
}

}  // namespace

CommunicatorSettings agree_on_settings(Bootstrap& bootstrap, const CommunicatorOptions& options,
                                       bool is_part, std::vector<Nodes::Place>& places) {
  if (options.timeout) bootstrap.set_timeout(*options.timeout);
  CommunicatorSettings settings{};
  struct Facts {
    Nodes::Place place;
    std::array<int, gpu_targets.size()> devices;
  };
  const auto facts = require_equal_texts<5, Facts>(bootstrap, [&](Facts& mine) {
    settings = read_settings(options);
    if (!is_part) settings.backend = wanted_backend(options);
    mine.place = Nodes::Place::of(bootstrap);
    for (std::size_t i = 0; i < gpu_targets.size(); ++i)
      mine.devices[i] = settings.backend || is_part ? 0 : device_count(gpu_targets[i]);
    return std::array{
        Compared{"version", PLAIT_VERSION},
        Compared{"the algorithms of programs and plug-ins", added_algorithms()},
        Compared{"settings", compared(settings)},
        Compared{"the rules of PLAIT_TUNING", settings.tuning ? settings.tuning->text : "no file"},
        Compared{"backend",
                 std::string(settings.backend ? name_of(*settings.backend) : "no preference")}};
  });
  settings.fewest_devices = facts.front().devices;
  for (const Facts& of_rank : facts) {
    places.push_back(of_rank.place);
    for (std::size_t i = 0; i < gpu_targets.size(); ++i)
      settings.fewest_devices[i] = std::min(settings.fewest_devices[i], of_rank.devices[i]);
  }
  bootstrap.set_timeout(settings.timeout);
  return settings;
}

}  // namespace plait
