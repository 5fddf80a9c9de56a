// The results as programs read them.
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// `{"machine": {...}, "results": [...]}`. Throws Error(invalid_argument) if the file can't be written.
void write_json(const std::string& path, const Machine& machine, const std::vector<Result>& results);
/// One line a result, the first with the names of the columns: the keys of the JSON results.
void write_csv(const std::string& path, const std::vector<Result>& results);
/// Makes sure, before hours of measuring, that both can be written.
void check_writable(const std::string& path);

}  // namespace plait::bench
