// Numbers with units: in environment variables, and in the flags of plait-bench.
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "core/environment.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plait;  // NOLINT(google-build-using-namespace): one function
  std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = parse_bytes(text))
    fuzz::require(parse_bytes(format_bytes(*bytes)) == bytes, "what is written is read", text);

  text = text.substr(0, text.find('\0'));  // what variables and flags can hold
  constexpr const char* variable = "PLAIT_FUZZ_SIZES";
  setenv(variable, text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  fuzz::succeeds([&] { static_cast<void>(environment_bytes(variable, 1)); });
  fuzz::succeeds([&] {
    const long value = environment_integer(variable, 3, -5, 70000);
    fuzz::require(-5 <= value && value <= 70000, "an integer is in its range", text);
  });
  fuzz::succeeds([&] {
    const double value = environment_seconds(variable, 1);
    fuzz::require(value >= 0 && value <= 1e9, "seconds are in their range", text);
  });
  fuzz::succeeds([&] {
    std::vector<std::string> words = {"plait-bench", "-b"};
    for (const std::string_view word : split(text, ' ')) words.emplace_back(word);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const bench::Options options =
        bench::parse_options(static_cast<int>(words.size()), arguments.data());
    if (!options.answer.empty()) return;
    const auto sizes = bench::sizes(options, BackendKind::host);
    fuzz::require(!sizes.empty() && sizes.front() > 0, "there are sizes", text);
    for (std::size_t i = 1; i < sizes.size(); ++i)
      fuzz::require(sizes[i] > sizes[i - 1], "sizes grow", text);
  });
  return 0;
}
