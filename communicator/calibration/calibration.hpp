// Rules for machines that the built-in table does not know: measured once, then kept in a file.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
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
/// algorithms may be the fastest. `reproducible`: then fewer algorithms are measured.
std::string describe_for_calibration(const DeviceInfo& device, const Topology& topology,
                                     bool reproducible);

/// The rules that a process has measured or read, as texts, each by its description. They lie in
/// files, too, one for each description.
class CalibrationStore {
 public:
  static CalibrationStore& of_process();
  /// Empty: there are none. A file that is damaged, or has another description, is as good as none.
  std::string find(const std::string& description, const Topology& topology);
  /// Where no file can be written, the process alone keeps them.
  void keep(const std::string& description, const Topology& topology, const std::string& text);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

/// What a rank asks for. Only rank 0's counts, so ranks may differ.
struct CalibrationRequest {
  std::string description;  // `describe_for_calibration`
  Calibration wish = Calibration::on;
  bool may_measure = true;
};

/// Rules for a communicator with this topology. Those in rank 0's store; if there are none, or with
/// `again`, those from `measure`, which rank 0 then keeps. Nothing is measured unless
/// `may_measure`; nor, except with `again`, if rank 0 can't write a file, because then every
/// process would measure. Collective, and the result is the same on all ranks.
RuleList calibrated_rules(Bootstrap& bootstrap, const Topology& topology,
                          const CalibrationRequest& request,
                          const std::function<std::vector<MeasuredCall>()>& measure,
                          CalibrationStore& store = CalibrationStore::of_process());

}  // namespace plait
