#include "communicator/calibration/calm_machine.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "backends/host/processes.hpp"
#include "communicator/calibration/calibration.hpp"
#include "communicator/calibration/measure.hpp"
#include "core/log.hpp"
#include "core/standard_fds.hpp"
#include "symm_mem/window.hpp"

namespace plait {
namespace {

/// A rank that shares its processor with one other busy thread has none for half of the time. The
/// services of an idle system take far less.
constexpr double much = 0.15;
/// If the median pulse is this many times the least, calls were disturbed most of the time. The
/// slow state of a virtual machine's processors has four times the least (measure.cpp).
constexpr double far = 6;
constexpr double look_us = 20e3;
constexpr int calls_of_pulse = 20;

/// The time for which threads of this process could run but had no processor.
std::optional<double> waited_us() {
  const StandardFdsTaken taken;
  double nanoseconds = 0;
  bool told = false;
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0, waited = 0;
    if (!(file >> ran >> waited)) continue;  // the thread has ended
    nanoseconds += waited;
    told = true;
  }
  if (failed || !told) return std::nullopt;
  return nanoseconds / 1e3;
}

}  // namespace

std::string why_not_calm(const MachineFacts& facts, bool asked) {
  if (facts.turns > 1)
    return asked ? ""
                 : fmt::format("{} ranks share {:.0f} processors", facts.ranks,
                               facts.ranks / facts.turns);
  if (facts.waited.value_or(0) > much)
    return fmt::format(
        "the machine is busy: a rank waited for a processor for {:.0f} % of the time",
        100 * *facts.waited);
  if (facts.middle_pulse_us > far * facts.least_pulse_us)
    return fmt::format(
        "the machine is busy: a small call took {:.1f} us at best, and {:.1f} us half of the time",
        facts.least_pulse_us, facts.middle_pulse_us);
  return {};
}

namespace {

/// Looks at the machine while the ranks of a communicator measure. On GPUs it sees nothing, because
/// graphs don't need the processors. All functions are collective, with equal results on all ranks.
class MachineWatch {
 public:
  explicit MachineWatch(Communicator& comm)
      : comm_(comm), stream_(comm.create_stream()), waited_before_us_(waited_us()) {
    if (!is_host()) return;
    window_ = comm_.allocate_bytes(2 * sizeof(float));
    const auto all = comm_.bootstrap().all_gather(host::process_facts());
    turns_ = host::turns_of(all, 1);
    ranks_here_ = static_cast<int>(std::count_if(
        all.begin(), all.end(), [](const auto& facts) { return facts.process == getpid(); }));
  }

  /// Microseconds of a small call now (`MeasuringPlan::pulse`).
  double pulse() {
    if (!is_host()) return 0;
    const auto start = Clock::now();
    std::byte* const memory = window_->local();
    for (int i = 0; i < calls_of_pulse; ++i) {
      comm_.all_reduce(memory, memory + sizeof(float), 1, DataType::f32, ReduceOp::sum, stream_);
      comm_.synchronize(stream_);
    }
    const std::chrono::duration<double, std::micro> own = Clock::now() - start;
    const auto all = comm_.bootstrap().all_gather(own.count() / calls_of_pulse);
    pulses_.push_back(*std::max_element(all.begin(), all.end()));
    return pulses_.back();
  }
  /// Some pulses, which take 20 ms, before anything is measured.
  void look() {
    for (bool ends = !is_host() || !looks_at_machine; !ends;) {
      pulse();
      ends = comm_.bootstrap().broadcast(
          Clock::now() - start_ > std::chrono::duration<double, std::micro>(look_us), 0);
    }
  }
  /// All that was seen so far.
  std::string why_not(bool asked) const {
    if (!is_host() || !looks_at_machine) return {};
    const std::chrono::duration<double, std::micro> passed = Clock::now() - start_;
    const auto now = waited_us();
    const double own = now && waited_before_us_
                           ? std::max(*now - *waited_before_us_, 0.0) / passed.count() / ranks_here_
                           : -1;
    const auto all = comm_.bootstrap().all_gather(own);
    const double most = *std::max_element(all.begin(), all.end());
    MachineFacts facts{.ranks = comm_.size(), .turns = turns_};
    if (most >= 0) facts.waited = most;
    if (!pulses_.empty()) {
      std::vector<double> sorted = pulses_;
      std::sort(sorted.begin(), sorted.end());
      facts.least_pulse_us = sorted.front();
      facts.middle_pulse_us = sorted[sorted.size() / 2];
    }
    return why_not_calm(facts, asked);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_host() const { return comm_.backend_kind() == BackendKind::host; }

  Communicator& comm_;
  Stream stream_;
  std::shared_ptr<Window> window_;
  double turns_ = 1;
  int ranks_here_ = 1;  // in this process
  const Clock::time_point start_ = Clock::now();
  const std::optional<double> waited_before_us_;
  std::vector<double> pulses_;
};

}  // namespace

std::vector<MeasuredCall> measure_on_calm_machine(Communicator& comm, const Topology& topology,
                                                  const std::string& machine, bool asked) {
  MachineWatch watch(comm);
  watch.look();
  const bool speaks = comm.rank() == 0;
  if (const std::string why_not = watch.why_not(asked); !why_not.empty()) {
    if (speaks)
      log::at(asked ? log::Level::warn : log::Level::info, "calibration: not measured: {}",
              why_not);
    return {};
  }
  MeasuringPlan plan = MeasuringPlan::of_calibration(topology.backend);
  if (topology.backend == BackendKind::host && looks_at_machine)
    plan.pulse = [&] { return watch.pulse(); };
  std::vector<MeasuredCall> calls = measure_algorithms(comm, topology, plan);
  const std::string why_not = watch.why_not(asked);
  if (why_not.empty()) return calls;
  if (speaks) {
    CalibrationStore::of_process().give_up(machine);
    log::warn("calibration: its times are thrown away: {}. PLAIT_CALIBRATE=again measures again",
              why_not);
  }
  return {};
}

}  // namespace plait
