// What this build and this machine offer, gathered without ranks, MPI or a GPU.
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
  std::string why_none;  // where there are no devices
};

/// What an algorithm says of one kind of memory.
struct Coverage {
  std::map<DataType, std::vector<ReduceOp>> served;
  std::map<std::string, std::vector<std::string>> refused;  // reason -> "i32 sum", ...
  bool everything() const { return refused.empty(); }
  bool nothing() const { return served.empty(); }
};

struct AlgorithmFacts {
  std::string name, summary;
  std::string file;  // of a plug-in
  Collective collective = Collective::all_reduce;
  Coverage symmetric, ordinary;
};

std::vector<BackendFacts> list_backends();

/// What a communicator would run on here: PLAIT_BACKEND, else this machine's GPUs if it has any,
/// else the host. Throws Error if that has no device or is no backend.
const BackendFacts& chosen_of(const std::vector<BackendFacts>& backends);

/// The group that `supports` is asked about: `ranks` ranks on the backend.
Topology topology_of(const BackendFacts& backend, int ranks);

/// Every algorithm of the registry, asked about every type and operation that exist, in both kinds
/// of memory.
std::vector<AlgorithmFacts> list_algorithms(const Topology& topology);

}  // namespace plait::info
