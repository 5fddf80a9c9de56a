// The results for programs: JSON and CSV files.
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// Writes a whole file. Throws Error(invalid_argument) if it can't be opened, Error(backend) if it
/// can't be written to its end.
void write_text(const std::string& path, const std::string& text);
/// Writes `{"machine": {...}, "results": [...]}`. Throws like write_text.
void write_json(const std::string& path, const Machine& machine,
                const std::vector<Result>& results);
/// Writes a line with the names of the columns, the keys of the JSON results, and then one line per
/// result. Throws like write_text.
void write_csv(const std::string& path, const Machine& machine, const std::vector<Result>& results);
/// Writes the page that shows the results: report_template() with them inside. Throws like
/// write_text.
void write_report(const std::string& path, const Machine& machine,
                  const std::vector<Result>& results);
/// Checks that the file can be opened, before hours of measuring. Throws like write_text.
void check_writable(const std::string& path);

}  // namespace plait::bench
