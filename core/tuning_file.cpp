#include "core/tuning_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// For which communicators rules are.
struct Audience {
  int ranks = 0;             // 0: any number
  std::string architecture;  // empty: any
  bool has(const Topology& topology) const {
    return (ranks == 0 || ranks == topology.ranks) && (architecture.empty() || architecture == topology.architecture);
  }
};

Audience parse_audience(const std::string& line, const std::string& source) {
  static const std::regex form(R"(\s*\[\s*([1-9][0-9]{0,5})\s+ranks?(\s+on\s+([^\s\]]+))?\s*\]\s*)");
  std::smatch parts;
  if (!std::regex_match(line, parts, form))
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: in \"{}\": not of the form [4 ranks] or [4 ranks on sm_90]", source, line));
  return {.ranks = std::stoi(parts[1]), .architecture = parts[3]};
}

}  // namespace

std::optional<TuningFile> load_tuning_file() {
  const auto path = environment(tuning_variable);
  if (!path) return std::nullopt;
  std::ifstream file(*path);
  std::ostringstream text;
  if (file) text << file.rdbuf();  // fails if there is nothing to read
  if (!file || text.str().empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}=\"{}\": {}", tuning_variable, *path, file ? "the file is empty" : std::strerror(errno)));
  return TuningFile{*path, text.str()};
}

RuleList tuning_rules(const TuningFile& file, const Topology& topology) {
  const std::string source = fmt::format("{}=\"{}\"", tuning_variable, file.path);
  RuleList all;
  Audience audience;
  std::string rules;
  const auto end_part = [&] {
    RuleList part(rules, source);
    if (audience.has(topology)) all.append(std::move(part));
    rules.clear();
  };
  std::istringstream lines(file.text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto comment = line.find('#'); comment != std::string::npos) line.erase(comment);
    if (line.find('[') == std::string::npos) {
      rules += line + ';';
      continue;
    }
    end_part();
    audience = parse_audience(line, source);
  }
  end_part();
  return all;
}

}  // namespace plait
