#include "core/environment.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& expected) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}={}: expected {}", name, in_quotes(value), expected));
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool environment_is_hidden(const char* name) {
  if (::getauxval(AT_SECURE) == 0) return false;
  const std::string front = fmt::format("{}=", name);
  char** entry = ::environ;
  while (entry != nullptr && *entry != nullptr && !std::string_view(*entry).starts_with(front))
    ++entry;
  return entry != nullptr && *entry != nullptr && (*entry)[front.size()] != '\0';
}

long environment_integer(const char* name, long fallback, long least, long most) {
  const auto value = environment(name);
  if (!value) return fallback;
  const auto number = parse_number<long>(*value);
  if (!number || *number < least || *number > most)
    refuse(name, *value, fmt::format("an integer from {} to {}", least, most));
  return *number;
}

std::size_t environment_bytes(const char* name, std::size_t fallback) {
  const auto value = environment(name);
  if (!value) return fallback;
  const auto bytes = parse_bytes(*value);
  if (!bytes) refuse(name, *value, "a number of bytes such as 65536, 64K, 16M or 1G");
  return *bytes;
}

std::optional<double> environment_number(const char* name, double least, double most,
                                         std::string_view expected) {
  const auto value = environment(name);
  if (!value) return std::nullopt;
  const auto number = parse_number<double>(*value);
  if (!number || !std::isfinite(*number) || *number < least || *number > most)
    refuse(name, *value, std::string(expected));
  return number;
}

double environment_seconds(const char* name, double fallback) {
  return environment_number(name, 0, 1e9, "seconds, from 0 to 1e9").value_or(fallback);
}

std::optional<std::size_t> parse_bytes(std::string_view text) {
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{}) return std::nullopt;
  std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.ends_with("iB")) suffix.remove_suffix(2);
  else if (suffix.ends_with('B')) suffix.remove_suffix(1);
  int shift = 0;
  if (suffix == "K" || suffix == "k") shift = 10;
  else if (suffix == "M" || suffix == "m") shift = 20;
  else if (suffix == "G" || suffix == "g") shift = 30;
  else if (!suffix.empty()) return std::nullopt;
  if (number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

std::string format_bytes(std::size_t bytes) {
  for (const auto& [shift, suffix] : {std::pair{30, 'G'}, {20, 'M'}, {10, 'K'}}) {
    const std::size_t unit = std::size_t{1} << shift;
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes >> shift, suffix);
  }
  return std::to_string(bytes);
}

}  // namespace plait
