// Text that users write: in environment variables, files and flags. How it is taken apart, and how
// errors show it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

/// What separates words. A carriage return is one, so lines may end as on Windows.
inline constexpr std::string_view blanks = " \t\r\n\v\f";

/// Without the blanks at both ends.
std::string_view trim(std::string_view text);
/// The parts between the separators: one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);
/// What stands between blanks.
std::vector<std::string_view> words(std::string_view text);

/// As a terminal can show it, and a reader can see it: characters that control or have no width,
/// and bytes that are no UTF-8, as escapes such as \r, \x01 or \u200b. Errors and warnings show no
/// user's text without.
std::string printable(std::string_view text);
/// Printable and in quotes; quotes and backslashes within are escaped. Of a text of more than 200
/// bytes the beginning and the end, with
/// "..." between them.
std::string in_quotes(std::string_view text);

}  // namespace plait
