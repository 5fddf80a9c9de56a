// What a collective call is, as far as all ranks agree on it.
#pragma once
#include <cstddef>
#include <string>

#include "plait/types.hpp"

namespace plait {

/// The facts of a call that are equal on all ranks; algorithms are chosen from these alone.
struct Call {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;   ///< elements of the result a rank
  bool symmetric = false;  ///< both buffers lie in symmetric memory of the communicator, at the same offset on every rank
  bool in_place = false;   ///< symmetric, and send and recv are the same (of ordinary memory, ranks may differ in that)
  double scale = 1;        ///< premul_sum

  std::size_t bytes() const { return count * size_of(type); }
  friend bool operator==(const Call&, const Call&) = default;
};

/// Per-call wishes. The same on all ranks.
struct CallOptions {
  /// A name of the registry or of a policy; empty: chosen. `Error(invalid_argument)` if unknown, `Error(unsupported)` if it can't serve the
  /// call.
  std::string algorithm{};
  double scale = 1;      ///< factor of premul_sum
  unsigned blocks = 0;   ///< of the launch; 0: the algorithm's own choice
  unsigned threads = 0;  ///< a block; 0: the algorithm's own choice
};

}  // namespace plait
