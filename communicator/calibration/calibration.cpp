#include "communicator/calibration/calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include "bootstrap/agreement.hpp"
#include "core/cache.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait {
namespace {

constexpr const char* variable = "PLAIT_CALIBRATE";
/// A communicator that takes longer than usual to make says why.
constexpr double long_ms = 1500;
/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), 64 bits: the same in every build.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

std::string read_processor_name() {
  const StandardFdsTaken taken;
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);)
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  return "CPU";
}

/// Such as "/home/me/.cache/plait/4-ranks-on-sm_90-0123456789abcdef.times".
std::optional<std::string> file_for(const Topology& topology, const std::string& key,
                                    std::string_view ending) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return fmt::format("{}/{}-ranks-on-{}-{:016x}.{}", *folder, topology.ranks, topology.architecture,
                     hash(key), ending);
}

constexpr std::string_view calibrated = "times", tuned = "tuned";

/// Rank 0's text on all ranks.
MeasuredTimes broadcast(Bootstrap& bootstrap, std::string text, std::size_t bytes) {
  if (bytes == 0) return {};
  text.resize(bytes);
  bootstrap.broadcast(text.data(), bytes, 0);
  return {text, "calibration"};
}

}  // namespace

void require_key(const MeasuredTimes& times, const std::string& key, std::string_view source) {
  if (times.key() == key) return;
  // Both are lists of facts.
  const auto theirs = split(times.key(), ','), ours = split(key, ',');
  std::size_t i = 0;
  while (i < theirs.size() && i < ours.size() && theirs[i] == ours[i]) ++i;
  const auto fact = [i](const auto& facts) {
    return in_quotes(i < facts.size() ? trim(facts[i]) : "");
  };
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: measured elsewhere: there {}, here {}",
                                                       source, fact(theirs), fact(ours)));
}

std::optional<std::string> tuned_path(const Topology& topology, const std::string& key) {
  return file_for(topology, key, tuned);
}

CalibrationStore& CalibrationStore::of_process() {
  static CalibrationStore store;
  return store;
}

/// Empty if the file is of no use, with a warning.
std::string CalibrationStore::read(const std::string& path, const std::string& key) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  try {
    std::string text = read_user_file(path, most_tuning_bytes, in_quotes(path));
    require_key(MeasuredTimes(text, in_quotes(path)), key, in_quotes(path));
    return text;
  } catch (const Error& error) {
    if (useless_.insert(path).second) log::warn("measured times are passed over: {}", error.what());
    return {};
  }
}

std::string CalibrationStore::find(const std::string& key, const Topology& topology) {
  const std::lock_guard lock(mutex_);
  if (const auto known = texts_.find(key); known != texts_.end()) return known->second;
  const auto path = file_for(topology, key, calibrated);
  std::string text = path ? read(*path, key) : std::string();
  if (!text.empty()) texts_[key] = text;
  return text;
}

std::string CalibrationStore::find_tuned(const std::string& key, const Topology& topology) {
  const std::lock_guard lock(mutex_);
  const auto path = tuned_path(topology, key);
  return path ? read(*path, key) : std::string();
}

void CalibrationStore::keep(const std::string& key, const Topology& topology,
                            const std::string& text) {
  const std::lock_guard lock(mutex_);
  texts_[key] = text;
  const auto path = file_for(topology, key, calibrated);
  const std::string why_not = path ? write_cached(*path, text) : why_no_cache();
  if (why_not.empty()) log::info("calibration: kept in {}", in_quotes(*path));
  else log::info("calibration: kept for this process alone: {}", why_not);
}

void CalibrationStore::give_up(const std::string& machine) {
  const std::lock_guard lock(mutex_);
  given_up_.insert(machine);
}
bool CalibrationStore::gave_up(const std::string& machine) {
  const std::lock_guard lock(mutex_);
  return given_up_.contains(machine);
}

Calibration calibration_wish() {
  const auto value = environment(variable);
  if (!value || *value == "1") return Calibration::on;
  if (*value == "0") return Calibration::off;
  if (*value == "again") return Calibration::again;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}={}: not 0, 1 or again", variable, in_quotes(*value)));
}

