#include "bench/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "plait/version.hpp"

namespace plait::bench {
namespace {

CLI::Option* add(CLI::App& app, const Flag& flag) {
  return std::visit(
      [&](auto* value) {
        using Value = std::remove_reference_t<decltype(*value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return app.add_flag(flag.names, *value, flag.help);
        } else {
          CLI::Option* const option = app.add_option(flag.names, *value, flag.help);
          if constexpr (std::is_arithmetic_v<Value>) {
            using Bound = std::conditional_t<std::is_integral_v<Value>, std::int64_t, double>;
            if (flag.range)
              option->check(CLI::Range(static_cast<Bound>(flag.range->first),
                                       static_cast<Bound>(flag.range->second)));
          }
          return option;
        }
      },
      flag.value);
}

}  // namespace

void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, printable(sentence));
}

std::optional<std::size_t> bytes(const char* flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto value = parse_bytes(text);
  if (!value || *value == 0)
    refuse(fmt::format("{} {}: expected a number of bytes such as 65536, 64K, 16M or 1G", flag,
                       in_quotes(text)));
  return value;
}

std::string parse(const CommandLine& line, std::vector<std::string> words) {
  CLI::App app(line.about, line.program);
  app.option_defaults()->take_last();  // a script appends flags to those of its user
  std::vector<CLI::Option*> options;
  for (const Flag& flag : line.flags) options.push_back(add(app, flag));
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (!line.flags[i].needs.empty()) options[i]->needs(app.get_option(line.flags[i].needs));
    for (const std::string& other : line.flags[i].excludes)
      options[i]->excludes(app.get_option(other));
  }
  app.set_version_flag("--version", "plait " PLAIT_VERSION);
  app.footer(line.footer);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return fmt::format("{}\n", version.what());
  } catch (const CLI::ExtrasError&) {  // its text has the words in reverse order
    refuse(fmt::format("not expected: {}", fmt::join(app.remaining(), " ")));
  } catch (const CLI::ParseError& error) {
    std::string sentence = error.what();
    std::replace(sentence.begin(), sentence.end(), '\n', ' ');
    refuse(sentence);
  }
  return {};
}

std::string joined(int argc, char** argv) {
  return fmt::format("{}", fmt::join(argv, argv + argc, " "));
}

}  // namespace plait::bench
