// What the command lines of plait-bench and plait-tune have in common.
#pragma once
#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>

namespace plait::bench {

/// Throws Error(invalid_argument). `sentence` may contain words of the command line unchanged: it
/// is made printable here.
[[noreturn]] void refuse(const std::string& sentence);

/// A number of bytes such as 64K; none for an empty text. Refuses anything else, and 0.
std::optional<std::size_t> bytes(const char* flag, const std::string& text);

/// Reads the words into what `app`'s options are bound to. Returns the text of --help or --version
/// if one was asked for, else an empty one. Refuses a wrong flag with one sentence.
std::string parse(CLI::App& app, int argc, char** argv);

/// The command line as one text.
std::string joined(int argc, char** argv);

}  // namespace plait::bench
