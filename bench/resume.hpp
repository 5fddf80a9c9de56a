// A run that goes on where an earlier one stopped: results that its JSON file already has.
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// The text of the file. Empty if there is none, or if it is empty, as the run leaves it that ends
/// before its first result. Throws Error(invalid_argument) if it is no regular file, or can't be
/// read.
std::string read_earlier(const std::string& path);

/// The results in `text`, the file of the name `path`. They are among the `planned` ones, which
/// have no times yet. Throws Error(invalid_argument) with one sentence if the text is no whole file
/// of `plait-bench --json`, if it was measured on another machine, by another version or with other
/// settings, or if it has results that are not planned.
std::vector<Result> take_over(const std::string& text, const std::string& path,
                              const Machine& machine, const std::vector<Result>& planned);

}  // namespace plait::bench
