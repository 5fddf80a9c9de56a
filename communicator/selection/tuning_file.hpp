// A file of rules for the selection: what was measured on a machine (`plait-bench --tuning`).
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

/// The file that PLAIT_TUNING names, if it does. Throws Error(invalid_argument) if it can't be
/// read.
std::optional<TuningFile> load_tuning_file();

/// The rules of a file that hold for such a communicator. The text is rules in the grammar of
/// RuleList, separated by `;` or ends of lines; what follows a `#` is a comment. A line `[4 ranks
/// on sm_90]`, or `[4 ranks]` for any architecture, says for which communicators the rules below it
/// are, up to the next such line; the rules above the first are for all. Throws Error that names
/// the file for anything that is malformed or unknown, also in parts for other communicators.
RuleList tuning_rules(const TuningFile& file, const Topology& topology);

}  // namespace plait
