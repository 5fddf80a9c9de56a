// What plait-tune does: it times the algorithms, or checks the choice that follows from the times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/memory.hpp"
#include "bench/progress.hpp"
#include "bench/tune/options.hpp"
#include "communicator/calibration/measure.hpp"
#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

class Tuner {
 public:
  /// Creates the communicator of these ranks, and the buffers. Collective. Throws
  /// Error(unsupported) on all ranks for a single rank, and for ranks on several nodes.
  Tuner(std::unique_ptr<Bootstrap> world, const TuneOptions& options);
  /// Times the algorithms, and writes the file. Returns the number of candidates whose results were
  /// wrong. Collective.
  std::size_t tune();
  /// Prints how much longer the library's choice takes than the fastest algorithm. Collective.
  std::size_t check();

 private:
  MeasuringPlan make_plan(std::vector<std::size_t> sizes);
  std::vector<MeasuredCall> measure(const MeasuringPlan& plan);
  /// Microseconds of a small call.
  double pulse();
  void print_pulse() const;
  bool is_right(const Call& call, bool in_place, const Algorithm& algorithm, LaunchShape shape);
  void write(const std::vector<MeasuredCall>& measured) const;
  bool speaks() const { return comm_.rank() == 0; }

  const TuneOptions options_;
  Communicator comm_;
  Stream stream_;
  std::optional<Arena> symmetric_, ordinary_;
  std::optional<ProgressLine> progress_;  // while rank 0 measures
  std::size_t wrong_ = 0;
  double done_ = 0;
  double least_pulse_ = std::numeric_limits<double>::infinity();
  std::uint32_t seed_ = 0;
};

}  // namespace plait::bench
