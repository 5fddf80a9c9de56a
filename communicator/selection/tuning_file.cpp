#include "communicator/selection/tuning_file.hpp"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

std::string source_of(const std::string& path) {
  return fmt::format("{}={}", tuning_variable, in_quotes(path));
}

/// The communicators for which the rules of a section hold.
struct Audience {
  struct Numbers {
    int least = 0, most = std::numeric_limits<int>::max();
    bool have(int number) const { return least <= number && number <= most; }
  };
  Numbers ranks{}, nodes{};
  std::string device{};  // architecture or target; empty: any
  bool has(const Topology& topology) const {
    return ranks.have(topology.ranks) && nodes.have(topology.nodes) &&
           (device.empty() || device == topology.architecture ||
            device == name_of(topology.backend));
  }
};

std::optional<int> parse_count(std::string_view text) {
  const auto number = parse_number<int>(text);
  const bool is_count = number && *number >= 1 && *number <= 999'999 && text.front() != '0';
  return is_count ? number : std::nullopt;
}

/// `line` contains a '['. The words between the brackets are: NUMBERS "ranks" ["on" DEVICE], for
/// ranks on one node, or NUMBERS "nodes" ["on" DEVICE], where NUMBERS is NUMBER ["or" "more"] or
/// NUMBER "to" NUMBER.
Audience parse_audience(std::string_view line, const std::string& source) {
  const std::string_view part = trim(line);
  const std::string_view inner = part.size() < 2 ? "" : part.substr(1, part.size() - 2);
  auto said = words(inner);
  const bool or_more = said.size() > 2 && said[1] == "or" && said[2] == "more",
             has_end = said.size() > 2 && said[1] == "to";
  const std::string end(has_end ? said[2] : "");
  if (or_more || has_end) said.erase(said.begin() + 1, said.begin() + 3);
  const bool has_form = part.front() == '[' && part.back() == ']' &&
                        inner.find_first_of("[]") == std::string_view::npos &&
                        (said.size() == 2 || (said.size() == 4 && said[2] == "on")) &&
                        (said[1] == "rank" || said[1] == "ranks" || said[1] == "nodes");
  const auto number = has_form ? parse_count(said[0]) : std::nullopt,
             most = has_end ? parse_count(end) : number;
  if (!number || !most || *most < *number)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: in {}: not of the form [4 ranks], [3 or more ranks], [4 ranks "
                            "on sm_90] or [2 to 8 nodes]",
                            source, in_quotes(part)));
  Audience::Numbers numbers{.least = *number};
  if (!or_more) numbers.most = *most;
  const std::string device(said.size() == 4 ? said[3] : "");
  if (said[1] == "nodes") return {.nodes = numbers, .device = device};
  return {.ranks = numbers, .nodes = {.least = 1, .most = 1}, .device = device};
}

}  // namespace

RuleList rules_for(const Topology& topology, std::string_view text, const std::string& source,
                   LeftOut left_out) {
  RuleList all;
  Audience audience;
  std::string rules;
  int line_number = 0, first_line = 1;
  const auto end_section = [&] {
    RuleList section(rules, source, left_out, first_line);
    if (audience.has(topology)) all.append(std::move(section));
    rules.clear();
  };
  for (const std::string_view line : lines_of(text)) {
    ++line_number;
    if (line.find('[') == std::string_view::npos) {
      rules.append(line) += ";\n";
      continue;
    }
    end_section();
    first_line = line_number + 1;
    audience = parse_audience(line, source);
  }
  end_section();
  return all;
}

std::optional<TuningFile> load_tuning_file() {
  const auto path = environment(tuning_variable);
  if (!path) return std::nullopt;
  TuningFile file{*path, read_user_file(*path, most_tuning_bytes, source_of(*path))};
  if (file.text.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the file is empty", source_of(*path)));
  return file;
}

std::string TuningFile::source() const { return source_of(path); }

RuleList tuning_rules(const TuningFile& file, const Topology& topology) {
  if (file.has_times()) return {};
  return rules_for(topology, file.text, file.source(), LeftOut::refused);
}

RuleList builtin_rules(const Topology& topology) {
  if (topology.backend != BackendKind::host && topology.nodes == 1 &&
      (!topology.peer_access || topology.ranks_per_device > 1))
    return {};
  return rules_for(topology, builtin_rules_text, "built-in table", rules_of_library);
}

}  // namespace plait
