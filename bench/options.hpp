// What the command line asks for.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plait/call.hpp"

namespace plait::bench {

/// How a call is timed; see timing.hpp.
enum class Timing { graph, events, throughput, latency, enqueue };
/// Where the buffers lie: in symmetric memory (for NCCL: in a registered window), or anywhere.
enum class Memory { symmetric, ordinary };

/// A name beside those of all_to_all's algorithms: the call that takes lengths, with equal ones.
inline constexpr std::string_view all_to_all_v = "all_to_all_v";

std::string_view name_of(Timing timing);
std::string_view name_of(Memory memory);

struct Options {
  std::optional<std::size_t> min_bytes,
      max_bytes;  // none: 1K to 64M on the host target, to 1G on a GPU
  std::size_t factor = 4;
  std::vector<Collective> collectives = {Collective::all_reduce};
  int root = 0;
  std::vector<DataType> types = {DataType::f32};
  std::vector<ReduceOp> ops = {ReduceOp::sum};
  int iterations = 0;  // timed calls a repeat; 0: enough for a good clock, see Timer
  int warm_up = 5;
  int repeats = 7;
  bool check = true;
  bool reserve = false;  // Communicator::reserve, first of all
  std::vector<bool> in_place = {false};
  int messages = 1;                     // that a contender's message is cut into, a call for each
  std::vector<bool> grouped = {false};  // whether these calls are a group
  std::vector<Memory> memories = {Memory::symmetric};
  std::vector<std::string> algorithms;  // names of the registry, of any of the collectives,
                                        // "default", and "all_to_all_v"
  std::optional<BackendKind> backend;
  std::vector<std::string> peers;
  bool peers_asked = false;  // the user named them: say why one is missing
  Timing timing = Timing::graph;
  std::string json, csv, tuning;  // files; empty: none
  unsigned blocks = 0, threads = 0;
  std::string command_line;
  std::string answer;  // to --help or --version; not empty: print this and stop
};

/// Throws Error(invalid_argument) with one sentence for a wrong flag or value.
Options parse_options(int argc, char** argv);

/// Message sizes from the smallest to the largest, for this target.
std::vector<std::size_t> sizes(const Options& options, BackendKind backend);

/// The collectives with their types and operations, as far as they exist; the rest of each call is
/// open. Throws Error(invalid_argument) if there are none.
std::vector<Call> operations(const Options& options);

}  // namespace plait::bench
