#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace plait {
namespace {

/// A UTF-8 character, or a byte that belongs to none.
struct Character {
  std::string_view bytes;
  char32_t code;
  bool is_valid;
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0                ? 4
                                                           : 0;
  const Character wrong{text.substr(0, 1), lead, false};
  if (length == 0 || lead > 0xf4 || length > text.size()) return wrong;
  if (length == 1) return {text.substr(0, 1), lead, true};
  char32_t code = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return wrong;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<char32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return wrong;
  return {text.substr(0, length), code, true};
}

/// Control characters, blanks that look like a space, and characters without width, including those
/// that turn the direction of the text after them.
bool is_invisible(char32_t code) {
  constexpr std::array<std::pair<char32_t, char32_t>, 9> ranges = {{{0, 0x1f},
                                                                    {0x7f, 0xa0},
                                                                    {0xad, 0xad},
                                                                    {0x200b, 0x200f},
                                                                    {0x2028, 0x202f},
                                                                    {0x2060, 0x206f},
                                                                    {0xfe00, 0xfe0f},
                                                                    {0xfeff, 0xfeff},
                                                                    {0xe0000, 0xe0fff}}};
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

std::string escaped(const Character& character) {
  switch (character.code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const auto code = static_cast<unsigned>(character.code);
  if (!character.is_valid || code < 0x80) return fmt::format("\\x{:02x}", code);
  return code <= 0xffff ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

/// Characters of `special` get a backslash.
std::string shown(std::string_view text, std::string_view special) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_of(text);
    text.remove_prefix(character.bytes.size());
    if (!character.is_valid || is_invisible(character.code)) {
      result += escaped(character);
    } else {
      if (special.find(character.bytes) != std::string_view::npos) result += '\\';
      result += character.bytes;
    }
  }
  return result;
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    result.push_back(text.substr(0, text.find_first_of(blanks)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // of editors on Windows
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  std::vector<std::string_view> lines = split(text, '\n');
  for (std::string_view& line : lines) line = trim(line.substr(0, line.find('#')));
  return lines;
}

std::string system_text(int error) { return std::generic_category().message(error); }

std::string printable(std::string_view text) { return shown(text, ""); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 200, head = 140, tail = 40, character = 3;
  constexpr std::string_view special = "\"\\";
  if (text.size() <= most) return fmt::format("\"{}\"", shown(text, special));
  std::size_t begin = head, end = text.size() - tail;
  // Cut no character in two.
  for (std::size_t i = 0; i < character && continues(text[begin]); ++i) --begin;
  for (std::size_t i = 0; i < character && continues(text[end]); ++i) ++end;
  return fmt::format("\"{}...{}\"", shown(text.substr(0, begin), special),
                     shown(text.substr(end), special));
}

}  // namespace plait
