// Rules for machines that the built-in table does not know: measured once, then kept in a file.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_rules.hpp"
#include "communicator/selection/selection.hpp"
#include "plait/bootstrap.hpp"

namespace plait {

/// PLAIT_CALIBRATE: 0, 1 (the default) or `again`.
enum class Calibration { off, on, again };
Calibration calibration_wish();
std::string_view name_of(Calibration wish);

/// One line that differs for machines, and for communicators on one machine, on which other
/// algorithms may be the fastest.
std::string describe_for_calibration(const DeviceInfo& device, const Topology& topology);

/// Rules for a communicator with this topology. Those that rank 0 has, from a measurement of its
/// process or the file of one; if it has none, or with `again`, those from `measure`, which rank 0
/// then keeps. `measure` may be null: nothing is measured. Collective, and the result is the same
/// on all ranks. `description`: as above; only rank 0's counts.
RuleList calibrated_rules(Bootstrap& bootstrap, const Topology& topology,
                          const std::string& description, Calibration wish,
                          const std::function<std::vector<MeasuredCall>()>& measure);

}  // namespace plait
