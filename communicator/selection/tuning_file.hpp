// A file of rules for the selection, as `plait-bench --tuning` measures them on a machine.
#pragma once
#include <optional>
#include <string>

#include "communicator/selection/selection.hpp"

namespace plait {

/// Names the file.
inline constexpr const char* tuning_variable = "PLAIT_TUNING";

struct TuningFile {
  std::string path, text;
};

/// The file that PLAIT_TUNING names; none if that is not set. Throws Error(invalid_argument) if the
/// file can't be read or is empty.
std::optional<TuningFile> load_tuning_file();

/// The rules of a file that hold for a communicator with this topology. The text has rules in the
/// grammar of RuleList, separated by `;` or line ends; a `#` begins a comment. A line `[4 ranks on
/// sm_90]`, or `[4 ranks]` for any architecture, restricts the rules below it, up to the next such
/// line, to such communicators. Rules above the first such line hold for all. Throws an error that
/// names the file for anything malformed or unknown, also in sections for other communicators.
RuleList tuning_rules(const TuningFile& file, const Topology& topology);

}  // namespace plait
