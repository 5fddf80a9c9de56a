#include "core/log.hpp"

#include <unistd.h>

#include <array>
#include <string>

#include "core/environment.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::log {
namespace {

constexpr std::array<std::string_view, 5> names = {"off", "error", "warn", "info", "debug"};

Level read_level() {
  const auto value = environment("PLAIT_LOG");
  if (!value) return Level::warn;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == *value) return static_cast<Level>(i);
  throw Error(ErrorCode::invalid_argument, fmt::format("PLAIT_LOG={}: expected one of {}", in_quotes(*value), fmt::join(names, ", ")));
}

}  // namespace

Level level() {
  static const Level value = read_level();
  return value;
}

void write(Level level, std::string_view text) {
  const std::string line = fmt::format("plait {}: {}\n", names[static_cast<std::size_t>(level)], text);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace plait::log
