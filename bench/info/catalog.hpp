// Facts about this build, this machine and some known ones, gathered without ranks, MPI or a GPU.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "backends/backend.hpp"
#include "communicator/resources/ring.hpp"
#include "plait/types.hpp"

namespace plait::info {

struct BackendFacts {
  BackendKind kind = BackendKind::host;
  bool built = false;
  std::vector<DeviceInfo> devices;
  std::string why_none;  // the reason, if there are no devices
  LinkMatrix links;      // between the devices; empty if unknown
};

/// The types and operations that an algorithm serves in one kind of memory.
struct Coverage {
  using Refusals = std::map<std::string, std::vector<std::string>>;  // reason -> "i32 sum", ...
  std::map<DataType, std::vector<ReduceOp>> served;
  Refusals refused, refused_rare;  // rare: of elements that few algorithms have kernels for
  std::vector<DataType> rare;      // types of such elements, as far as they are served
  bool everything() const { return refused.empty() && refused_rare.empty(); }
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

/// The types that few algorithms have kernels for (`is_rare`), each with its first operation of
/// which this is true: that of a complex type is its product.
std::vector<std::pair<DataType, ReduceOp>> rare_types();

/// Every algorithm of the registry, asked about every type and the operations that it has for the
/// collective, in both kinds of memory.
std::vector<AlgorithmFacts> list_algorithms(const Topology& topology);

// Machines that documentation and fits ask the algorithms about, whatever this one is.

/// H200 behind an NVSwitch, with what backends/cuda/cuda_backend.cpp says about one.
Topology gpus(int ranks);

/// CPU ranks that may read each other's memory. Only the rules for them are asked for, so there are
/// no figures for estimates.
Topology cpus(int ranks);

}  // namespace plait::info
