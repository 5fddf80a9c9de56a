// The results for programs: JSON and CSV files.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// The facts about the machine as the JSON file has them.
nlohmann::ordered_json to_json(const Machine& machine);
/// Says which measurement it is, equally for a result and for its JSON: the name, the call, the
/// placement, the memory and the timing.
std::string key_of(const Result& result);
std::string key_of(const nlohmann::ordered_json& result);

/// Writes a whole file. A regular file is replaced at once by FILE.part, so whenever the program
/// ends, the file has all of the old text or all of the new one. Throws Error(invalid_argument) if
/// it can't be opened, Error(backend) if it can't be written to its end.
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
