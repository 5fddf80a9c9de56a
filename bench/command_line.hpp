// The command lines of plait-bench, plait-tune and plait-info. They are data, so only one source
// file compiles CLI11.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace plait::bench {

/// Throws Error(invalid_argument). `sentence` may contain words of the command line unchanged: it
/// is made printable here.
[[noreturn]] void refuse(const std::string& sentence);

/// A number of bytes such as 64K; none for an empty text. Refuses anything else, and 0.
std::optional<std::size_t> bytes(const char* flag, const std::string& text);

struct Flag {
  std::string names;  // "-b,--min-bytes"
  std::variant<bool*, int*, unsigned*, std::size_t*, double*, std::string*> value;
  std::string help;
  std::optional<std::pair<double, double>> range{};  // of a number
  std::string needs{};                               // a flag without which this one is refused
  std::vector<std::string> excludes{};               // flags beside which this one is refused

  Flag within(double least, double most) const {
    Flag flag = *this;
    flag.range = {least, most};
    return flag;
  }
  Flag beside(std::string other) const {
    Flag flag = *this;
    flag.needs = std::move(other);
    return flag;
  }
  Flag not_beside(std::vector<std::string> others) const {
    Flag flag = *this;
    flag.excludes = std::move(others);
    return flag;
  }
};

struct CommandLine {
  std::string program, about;
  std::vector<Flag> flags;
  std::string footer{};
};

/// Reads the words, without the program's name, into the values of the flags; of equal flags the
/// last counts. Returns the text of --help or --version if one was asked for, else an empty one.
/// Refuses a wrong flag with one sentence.
std::string parse(const CommandLine& line, std::vector<std::string> words);

/// The command line as one text.
std::string joined(int argc, char** argv);

}  // namespace plait::bench
