#include "communicator/selection/tuning_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "core/user_file.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

// Many times the size of a file that plait-bench writes.
constexpr std::size_t most_bytes = std::size_t{1} << 20;
// Editors on Windows begin a file with it.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

std::string source_of(const std::string& path) {
  return fmt::format("{}={}", tuning_variable, in_quotes(path));
}

/// The communicators for which the rules of a section hold.
struct Audience {
  int ranks = 0;             // 0: any number
  std::string architecture;  // empty: any
  bool has(const Topology& topology) const {
    return (ranks == 0 || ranks == topology.ranks) &&
           (architecture.empty() || architecture == topology.architecture);
  }
};

std::optional<int> parse_ranks(std::string_view text) {
  int ranks = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (status != std::errc{} || end != text.data() + text.size() || ranks < 1 || ranks > 999'999 ||
      text.front() == '0')
    return std::nullopt;
  return ranks;
}

/// `line` contains a '['.
Audience parse_audience(std::string_view line, const std::string& source) {
  const std::string_view part = trim(line);
  const std::string_view inner = part.size() < 2 ? "" : part.substr(1, part.size() - 2);
  const auto said = words(inner);
  const bool has_form = part.front() == '[' && part.back() == ']' &&
                        inner.find_first_of("[]") == std::string_view::npos &&
                        (said.size() == 2 || (said.size() == 4 && said[2] == "on")) &&
                        (said[1] == "rank" || said[1] == "ranks");
  const auto ranks = has_form ? parse_ranks(said[0]) : std::nullopt;
  if (!ranks)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: in {}: not of the form [4 ranks] or [4 ranks on sm_90]", source,
                            in_quotes(part)));
  return {.ranks = *ranks, .architecture = std::string(said.size() == 4 ? said[3] : "")};
}

}  // namespace

std::optional<TuningFile> load_tuning_file() {
  const auto path = environment(tuning_variable);
  if (!path) return std::nullopt;
  TuningFile file{*path, read_user_file(*path, most_bytes, source_of(*path))};
  if (file.text.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the file is empty", source_of(*path)));
  return file;
}

RuleList tuning_rules(const TuningFile& file, const Topology& topology) {
  const std::string source = source_of(file.path);
  RuleList all;
  Audience audience;
  std::string rules;
  const auto end_part = [&] {
    RuleList part(rules, source);
    if (audience.has(topology)) all.append(std::move(part));
    rules.clear();
  };
  std::string_view text = file.text;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (const std::string_view whole : split(text, '\n')) {
    const std::string_view line = whole.substr(0, whole.find('#'));  // without the comment
    if (line.find('[') == std::string_view::npos) {
      rules.append(line) += ';';
      continue;
    }
    end_part();
    audience = parse_audience(line, source);
  }
  end_part();
  return all;
}

}  // namespace plait
