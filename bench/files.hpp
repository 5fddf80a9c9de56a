// The results as programs read them.
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// All of a file at once. Throws Error(invalid_argument) if the file can't be opened,
/// Error(backend) if it can't be written to its end.
void write_text(const std::string& path, const std::string& text);
/// `{"machine": {...}, "results": [...]}`. Throws like write_text.
void write_json(const std::string& path, const Machine& machine,
                const std::vector<Result>& results);
/// One line a result, the first with the names of the columns: the keys of the JSON results. Throws
/// like write_text.
void write_csv(const std::string& path, const std::vector<Result>& results);
/// Makes sure, before hours of measuring, that the file can be opened.
void check_writable(const std::string& path);

}  // namespace plait::bench
