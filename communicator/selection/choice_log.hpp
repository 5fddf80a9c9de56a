// Lines about choices of algorithms, for PLAIT_LOG=select.
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "communicator/selection/selection.hpp"

namespace plait {

/// Writes a line for each distinct choice of one communicator. Choices are distinct if they differ
/// in what rules and kernels depend on (collective, type, operation, kind of memory, options, the
/// power of two below the size) or in the algorithm or rule, but not in the shape or the root. So a
/// program with thousands of sizes has some tens of lines. After `most_lines` there are no more.
/// One thread at a time may use it.
class ChoiceLog {
 public:
  static constexpr std::size_t most_lines = 1000;

  /// `selector` must live as long.
  ChoiceLog(const Selector& selector, int rank, int ranks)
      : selector_(selector), rank_(rank), ranks_(ranks) {}
  /// For a call by itself.
  void note(const Call& call, const CallOptions& options, const Choice& choice);
  /// For calls of a group that share a launch: `all` has their elements together.
  void note_batch(const Call& all, const Algorithm& algorithm);

 private:
  /// The collective, type, operation and kind of memory, size class, options, algorithm and rule.
  using Key = std::tuple<Collective, DataType, ReduceOp, Where, int, unsigned, unsigned,
                         std::string, const Algorithm*, std::string>;
  bool is_new(Key key);
  void write(std::string_view text) const;

  const Selector& selector_;
  int rank_, ranks_;
  std::set<Key> said_;
};

}  // namespace plait
