// The results for programs: JSON and CSV files, and what an earlier run has left there. Only its
// source file compiles nlohmann-json.
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// Says which measurement it is: the name, the call, the placement, the memory and the timing.
std::string key_of(const Result& result);

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

/// Writes a whole file. A regular file is replaced at once by FILE.part, so whenever the program
/// ends, the file has all of the old text or all of the new one. Throws Error(invalid_argument) if
/// it can't be opened, Error(backend) if it can't be written to its end.
void write_text(const std::string& path, const std::string& text);
/// Writes `{"machine": {...}, "results": [...]}`. Throws like write_text.
void write_json(const std::string& path, const Machine& machine,
                const std::vector<Result>& results);
/// What --creation prints: the ranks, and the times in microseconds, as JSON.
std::string creations_text(const Bootstrap& world, const std::string& command_line,
                           const std::vector<double>& times);
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
