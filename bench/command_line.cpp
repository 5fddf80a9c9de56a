#include "bench/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::bench {

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

std::string parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
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
