// What is measured, and how thoroughly.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "plait/call.hpp"

namespace plait {

/// Calls of one collective, type, kind of memory and place (`where_is`), which are measured as a
/// whole. In ordinary memory, and with a root, calls in place and others are one kind; their time
/// is the geometric mean of both.
struct MeasuredKind {
  Call call;                     // open: the count
  std::vector<bool> placements;  // whether in place
};

/// What is measured, and how thoroughly. The defaults are those of the calibration.
struct MeasuringPlan {
  std::vector<Collective> collectives;  // none: all
  std::vector<DataType> types;          // none: bf16 on GPUs, f32 on the host
  bool symmetric = true, ordinary = true;
  std::vector<std::size_t> sizes;  // in bytes of the larger buffer, ascending
  /// How often the range between two sizes is halved where the fastest algorithm may change.
  int halvings = 1;
  bool all_shapes = false;  // of algorithms that are nearly the fastest; else the first shape alone
  int repeats = 4;          // of each time; the least counts. Fewer if there is no time for more
  int finals = 0;           // so many repeats more of those that are nearly the fastest
  double repeat_us = 0;     // about the length of a repeat
  double limit_us = 0;      // the time for everything
  /// How long a small call takes now, in microseconds, the same on all ranks. Collective. Where it
  /// is far above its least, the machine is in a slow state: measuring waits for the end of that,
  /// in all for `patience_us` at most, and times again what it has timed meanwhile. Null: not
  /// looked at.
  std::function<double()> pulse;
  double patience_us = 0;
  /// Two buffers per kind of memory, each at least as long as the greatest size. Null: they are
  /// allocated.
  struct Buffers {
    std::byte *send = nullptr, *recv = nullptr;
  };
  Buffers symmetric_buffers, ordinary_buffers;
  /// Makes the call once, by this algorithm in this shape, and says whether the result is right.
  /// Collective. A wrong candidate is not in the result, at any size of its kind.
  std::function<bool(const Call& call, bool in_place, const Algorithm& algorithm,
                     LaunchShape shape)>
      is_right;
  /// After each size, with the fraction of the work that is done. Called on all ranks.
  std::function<void(const MeasuredKind& kind, std::size_t bytes, double done)> progress;

  /// From 512 B to 32 MB on GPUs and from 128 B to 2 MB on the host, each four times the one
  /// before.
  static MeasuringPlan of_calibration(BackendKind backend);
};

/// The kinds of calls of a plan. Not the barrier, which has no size.
std::vector<MeasuredKind> kinds_of(const MeasuringPlan& plan, const Topology& topology);

/// The limit of a calibration. Tests set it, for machines that are busy.
inline double measuring_limit_us = 3e6;

}  // namespace plait