std::string_view name_of(Calibration wish) {
  return wish == Calibration::off ? "0" : wish == Calibration::on ? "1" : "again";
}

std::string describe_for_calibration(const DeviceInfo& device, const Topology& topology) {
  // On a machine of many processors the kernel takes its time to make up that file.
  static const std::string processor = read_processor_name();
  const bool host = topology.backend == BackendKind::host;
  std::vector<std::string> added;
  for (const auto& algorithm : Registry::instance().all())
    if (!Registry::instance().file_of(*algorithm).empty()) added.emplace_back(algorithm->name());
  std::string line = fmt::format(
      "plait {}, {}, {} processors, {} ranks on {} nodes, {} ({}), {} on a device, units {} of {} "
      "to {} "
      "threads, lines {}, peer access {:d}, reads {:d}, links {:.0f} MB/s, scratch {} and "
      "{}, more: {}",
      PLAIT_VERSION, processor, host ? std::thread::hardware_concurrency() : 0, topology.ranks,
      topology.nodes, device.name, topology.architecture, topology.ranks_per_device, topology.units,
      topology.block_threads, topology.max_block_threads, topology.line_threads,
      topology.peer_access, topology.peer_reads, topology.link_bandwidth, topology.scratch_limit,
      topology.base_limit, fmt::join(added, " "));
  // It is a line of a file, in which a # begins a comment.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '#'; }, ' ');
  return std::string(trim(line));
}

KeptTimes kept_times(Bootstrap& bootstrap, const Topology& topology,
                     const CalibrationRequest& request,
                     const std::function<std::vector<MeasuredCall>()>& measure,
                     CalibrationStore& store) {
  const bool again = request.wish == Calibration::again;
  const std::string key =
      request.machine + (request.order == SumOrder::any     ? ""
                         : request.order == SumOrder::ranks ? ", reproducible"
                                                            : ", reproducible_tree");
  std::string by_user, text;
  struct {
    std::size_t tuned_bytes, kept_bytes;
    bool measures;
  } decision{0, 0, request.may_measure};
  if (bootstrap.rank() == 0) {
    by_user = store.find_tuned(request.machine, topology);
    if (!again) text = store.find(key, topology);
    decision.tuned_bytes = by_user.size();
    decision.kept_bytes = text.size();
    if (!again && (!by_user.empty() || store.gave_up(request.machine))) decision.measures = false;
    if (decision.measures && text.empty() && !again) {
      const std::string why_not = why_no_cache();
      decision.measures = why_not.empty();
      if (!decision.measures)
        log::info("calibration: nothing is measured, because it could not be kept: {}", why_not);
    }
  }
  decision = bootstrap.broadcast(decision, 0);
  KeptTimes times{.tuned = broadcast(bootstrap, by_user, decision.tuned_bytes), .calibration = {}};
  if (decision.kept_bytes != 0 || !decision.measures) {
    times.calibration = broadcast(bootstrap, text, decision.kept_bytes);
    return times;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<MeasuredCall> measured = measure();
  if (measured.empty()) return times;
  text = MeasuredTimes(key, measured).text();
  times.calibration = broadcast(bootstrap, text, bootstrap.broadcast(text.size(), 0));
  if (bootstrap.rank() == 0) {
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    const bool is_long = took.count() > long_ms;
    log::at(is_long ? log::Level::warn : log::Level::info,
            "calibration: {} times measured in {:.0f} ms{}", measured.size(), took.count(),
            is_long ? ", once for this machine; PLAIT_CALIBRATE=0 leaves it out" : "");
    store.keep(key, topology, text);
  }
  return times;
}

MeasuredTimes times_of(const TuningFile& file, Bootstrap& bootstrap, const std::string& key) {
  MeasuredTimes times;
  agree(bootstrap, "creating a communicator", [&] {
    times = MeasuredTimes(file.text, file.source());
    if (bootstrap.rank() == 0) require_key(times, key, file.source());
  });
  return times;
}

}  // namespace plait
