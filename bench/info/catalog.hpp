// Facts about this build and this machine, gathered without ranks, MPI or a GPU.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "backends/backend.hpp"
#include "plait/types.hpp"

namespace plait::info {

struct BackendFacts {
  BackendKind kind = BackendKind::host;
  bool built = false;
  std::vector<DeviceInfo> devices;
  std::string why_none;  // the reason, if there are no devices
};

/// The types and operations that an algorithm serves in one kind of memory.
struct Coverage {
  std::map<DataType, std::vector<ReduceOp>> served;
  std::map<std::string, std::vector<std::string>> refused;  // reason -> "i32 sum", ...
  bool everything() const { return refused.empty(); }
  bool nothing() const { return served.empty(); }
};

struct AlgorithmFacts {
  std::string name, summary;
  std::string file;  // the plug-in's file; empty: the library's own algorithm
  Collective collective = Collective::all_reduce;
  Coverage symmetric, ordinary;
};

std::vector<BackendFacts> list_backends();

/// The backend that a communicator would take here: PLAIT_BACKEND if set, otherwise this machine's
/// GPUs if it has any, otherwise the host. Throws Error if it has no device or does not exist.
const BackendFacts& chosen_of(const std::vector<BackendFacts>& backends);

/// The topology for `supports`: `ranks` ranks on the backend.
Topology topology_of(const BackendFacts& backend, int ranks);

/// Every algorithm of the registry, asked about every type and operation that exist, in both kinds
/// of memory.
std::vector<AlgorithmFacts> list_algorithms(const Topology& topology);

}  // namespace plait::info
