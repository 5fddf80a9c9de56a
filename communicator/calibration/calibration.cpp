#include "communicator/calibration/calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <thread>

#include "bootstrap/agreement.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "core/cache.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait {
namespace {

constexpr const char* variable = "PLAIT_CALIBRATE";
constexpr std::size_t most_bytes = std::size_t{1} << 18;
/// Few calls are timed, so a smaller difference may be chance.
constexpr double noise = 0.03;

/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), 64 bits: the same in every build.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

std::string read_processor_name() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);)
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  return "CPU";
}

/// Such as "/home/me/.cache/plait/4-ranks-on-sm_90-0123456789abcdef.rules".
std::optional<std::string> file_for(const Topology& topology, const std::string& description) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return fmt::format("{}/{}-ranks-on-{}-{:016x}.rules", *folder, topology.ranks,
                     topology.architecture, hash(description));
}

RuleList rules_of(const std::string& text, const Topology& topology) {
  return rules_for(topology, text, "calibration", LeftOut::passed_over);
}

/// The fastest algorithms, and below them, for calls that these refuse, the fastest of those that
/// take integers.
std::string text_of(const std::vector<MeasuredCall>& measured, const Topology& topology,
                    const std::string& description) {
  std::vector<MeasuredCall> general;
  for (const MeasuredCall& one : measured) {
    Call call = one.call;
    call.type = DataType::i32;
    if (Registry::instance().find(one.algorithm, call.collective)->supports(call, topology))
      general.push_back(one);
  }
  const std::string best = measured_rules(measured, noise), others = measured_rules(general, noise);
  return fmt::format("{}\n[{} ranks on {}]\n{}{}", description, topology.ranks,
                     topology.architecture, best, others == best ? "" : others);
}

}  // namespace

CalibrationStore& CalibrationStore::of_process() {
  static CalibrationStore store;
  return store;
}

std::string CalibrationStore::find(const std::string& description, const Topology& topology) {
  const std::lock_guard lock(mutex_);
  if (const auto known = texts_.find(description); known != texts_.end()) return known->second;
  const auto path = file_for(topology, description);
  const auto text = path ? read_cached(*path, most_bytes) : std::nullopt;
  if (!text) return {};
  try {
    if (!text->starts_with(description + "\n"))
      throw Error(ErrorCode::invalid_argument, "its first line is not this machine's");
    static_cast<void>(rules_of(*text, topology));
  } catch (const Error& error) {
    log::warn("{} is of no use: {}", in_quotes(*path), error.what());
    return {};
  }
  return texts_[description] = *text;
}

void CalibrationStore::keep(const std::string& description, const Topology& topology,
                            const std::string& text) {
  const std::lock_guard lock(mutex_);
  texts_[description] = text;
  const auto path = file_for(topology, description);
  const std::string why_not = path ? write_cached(*path, text) : why_no_cache();
  if (why_not.empty()) log::info("calibration: kept in {}", in_quotes(*path));
  else log::info("calibration: kept for this process alone: {}", why_not);
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

std::string describe_for_calibration(const DeviceInfo& device, const Topology& topology,
                                     bool reproducible) {
  // On a machine of many processors the kernel takes its time to make up that file.
  static const std::string processor = read_processor_name();
  const bool host = topology.backend == BackendKind::host;
  std::vector<std::string> added;
  for (const auto& algorithm : Registry::instance().all())
    if (!Registry::instance().file_of(*algorithm).empty()) added.emplace_back(algorithm->name());
  return fmt::format(
      "# plait {}, {}, {} processors, {} {} ({}), {} on a device, units {} of {} to {} threads, "
      "lines {}, bulk {}, peer access {:d}, reads {:d}, scratch {} and {}{}, more: {}",
      PLAIT_VERSION, processor, host ? std::thread::hardware_concurrency() : 0, topology.ranks,
      device.name, topology.architecture, topology.ranks_per_device, topology.units,
      topology.block_threads, topology.max_block_threads, topology.line_threads,
      topology.bulk_threads, topology.peer_access, topology.peer_reads, topology.scratch_limit,
      topology.base_limit, reproducible ? ", reproducible" : "", fmt::join(added, " "));
}

RuleList calibrated_rules(Bootstrap& bootstrap, const Topology& topology,
                          const CalibrationRequest& request,
                          const std::function<std::vector<MeasuredCall>()>& measure,
                          CalibrationStore& store) {
  const bool again = request.wish == Calibration::again;
  std::string text;
  struct {
    std::size_t kept_bytes;
    bool measures;
  } decision{0, request.may_measure};
  if (bootstrap.rank() == 0 && !again) {
    text = store.find(request.description, topology);
    decision.kept_bytes = text.size();
    if (text.empty() && request.may_measure) {
      const std::string why_not = why_no_cache();
      decision.measures = why_not.empty();
      if (!decision.measures)
        log::info("calibration: nothing is measured, because it could not be kept: {}", why_not);
    }
  }
  decision = bootstrap.broadcast(decision, 0);
  text.resize(decision.kept_bytes);
  if (!text.empty()) {
    bootstrap.broadcast(text.data(), text.size(), 0);
  } else if (decision.measures) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<MeasuredCall> measured = measure();
    if (measured.empty()) return {};
    text = text_of(measured, topology, request.description);
    if (bootstrap.rank() == 0) {
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      log::info("calibration: {} calls measured in {:.0f} ms", measured.size(), took.count());
      store.keep(request.description, topology, text);
    }
  }
  return rules_of(text, topology);
}

}  // namespace plait
