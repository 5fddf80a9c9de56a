#include "bench/tune/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithms/contract/collectives.hpp"
#include "bench/command_line.hpp"
#include "bench/program.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait::bench {
namespace {

/// The flags as they were written.
struct Written {
  std::string min_bytes, max_bytes, collectives = "all", types, memory = "both", backend;
};

std::vector<Flag> flags_of(TuneOptions& options, Written& words) {
  return {{"-o,--output", &options.output,
           "Write the times to this file, for PLAIT_TUNING (default: a file in the user's "
           "cache, which the library finds by itself)"},
          {"-C,--collective", &words.collectives, "Collective, a list of them, or all (default)"},
          {"-d,--type", &words.types,
           "Element type, or a list of them (default bf16 on GPUs, f32 on the host)"},
          {"-b,--min-bytes", &words.min_bytes,
           "Smallest message, bytes with suffix K, M, G (default 512, on the host 128)"},
          {"-e,--max-bytes", &words.max_bytes, "Largest message (default 512M, on the host 8M)"},
          {"--memory", &words.memory, "Buffers: symmetric, ordinary or both (default)"},
          Flag{"--seconds", &options.seconds,
               "The most time that measuring takes (default 90); whatever is not measured by then "
               "is left out"}
              .within(1, 1e6),
          {"--backend", &words.backend,
           "host, cuda or hip (default: PLAIT_BACKEND, else a GPU where every rank has one)"},
          {"--check", &options.check,
           "Instead: compare the library's choice with the fastest algorithm, at other sizes than "
           "those of the tuner. -o names the file that it chooses by"},
          Flag{"--sizes", &options.check_sizes, "Number of these sizes (default 40)"}
              .within(1, 1000)
              .beside("--check"),
          Flag{"-v,--verbose", &options.verbose,
               "With --check: a line for each call, with both algorithms and their microseconds"}
              .beside("--check")};
}

/// A type that kernels are compiled for and that has sums. Others are taken for one of these, and
/// chosen for by its times.
DataType tuned_type(std::string_view word) {
  const DataType type = parse_data_type(word);
  const DataType made = in_words(Call{.type = type}).type;
  if (made != type)
    refuse(fmt::format("--type {}: it is reduced as {}, so tune that", word, name_of(made)));
  if (!is_reduced(type, ReduceOp::sum))
    refuse(fmt::format("--type {}: times are of sums, and it has none", word));
  return type;
}

void understand(const Written& words, TuneOptions& options) {
  options.min_bytes = bytes("-b", words.min_bytes);
  options.max_bytes = bytes("-e", words.max_bytes);
  if (words.collectives != "all")
    for (const std::string_view word : split(words.collectives, ',')) {
      const Collective collective = parse_collective(word);
      if (collective == Collective::barrier)
        refuse("--collective barrier: it moves no data, and times are of sizes");
      options.collectives.push_back(collective);
    }
  if (!words.types.empty())
    for (const std::string_view word : split(words.types, ','))
      options.types.push_back(tuned_type(word));
  if (words.memory != "both" && words.memory != "symmetric" && words.memory != "ordinary")
    refuse(
        fmt::format("--memory {}: expected symmetric, ordinary or both", in_quotes(words.memory)));
  options.symmetric = words.memory != "ordinary";
  options.ordinary = words.memory != "symmetric";
  if (!words.backend.empty()) options.backend = parse_backend(words.backend);
}

}  // namespace

TuneOptions parse_tune_options(int argc, char** argv) {
  TuneOptions options;
  Written words;
  options.answer = parse(
      {"plait-tune",
       "Times Plait's algorithms on this machine, in each of their launch shapes, and keeps the "
       "times. From then on the library chooses by them. Start one rank per GPU: mpirun -n 4 "
       "plait-tune",
       flags_of(options, words), exit_codes},
      {argv + 1, argv + argc});
  if (!options.answer.empty()) return options;
  understand(words, options);
  options.command_line = joined(argc, argv);
  return options;
}

std::vector<std::size_t> tuned_sizes(const TuneOptions& options, BackendKind backend) {
  const bool host = backend == BackendKind::host;
  const std::size_t largest = std::size_t{host ? 8u : 512u} << 20, smallest = host ? 128 : 512,
                    from = options.min_bytes.value_or(
                        std::min(smallest, options.max_bytes.value_or(smallest))),
                    to = options.max_bytes.value_or(std::max(from, largest));
  if (from > to)
    refuse(fmt::format("-b {} is more than -e {}", format_bytes(from), format_bytes(to)));
  std::vector<std::size_t> result;
  for (std::size_t size = from; size < to; size *= 4) result.push_back(size);
  result.push_back(to);
  return result;
}

std::vector<std::size_t> checked_sizes(const TuneOptions& options, BackendKind backend) {
  const std::vector<std::size_t> tuned = tuned_sizes(options, backend);
  const auto from = static_cast<double>(tuned.front());
  const double factor = static_cast<double>(tuned.back()) / from;
  std::vector<std::size_t> result;
  for (int i = 0; i < options.check_sizes; ++i) {
    const auto exact =
        static_cast<std::size_t>(from * std::pow(factor, (i + 0.5) / options.check_sizes));
    const std::size_t size = std::max<std::size_t>(exact / 16, 1) * 16;
    if (result.empty() || size > result.back()) result.push_back(size);
  }
  return result;
}

}  // namespace plait::bench
