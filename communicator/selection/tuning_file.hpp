// A file for the selection: rules that a user has written, or times that `plait-tune` has measured.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "communicator/selection/rules.hpp"

namespace plait {

/// Names the file.
inline constexpr const char* tuning_variable = "PLAIT_TUNING";

/// Many times the size of a file that plait-tune writes.
inline constexpr std::size_t most_tuning_bytes = std::size_t{1} << 20;

struct TuningFile {
  std::string path, text;
  /// Names the file in errors.
  std::string source() const;
  /// Whether it has times, for one kind of communicator (`MeasuredTimes`), instead of rules.
  bool has_times() const { return MeasuredTimes::are_in(text); }
};

/// The file that PLAIT_TUNING names; none if that is not set. Throws Error(invalid_argument) if the
/// file can't be read or is empty.
std::optional<TuningFile> load_tuning_file();

/// The rules of a text that hold for a communicator with this topology, in the format of a tuning
/// file. Errors begin with `source`.
RuleList rules_for(const Topology& topology, std::string_view text, const std::string& source,
                   LeftOut left_out);

/// The rules of a file that hold for a communicator with this topology; none if the file has times.
/// The text has rules in the grammar of RuleList, separated by `;` or line ends; a `#` begins a
/// comment. A line in brackets restricts the rules below it, up to the next such line: `[4 ranks]`,
/// `[3 or more ranks]`, and with an architecture or a target, `[4 ranks on sm_90]`, `[2 ranks on
/// host]`. These are for ranks on one node; `[2 to 8 nodes]` is for any ranks on so many. Rules
/// above the first such line hold for all. Throws an error that names the file for anything
/// malformed or unknown, also in sections for other communicators.
RuleList tuning_rules(const TuningFile& file, const Topology& topology);

/// The text of communicator/selection/builtin.rules.
extern const std::string_view builtin_rules_text;
/// The text of communicator/selection/builtin.factors.
extern const std::string_view builtin_factors_text;
/// Rules that were measured on this kind of machine; empty if there are none. Those for GPUs were
/// measured with peer access and a device for each rank, so they count only there.
RuleList builtin_rules(const Topology& topology);

}  // namespace plait
