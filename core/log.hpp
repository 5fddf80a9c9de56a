// The log: lines on standard error. PLAIT_LOG sets the level: off, error, warn (the default), info
// or debug. The word `select`, alone or after a comma, adds a line for each choice of an algorithm,
// whatever the level.
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace plait::log {

enum class Level { off, error, warn, info, debug };

/// The level of this process: PLAIT_LOG, read once, or what it was raised to if that is more.
/// Throws Error(invalid_argument) for an unknown name.
Level level();
/// Whether PLAIT_LOG asks for choices of algorithms. Throws like `level`.
bool says_choices();
/// Raises the level to `least`, if it is lower. For interfaces that have their own variable for the
/// log.
void raise(Level least) noexcept;
/// Writes one line "plait warn: ..." in one system call, so the lines of ranks don't mix.
void write(Level level, std::string_view text);
/// The same with "plait select: ...".
void say_choice(std::string_view text);

template <class... Args>
void at(Level wanted, fmt::format_string<Args...> format, Args&&... args) {
  if (wanted <= level()) write(wanted, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::error, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::warn, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::debug, format, std::forward<Args>(args)...);
}

}  // namespace plait::log
