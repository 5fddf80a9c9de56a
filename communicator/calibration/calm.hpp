// Whether the machine is calm enough that times mean something.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_times.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// What ranks of the host target have seen of their machine.
struct MachineFacts {
  int ranks = 1;
  double turns = 1;  // ranks per processor
  /// The part of the time for which a thread that could run had no processor: the greatest of a
  /// rank. None: the system does not tell.
  std::optional<double> waited{};
  double least_pulse_us = 0, middle_pulse_us = 0;  // of a small call
};
/// Empty if it is calm, or the reason why not, for a log. `asked`: the user has named the
/// calibration, so ranks that share processors always will, and are no reason.
std::string why_not_calm(const MachineFacts& facts, bool asked);

/// Looks at the machine while the ranks of a communicator measure. On GPUs it sees nothing, because
/// graphs don't need the processors. All functions are collective, with equal results on all ranks.
class MachineWatch {
 public:
  explicit MachineWatch(Communicator& comm);

  /// Microseconds of a small call now (`MeasuringPlan::pulse`).
  double pulse();
  /// Some pulses, which take 20 ms, before anything is measured.
  void look();
  /// All that was seen so far.
  std::string why_not(bool asked) const;

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

/// False: every machine is calm. Tests say so, because they run on busy machines.
inline bool looks_at_machine = true;

/// `measure_algorithms` for the calibration. Empty, with a line in rank 0's log, if the machine is
/// not calm before or meanwhile. In the latter case the process does not try again by itself.
std::vector<MeasuredCall> measure_on_calm_machine(Communicator& comm, const Topology& topology,
                                                  const std::string& machine, bool asked);

}  // namespace plait
