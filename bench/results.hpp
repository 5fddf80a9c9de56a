// What was measured, on what.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/link.hpp"
#include "bench/options.hpp"
#include "bench/timing.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

struct Result {
  std::string name;  // an algorithm, "default", "peer:..."
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int ranks = 1;
  std::size_t count = 0;  // elements
  bool in_place = false;
  Memory memory = Memory::ordinary;
  Timing timing = Timing::graph;
  Times times;
  int calls = 0;                     // a repeat
  std::optional<std::size_t> wrong;  // none: not checked
  std::string chosen;                // of "default": who served it

  std::size_t bytes() const { return count * size_of(type); }
  double time_us() const { return times.median(); }
  /// bytes / time in GB/s, GB = 1e9 bytes.
  double algbw() const { return static_cast<double>(bytes()) / (time_us() * 1e3); }
  /// algbw * 2 (n-1)/n: what each link direction carries at least; the definition of nccl-tests.
  double busbw() const { return algbw() * 2 * (ranks - 1) / ranks; }
};

struct Machine {
  std::string date;  // UTC, ISO 8601
  std::string hostname, backend;
  std::vector<std::string> ranks;    // "rank 0 of 2: cuda device 0, NVIDIA H200 (sm_90)"
  std::vector<std::string> devices;  // a name a rank
  std::string version, mpi_version;
  std::string nccl_version;  // empty: not loaded
  Link link;
  std::string command_line;
};

/// Collective.
Machine describe_machine(Communicator& comm, const Link& link, const std::string& nccl_version, const std::string& command_line);

}  // namespace plait::bench
