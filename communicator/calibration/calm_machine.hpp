// Whether the machine is calm enough that times mean something.
#pragma once
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
  /// The share of the time for which a thread that could run had no processor: the largest of all
  /// ranks. None: the system does not tell.
  std::optional<double> waited{};
  double least_pulse_us = 0, middle_pulse_us = 0;  // of a small call
};
/// Why the machine is not calm, for a log; empty if it is. `asked`: the user has asked for the
/// calibration. Ranks that share processors are then no reason, because they always will.
std::string why_not_calm(const MachineFacts& facts, bool asked);

/// False: every machine is calm. Tests say so, because they run on busy machines.
inline bool looks_at_machine = true;

/// `measure_algorithms` for the calibration. Empty, with a line in rank 0's log, if the machine is
/// not calm before or meanwhile. In the latter case the process does not try again by itself.
std::vector<MeasuredCall> measure_on_calm_machine(Communicator& comm, const Topology& topology,
                                                  const std::string& machine, bool asked);

}  // namespace plait
