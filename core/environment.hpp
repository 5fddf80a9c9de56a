// Environment variables. A value that can't be parsed is an error, never ignored. A program with
// more rights than its caller (setuid, setgid, file capabilities) reads no variables, because they
// would let the caller load code and write files with these rights.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace plait {

/// The variable's value. None if it is unset or empty, or if the program has rights that its caller
/// lacks.
std::optional<std::string> environment(const char* name);
/// True if the variable has a value that this program may not read, because it has more rights than
/// its caller.
bool environment_is_hidden(const char* name);
/// An integer in [least, most], or `fallback` if the variable has no value. Throws
/// Error(invalid_argument), which names the variable and its value, for anything else.
long environment_integer(const char* name, long fallback, long least, long most);
/// Bytes, with an optional suffix K, M or G (powers of 1024).
std::size_t environment_bytes(const char* name, std::size_t fallback);
/// A number from `least` to `most`, fractions allowed; none if the variable has no value.
/// `expected`: what the error asks for.
std::optional<double> environment_number(const char* name, double least, double most,
                                         std::string_view expected);
/// Seconds, fractions allowed.
double environment_seconds(const char* name, double fallback);

/// "64K" -> 65536. None if malformed or too large.
std::optional<std::size_t> parse_bytes(std::string_view text);
/// 65536 -> "64K". Numbers that are not a multiple of 1024 stay as they are.
std::string format_bytes(std::size_t bytes);

}  // namespace plait
