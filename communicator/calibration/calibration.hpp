// Times for machines that the built-in table does not know: measured once, by `plait-tune` or while
// a communicator is created, then kept in a file.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/selection/measured_times.hpp"
#include "communicator/selection/tuning_file.hpp"
#include "plait/bootstrap.hpp"

namespace plait {

/// PLAIT_CALIBRATE: 0, 1 (the default) or `again`.
enum class Calibration { off, on, again };
Calibration calibration_wish();
std::string_view name_of(Calibration wish);

/// One line that differs for machines, and for communicators on one machine, on which other
/// algorithms may be the fastest: version, processors, ranks, devices, links, scratch memory,
/// plug-ins.
std::string describe_for_calibration(const DeviceInfo& device, const Topology& topology);

/// Throws Error(invalid_argument), which begins with `source` and says what differs, unless the
/// times were measured where `key` says.
void require_key(const MeasuredTimes& times, const std::string& key, std::string_view source);

/// Where `plait-tune` keeps its times, and the library looks for them. None without a cache.
std::optional<std::string> tuned_path(const Topology& topology, const std::string& key);

/// The times that this user's processes have measured, as texts, each by its key. They lie in
/// files, too, one for each key.
class CalibrationStore {
 public:
  static CalibrationStore& of_process();
  /// The calibration. Empty: there is none. A file that is damaged, or has another key, is as good
  /// as none.
  std::string find(const std::string& key, const Topology& topology);
  /// Where no file can be written, the process alone keeps them.
  void keep(const std::string& key, const Topology& topology, const std::string& text);
  /// This process measures this machine only if it is asked to.
  void give_up(const std::string& machine);
  bool gave_up(const std::string& machine);
  /// The times of `plait-tune`, under the same conditions. It reads the file each time.
  std::string find_tuned(const std::string& key, const Topology& topology);

 private:
  std::string read(const std::string& path, const std::string& key);

  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
  std::set<std::string> useless_;   // files of which there was a warning
  std::set<std::string> given_up_;  // machines
};

/// What a rank asks for. Only rank 0's counts, so ranks may differ.
struct CalibrationRequest {
  std::string machine;  // `describe_for_calibration`
  // `any`: measures all algorithms. Others measure fewer, so their calibrations have other keys.
  SumOrder order = SumOrder::any;
  Calibration wish = Calibration::on;
  bool may_measure = true;
};

/// Both may be empty.
struct KeptTimes {
  MeasuredTimes tuned, calibration;
};

/// Times for a communicator with this topology, from rank 0's store. If the store has no
/// calibration, or with `again`, calls `measure`, and rank 0 keeps the result. Without
/// `may_measure` it never measures. Without `again` it does not measure either if there are times
/// of `plait-tune`, or if rank 0 can't write a file: then every process would measure. Collective,
/// and the result is the same on all ranks.
KeptTimes kept_times(Bootstrap& bootstrap, const Topology& topology,
                     const CalibrationRequest& request,
                     const std::function<std::vector<MeasuredCall>()>& measure,
                     CalibrationStore& store = CalibrationStore::of_process());

/// The times in the file of PLAIT_TUNING, which all ranks have read. Throws Error(invalid_argument)
/// on all ranks if the file is broken, or its key is not rank 0's `key`. Collective.
MeasuredTimes times_of(const TuningFile& file, Bootstrap& bootstrap, const std::string& key);

}  // namespace plait
