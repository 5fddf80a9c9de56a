// Splits the text that users write in environment variables, files and flags, and makes it fit to
// show in errors.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plait {

/// Characters that separate words. Carriage return is one, so lines may end as on Windows.
inline constexpr std::string_view blanks = " \t\r\n\v\f";

/// `text` without the blanks at both ends.
std::string_view trim(std::string_view text);
/// The parts between the separators: one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);
/// The parts between blanks.
std::vector<std::string_view> words(std::string_view text);
/// The lines of a file, each without the comment that a # begins, and without blanks at both ends.
std::vector<std::string_view> lines_of(std::string_view text);
/// The number that the text is as a whole, whatever the locale; none if it is something else.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Shows control characters, characters without width, and bytes that are not UTF-8 as escapes such
/// as \r, \x01 or \u200b, so a terminal can show the text and a reader can see all of it. Errors
/// and warnings must pass user text through this or `in_quotes`.
std::string printable(std::string_view text);
/// The same in quotes; quotes and backslashes inside are escaped. A text of more than 200 bytes is
/// cut to its beginning and its end, with "..." between them.
std::string in_quotes(std::string_view text);

/// The system's words for an `errno`.
std::string system_text(int error);

/// The text at a fixed size, so that ranks can exchange it. `Text` is an array of characters; the
/// last one stays zero. A longer text is cut.
template <class Text>
Text as_text(std::string_view whole) {
  Text text{};
  whole.copy(text.data(), text.size() - 1);
  return text;
}

}  // namespace plait
