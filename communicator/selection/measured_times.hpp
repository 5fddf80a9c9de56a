// Times that were measured on a machine, and what they say of sizes between the measured ones.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plait/call.hpp"

namespace plait {

/// Kinds of calls that rules and measured times tell apart, as bits: calls in place in symmetric
/// memory, other calls in symmetric memory, and calls in ordinary memory. The last are one kind,
/// because there some ranks may be in place and others not.
enum Where : unsigned { in_place = 1, out_of_place = 2, ordinary = 4, anywhere = 7 };
constexpr Where where_is(const Call& call) {
  if (!call.symmetric) return Where::ordinary;
  return call.in_place ? Where::in_place : Where::out_of_place;
}

/// The time that one algorithm with one launch shape took for a call.
struct MeasuredCall {
  Call call;
  std::string algorithm;
  double microseconds = 0;
  unsigned shape = 0;  // its number in Algorithm::shapes
};

/// The times of algorithms by collective, type, kind of memory and place, and size.
///
/// As a text (docs/tuning.md):
///
///     plait-times 1
///     for plait 0.1.0, AMD EPYC ...       the machine and the communicator: `key`
///     all_reduce f32 in:                  collective, type, place; the curves below are of these
///     ring 1K=3.25 4K=5.1@2               bytes=microseconds, @ the number of the launch shape
///     end
///
/// A `#` begins a comment. Sizes ascend. The last line is `end`, so a file that was cut off is
/// recognised.
class MeasuredTimes {
 public:
  MeasuredTimes() = default;
  /// If calls differ only in their shape, the fastest counts.
  MeasuredTimes(std::string key, std::span<const MeasuredCall> calls);
  /// Throws Error(invalid_argument), which begins with `source` and names the line, for anything
  /// that `text` would not write. Algorithms that this build does not have are passed over.
  MeasuredTimes(std::string_view text, std::string_view source);
  /// Whether a text says that it has times, right or wrong ones.
  static bool are_in(std::string_view text);

  /// What was measured, as `describe_for_calibration` says it. One line.
  const std::string& key() const noexcept { return key_; }
  std::string text() const;
  bool empty() const noexcept { return sections_.empty(); }

  struct Time {
    double microseconds;
    unsigned shape;  // of the measured size that is nearest on a logarithmic scale
    bool extended;   // the size is less or greater than all measured ones
  };
  /// The time of an algorithm for a call. Between two sizes at which it was measured, times follow
  /// a straight line, with both axes logarithmic. Below the least size of the section a call takes
  /// as long as at that size, and above the greatest its time grows as its bytes: so the algorithms
  /// keep their order. None for an algorithm that was not measured there. Calls of a type that was
  /// not measured take the times of another of equal size, or else of the first in the section's
  /// order.
  std::optional<Time> find(std::string_view algorithm, const Call& call) const;

 private:
  struct Point {
    std::size_t bytes;
    double microseconds;
    unsigned shape;
  };
  using Curve = std::vector<Point>;  // in ascending order of bytes
  struct Section {
    Collective collective;
    DataType type;
    Where where;
    std::map<std::string, Curve, std::less<>> curves;
    std::size_t least = 0, most = 0;
  };
  class Parser;

  const Section* section_of(const Call& call) const;
  Section& section(Collective collective, DataType type, Where where);
  void set_ranges();

  std::string key_;
  std::vector<Section> sections_;
};

}  // namespace plait
