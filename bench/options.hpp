// The options of the command line.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plait/call.hpp"

namespace plait::bench {

/// How a call is timed; see timing.hpp.
enum class Timing { graph, events, throughput, latency, enqueue, loop };
/// The memory of the buffers: symmetric (for NCCL: a registered window), ordinary, or attached.
enum class Memory { symmetric, ordinary, attached };

/// How the progress is shown on standard error; see progress.hpp.
enum class Progress { automatic, bar, lines, none };

/// A call that takes a count per rank, measured beside `even`: the collective that does the same if
/// all counts are equal.
struct CountedCall {
  std::string_view name;
  Collective even;
  /// Measured with counts that differ, because with equal ones it is a call of `even`.
  bool uneven = false;
};
inline constexpr std::array counted_calls = {
    CountedCall{"all_gather_v", Collective::all_gather},
    CountedCall{"all_to_all_v", Collective::all_to_all},
    CountedCall{"gather_v", Collective::gather},
    CountedCall{"scatter_v", Collective::scatter},
    CountedCall{"neighbor_all_to_all_v", Collective::send_recv},
    CountedCall{"reduce_scatter_v", Collective::reduce_scatter, true},
};
/// Calls on memory of the neighbours that do what `send_recv` does, measured beside it.
inline constexpr std::array<std::string_view, 2> one_sided_calls = {"put", "get"};
/// Also of messages that are cut: "put x4 grouped".
constexpr bool is_one_sided(std::string_view name) {
  name = name.substr(0, name.find(' '));
  return name == one_sided_calls[0] || name == one_sided_calls[1];
}

/// The one that is measured beside this collective, or null.
const CountedCall* find_counted(Collective collective);
/// The one of that name, or null.
const CountedCall* find_counted(std::string_view name);

std::string_view name_of(Timing timing);
std::string_view name_of(Memory memory);

struct Options {
  /// None: from 1K, to 64M on the host target and to 1G on a GPU.
  std::optional<std::size_t> min_bytes, max_bytes;
  std::size_t factor = 4;
  std::vector<Collective> collectives = {Collective::all_reduce};
  int root = 0;
  bool rotates_root = false;
  std::vector<DataType> types = {DataType::f32};
  std::vector<ReduceOp> ops = {ReduceOp::sum};
  int iterations = 0;  // timed calls per repeat; 0: Timer chooses
  int warm_up = 5;
  int repeats = 7;
  bool table = false;       // print all results, and more about the machine
  bool statistics = false;  // the same with columns for all statistics
  bool check = true;
  int devices = 0;       // ranks that are threads of this process; 0: this process is one rank
  int creations = 0;     // measure these instead of calls, if any
  bool reserve = false;  // call Communicator::reserve before all else
  std::vector<bool> in_place = {false};
  std::vector<std::size_t> offsets = {0};  // bytes from an aligned address to each buffer
  int messages = 1;                        // number of calls that a message is cut into
  std::vector<bool> grouped = {false};     // whether these calls form a group
  std::vector<Memory> memories = {Memory::symmetric};
  /// Names of the registry for any of the collectives, "default", and those of `counted_calls` and
  /// `one_sided_calls`.
  std::vector<std::string> algorithms;
  std::optional<BackendKind> backend;
  std::vector<std::string> peers;
  bool peers_asked = false;  // the user named peers, so print why one is missing
  Timing timing = Timing::graph;
  std::string json, csv, report;  // files; empty: none
  bool resume = false;            // take over the results that `json` already has
  Progress progress = Progress::automatic;
  bool dry_run = false;  // print what would be measured, and stop
  unsigned blocks = 0, threads = 0;
  std::string command_line;
  std::string answer;  // the text of --help or --version; if not empty, print it and stop
};

/// Whether one of the algorithms is a call that takes a count per rank.
bool measures_counted(const Options& options);

/// Throws Error(invalid_argument) with one sentence for a wrong flag or value.
Options parse_options(int argc, char** argv);

/// The flags that change how every call is measured. Results are comparable if they agree.
std::string settings(const Options& options);

/// Message sizes from the smallest to the largest, for this target.
std::vector<std::size_t> sizes(const Options& options, BackendKind backend);

/// The existing combinations of collectives, types and operations; the other fields of each call
/// are still open. Throws Error(invalid_argument) if there are none.
std::vector<Call> operations(const Options& options);

}  // namespace plait::bench
