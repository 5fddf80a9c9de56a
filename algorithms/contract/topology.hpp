// What algorithms are told of the machine.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace plait {

/// Model of the network between nodes, for estimates (docs/tuning.md): the weakest values of all
/// nodes.
struct NetworkFacts {
  double latency_us = 30;   // a message, one way, besides the signal that starts it
  double message_us = 5;    // a proxy's work for a message
  double bandwidth = 1250;  // bytes per microsecond out of a node, and as many into it
  friend bool operator==(const NetworkFacts&, const NetworkFacts&) = default;
};

/// The facts of a communicator's devices and links, those of the weakest device. Equal on every
/// rank, so that all ranks make equal choices from them.
struct Topology : DeviceFacts {
  BackendKind backend = BackendKind::host;
  int ranks = 1;
  int nodes = 1;  // that the ranks are on
  /// The ranks of the node with the fewest, and with the most of them. There are as many rails as
  /// every node can have a rank for.
  int rails = 1, node_ranks = 1;
  NetworkFacts network{};      // of no use with one node
  std::vector<int> ring{};     // the order of rings and chains; empty: 0, 1, 2, ...
  std::string architecture{};  // of every device, "mixed" if they differ
  int ranks_per_device = 1;    // the most that share one GPU (PLAIT_SHARE_DEVICES)
  /// Scratch memory in bytes per rank, of which algorithms take shares: PLAIT_SCRATCH_BYTES, or a
  /// little less (`scratch_within`).
  std::size_t scratch_limit = 0;
  /// Bytes per rank that are committed at creation; calls that need the rest commit it. 0: all is
  /// committed at creation.
  std::size_t base_limit = 0;
  /// Bytes per rank for collectives that end in a function (docs/rows.md).
  std::size_t rows_limit = 0;
};

}  // namespace plait
