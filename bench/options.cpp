#include "bench/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"
#include "bench/command_line.hpp"
#include "bench/presets.hpp"
#include "bench/program.hpp"
#include "bench/report.hpp"
#include "communicator/selection/selection.hpp"
#include "core/environment.hpp"
#include "core/text.hpp"

namespace plait::bench {
namespace {

constexpr std::array<std::string_view, 6> timing_names = {"graph",   "events",  "throughput",
                                                          "latency", "enqueue", "loop"};
constexpr std::array<std::string_view, 4> progress_names = {"auto", "bar", "lines", "none"};
constexpr std::array<std::string_view, 3> memory_names = {"symmetric", "ordinary", "attached"};

/// The flags as they were written, before `understand` turns them into options.
struct Written {
  std::string min_bytes, max_bytes, collectives = "all_reduce", types = "f32", ops = "sum",
                                    algorithms = "all", backend, peers, timing = "graph",
                                    progress = "auto", preset;
  std::string in_place = "0", offsets = "0", memory = "symmetric", group = "0";
  int check = 1;
};

std::vector<std::string> split(const std::string& list) {
  const auto parts = plait::split(list, ',');
  return {parts.begin(), parts.end()};
}

template <class Value, class Parse>
std::vector<Value> list_of(const std::string& text, int all, Parse parse) {
  std::vector<Value> values;
  if (text == "all") {
    for (int i = 0; i < all; ++i) values.push_back(static_cast<Value>(i));
    return values;
  }
  for (const std::string& word : split(text)) values.push_back(parse(word));
  return values;
}

template <class Value>
std::vector<Value> one_or_both(const char* flag, const std::string& text,
                               std::pair<std::string_view, Value> first,
                               std::pair<std::string_view, Value> second) {
  if (text == "both") return {first.second, second.second};
  if (text == first.first) return {first.second};
  if (text == second.first) return {second.second};
  refuse(fmt::format("{} {}: expected {}, {} or both", flag, in_quotes(text), first.first,
                     second.first));
}

std::vector<Memory> memories(const std::string& text) {
  std::vector<Memory> wanted;
  for (const std::string& word : split(text == "both" ? "symmetric,ordinary" : text)) {
    const auto found = std::find(memory_names.begin(), memory_names.end(), word);
    if (found == memory_names.end())
      refuse(fmt::format("--memory {}: expected symmetric, ordinary, attached or both",
                         in_quotes(word)));
    wanted.push_back(static_cast<Memory>(found - memory_names.begin()));
  }
  return wanted;
}

std::vector<Collective> collectives(const std::string& text) {
  return list_of<Collective>(text, collective_count, [](const std::string& word) {
    std::vector<std::string_view> known;
    for (int i = 0; i < collective_count; ++i) known.push_back(name_of(static_cast<Collective>(i)));
    const auto found = std::find(known.begin(), known.end(), word);
    if (found == known.end())
      refuse(fmt::format("--collective: unknown collective {}; known: all, {}", in_quotes(word),
                         fmt::join(known, ", ")));
    return static_cast<Collective>(found - known.begin());
  });
}

/// The placements that `text` names. Refuses "1" if none of the collectives has calls in place.
std::vector<bool> in_place(const std::string& text, const std::vector<Collective>& collectives) {
  auto wanted = one_or_both<bool>("--in-place", text, {"0", false}, {"1", true});
  if (wanted.front() && std::none_of(collectives.begin(), collectives.end(), has_in_place))
    refuse(fmt::format("--in-place 1: {} has no calls in place", name_of(collectives.front())));
  return wanted;
}

/// Bytes that leave elements of these types aligned. Guard bands are large enough for 4K.
std::vector<std::size_t> offsets(const std::string& text, const std::vector<DataType>& types) {
  constexpr std::size_t most = 4096;
  std::vector<std::size_t> offsets;
  for (const std::string& word : split(text)) {
    const auto offset = parse_bytes(word);
    if (!offset || *offset > most)
      refuse(
          fmt::format("--offset {}: expected a number of bytes up to {}", in_quotes(word), most));
    for (const DataType type : types)
      if (*offset % alignment_of(type) != 0)
        refuse(fmt::format("--offset {}: it is no multiple of the {} bytes of {}", *offset,
                           alignment_of(type), name_of(type)));
    offsets.push_back(*offset);
  }
  return offsets;
}

/// "all" means every algorithm of these collectives that is exact, and "default".
std::vector<std::string> algorithms(const std::string& text,
                                    const std::vector<Collective>& collectives) {
  std::vector<std::string> known;
  std::vector<const Algorithm*> all;
  for (const auto& algorithm : Registry::instance().all()) {
    all.push_back(algorithm.get());
    if (std::find(collectives.begin(), collectives.end(), algorithm->collective()) !=
            collectives.end() &&
        std::find(known.begin(), known.end(), algorithm->name()) == known.end())
      known.emplace_back(algorithm->name());
  }
  for (const CountedCall& call : counted_calls)
    if (std::find(collectives.begin(), collectives.end(), call.even) != collectives.end())
      known.emplace_back(call.name);
  if (std::find(collectives.begin(), collectives.end(), Collective::send_recv) != collectives.end())
    known.insert(known.end(), one_sided_calls.begin(), one_sided_calls.end());
  known.emplace_back("default");
  if (text == "all") {
    for (const Algorithm* algorithm : all)
      if (algorithm->is_lossy()) std::erase(known, algorithm->name());
    return known;
  }
  for (const Policy& policy : policies()) known.emplace_back(policy.name);
  auto names = split(text);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const WrongName wrong = wrong_name(name, collectives.front(), all);
    if (!wrong.why.starts_with("unknown")) refuse("--algorithms: " + wrong.why);
    refuse(fmt::format("--algorithms: unknown algorithm {}; known: all, {}", in_quotes(name),
                       fmt::join(known, ", ")));
  }
  return names;
}

std::vector<std::string> peers(const std::string& text) {
  if (text == "none") return {};
  auto names = split(text.empty() ? "nccl,mpi" : text);
  for (const std::string& name : names)
    if (name != "nccl" && name != "mpi")
      refuse(fmt::format("--peers: unknown peer {}; known: none, nccl, mpi", in_quotes(name)));
  return names;
}

/// The value of an enumeration whose names are `names`, in its order.
template <class Value, std::size_t n>
Value one_of(const char* flag, const std::string& text,
             const std::array<std::string_view, n>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    refuse(fmt::format("{} {}: expected {}", flag, in_quotes(text), fmt::join(names, ", ")));
  return static_cast<Value>(found - names.begin());
}

/// The number of pairs of a type and an operation that it has.
int reductions() {
  int count = 0;
  for (int type = 0; type < data_type_count; ++type)
    for (int op = 0; op < reduce_op_count; ++op)
      if (is_reduced(static_cast<DataType>(type), static_cast<ReduceOp>(op))) ++count;
  return count;
}

/// For --help.
std::string about_presets() {
  std::string text = "Flags for a purpose. Flags that are given win over those of the preset";
  for (const Preset& preset : presets)
    text += fmt::format("\n{}: {}\n  {}", preset.name, preset.purpose, preset.flags);
  return text;
}

/// The flags of the preset.
std::vector<std::string> preset_words(const std::string& name) {
  const auto preset = std::find_if(presets.begin(), presets.end(),
                                   [&](const Preset& other) { return other.name == name; });
  if (preset == presets.end()) {
    std::vector<std::string_view> known;
    for (const Preset& other : presets) known.push_back(other.name);
    refuse(fmt::format("--preset {}: expected {}", in_quotes(name), fmt::join(known, ", ")));
  }
  const auto words = plait::split(preset->flags, ' ');
  return {words.begin(), words.end()};
}

std::vector<Flag> flags_of(Options& options, Written& words) {
  return {
      {"--preset", &words.preset, about_presets()},
      {"-b,--min-bytes", &words.min_bytes,
       "Smallest message, bytes with suffix K, M, G (default 1K)"},
      {"-e,--max-bytes", &words.max_bytes,
       "Largest message (default 64M on the host target, 1G on a GPU)"},
      Flag{"-f,--factor", &options.factor, "From one size to the next (default 4)"}.within(2,
                                                                                           1 << 20),
      {"-C,--collective", &words.collectives,
       "Collective, a list of them, or all (default all_reduce)"},
      Flag{"--root", &options.root, "Root of broadcast, reduce, gather and scatter (default 0)"}
          .within(0, 1000000),
      {"--rotate-root", &options.rotates_root, "Each call of these has the next rank for its root"},
      {"-d,--type", &words.types,
       fmt::format("Element type, a list of them, or all {} (default f32)", data_type_count)},
      {"-o,--op", &words.ops,
       fmt::format("Reduction, a list of them, or all {} (default sum). Types are measured with "
                   "those of the operations that they have: -d all -o all is {} reductions for a "
                   "collective that reduces, and {} types for one that moves",
                   reduce_op_count, reductions(), data_type_count)},
      Flag{"-n,--iterations", &options.iterations,
           "Timed calls per repeat (default: at least 200 for small messages, else about 50 ms)"}
          .within(1, 1000000),
      Flag{"-w,--warm-up", &options.warm_up, "Calls before the timed ones (default 5)"}.within(
          0, 1000000),
      Flag{"-c,--check", &words.check, "1: check every configuration's result (default), 0: do not"}
          .within(0, 1),
      Flag{"--creation", &options.creations,
           "Instead: create so many communicators, one after the other, and print the times "
           "as JSON"}
          .within(1, 10'000),
      {"--reserve", &options.reserve,
       "Commit all scratch memory first, which makes large messages faster on GPUs"},
      {"--in-place", &words.in_place, "0 (default), 1 or both"},
      {"--memory", &words.memory,
       "Buffers: a list of symmetric (default), ordinary and attached, or both, the first two"},
      Flag{"--messages", &options.messages,
           "Cut every message into so many, one call for each; sizes and times are their totals"}
          .within(1, 100000),
      {"--group", &words.group, "Whether these calls are one group: 0 (default), 1 or both"},
      {"--offset", &words.offsets,
       "Bytes from an aligned address to the buffers, or a list (default 0)"},
      {"--algorithms", &words.algorithms,
       "all (default), default (the selection's choice), or a list of names"},
      {"--backend", &words.backend,
       "host, cuda or hip (default: PLAIT_BACKEND, else a GPU where every rank has one)"},
      Flag{"--devices", &options.devices,
           "So many devices of this process are the ranks, each driven by a thread (default: "
           "this process is one rank)"}
          .within(1, 1024),
      {"--peers", &words.peers,
       "Peers to measure: nccl, mpi, both with a comma, or none (default: the one that "
       "fits the backend)"},
      {"--timing", &words.timing,
       "graph (default), events, throughput, latency, loop or enqueue (host time of a call)"},
      Flag{"--repeats", &options.repeats,
           "Number of measurements; their median counts (default and least 7)"}
          .within(7, 100000),
      {"--table", &options.table,
       "Print a row per algorithm and peer, with all bandwidths, and what the machine gives "
       "at most"},
      {"--statistics", &options.statistics,
       "The same with mean, standard deviation, p5, p95, p99 and the number of samples"},
      {"--json", &options.json, "Write the results to this file, and update it after each size"},
      {"--resume", &options.resume,
       "Keep what the --json file has of an earlier run like this, and measure only the rest"},
      {"--csv", &options.csv, "The same as CSV, one line per result"},
      {"--report", &options.report, "The same as a page with charts, for a browser"},
      {"--dry-run", &options.dry_run,
       "Print as JSON what would be measured, for how many sizes and at most how often, and "
       "measure nothing"},
      {"--progress", &words.progress,
       "On standard error: bar, lines, none, or auto (default): a bar on a terminal, else lines"},
      Flag{"--blocks", &options.blocks,
           "Blocks of Plait's kernels (default: the algorithm's choice)"}
          .within(1, 65535),
      Flag{
          "--threads", &options.threads,
          "Threads per block (default: the algorithm's choice), at most as many as the target runs"}
          .within(1, 1024)};
}

void understand(const Written& words, Options& options) {
  options.min_bytes = bytes("-b", words.min_bytes);
  options.max_bytes = bytes("-e", words.max_bytes);
  options.collectives = collectives(words.collectives);
  options.types = list_of<DataType>(words.types, data_type_count, parse_data_type);
  options.ops = list_of<ReduceOp>(words.ops, reduce_op_count, parse_reduce_op);
  options.check = words.check == 1;
  options.table |= options.statistics;
  options.in_place = in_place(words.in_place, options.collectives);
  options.offsets = offsets(words.offsets, options.types);
  options.memories = memories(words.memory);
  options.grouped = one_or_both<bool>("--group", words.group, {"0", false}, {"1", true});
  options.algorithms = algorithms(words.algorithms, options.collectives);
  if (!words.backend.empty()) options.backend = parse_backend(words.backend);
  options.peers = peers(words.peers);
  options.peers_asked = !words.peers.empty();
  options.timing = one_of<Timing>("--timing", words.timing, timing_names);
  options.progress = one_of<Progress>("--progress", words.progress, progress_names);
  if (options.resume && options.json.empty())
    refuse("--resume: needs --json FILE, the file to go on with");
  if (!options.report.empty() && report_template().empty())
    refuse(
        "--report: this build has no Chart.js; install libjs-chart.js, configure and build again");
}

template <class Is>
const CountedCall* find_counted_if(Is is) {
  const auto* const found = std::find_if(counted_calls.begin(), counted_calls.end(), is);
  return found == counted_calls.end() ? nullptr : found;
}

}  // namespace

const CountedCall* find_counted(Collective collective) {
  return find_counted_if([&](const CountedCall& call) { return call.even == collective; });
}
const CountedCall* find_counted(std::string_view name) {
  return find_counted_if([&](const CountedCall& call) { return call.name == name; });
}
bool measures_counted(const Options& options) {
  return std::any_of(options.algorithms.begin(), options.algorithms.end(),
                     [](const std::string& name) { return find_counted(name) != nullptr; });
}

std::string_view name_of(Timing timing) { return timing_names[static_cast<std::size_t>(timing)]; }
std::string_view name_of(Memory memory) { return memory_names[static_cast<std::size_t>(memory)]; }

Options parse_options(int argc, char** argv) {
  Options options;
  Written words;
  const CommandLine line{
      "plait-bench",
      "Times collectives: Plait's algorithms, and NCCL or MPI beside them. Start one rank per GPU: "
      "mpirun -n 4 plait-bench ...",
      flags_of(options, words), exit_codes};
  const std::vector<std::string> given(argv + 1, argv + argc);
  options.answer = parse(line, given);
  if (!options.answer.empty()) return options;
  if (!words.preset.empty()) {  // first its flags, so that those given win
    std::vector<std::string> all = preset_words(words.preset);
    all.insert(all.end(), given.begin(), given.end());
    parse(line, all);
  }
  understand(words, options);
  options.command_line = joined(argc, argv);
  return options;
}

std::string settings(const Options& options) {
  return fmt::format("-n {} -w {} -c {} --root {} --repeats {} --blocks {} --threads {}{}{}",
                     options.iterations, options.warm_up, options.check ? 1 : 0, options.root,
                     options.repeats, options.blocks, options.threads,
                     options.reserve ? " --reserve" : "",
                     options.rotates_root ? " --rotate-root" : "");
}

std::vector<std::size_t> sizes(const Options& options, BackendKind backend) {
  const std::size_t largest =
      backend == BackendKind::host ? std::size_t{64} << 20 : std::size_t{1} << 30;
  const std::size_t from =
      options.min_bytes.value_or(std::min<std::size_t>(1024, options.max_bytes.value_or(1024)));
  const std::size_t to = options.max_bytes.value_or(std::max(from, largest));
  if (from > to)
    refuse(fmt::format("-b {} is more than -e {}", format_bytes(from), format_bytes(to)));
  std::vector<std::size_t> result;
  for (std::size_t size = from;; size *= options.factor) {
    result.push_back(size);
    if (size > to / options.factor) return result;
  }
}

std::vector<Call> operations(const Options& options) {
  std::vector<Call> result;
  for (const Collective collective : options.collectives)
    for (const DataType type : options.types)
      for (const ReduceOp op : options.ops) {
        const CollectiveFacts facts = facts_of(collective);
        if (collective == Collective::barrier) {  // the same for all types
          if (type == options.types.front() && op == options.ops.front())
            result.push_back({.collective = collective, .type = DataType::u8});
          continue;
        }
        if (facts.reduces ? !is_reduced(type, op) || (op == ReduceOp::avg && is_scan(collective))
                          : op != options.ops.front())
          continue;
        result.push_back({.collective = collective,
                          .type = type,
                          .op = facts.reduces ? op : ReduceOp::sum,
                          .root = facts.rooted ? options.root : 0});
      }
  if (!result.empty()) return result;
  // All collectives reduce, and each has refused each pair of a type and an operation.
  const DataType type = options.types.front();
  const ReduceOp op = options.ops.front();
  if (is_reduced(type, op))
    refuse(fmt::format("-o {}: {} has no average of the first ranks", name_of(op),
                       name_of(options.collectives.front())));
  refuse(fmt::format("-o {}: needs {}, not {}", name_of(op), needs(op), name_of(type)));
}

}  // namespace plait::bench
