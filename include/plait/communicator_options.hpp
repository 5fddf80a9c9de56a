// How to make a communicator.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <optional>

#include "plait/language.hpp"
#include "plait/types.hpp"

namespace plait {

/// Equal on all ranks, except for `device`.
struct CommunicatorOptions {
  /// None: PLAIT_BACKEND, else a GPU target if every rank has its own device, else the host.
  std::optional<BackendKind> backend{};
  /// -1: the device of this thread's latest communicator, else by the rank's index on its node. The
  /// host target has one device, a mere number, for each rank on the node.
  int device = -1;
  /// None: PLAIT_TIMEOUT in seconds, else 10 minutes. 0: no deadline.
  std::optional<std::chrono::nanoseconds> timeout{};
  /// The most memory, in bytes, that algorithms may use for scratch and signals on one rank. None:
  /// PLAIT_SCRATCH_BYTES, else 128 MB (on GPUs with peer access 128 MB per peer, up to 384 MB) and
  /// 16 MB more for messages. Parts and duplicates take over their parent's limit.
  /// `Error(invalid_argument)` if the algorithms need more.
  std::optional<std::size_t> scratch_bytes{};
  /// All reductions of floats, and not only all-reduces on one node, give bits that depend on the
  /// values of the ranks, their number, the type and the operation alone: not on the message's
  /// size, the element's place in it, the memory, a group, a graph or a measurement. Only
  /// algorithms that reduce in rank order are chosen; a call that names another one is
  /// `Error(invalid_argument)`. So is it with PLAIT_ALGO=reproducible, and so are parts and
  /// duplicates. See docs/same-bits.md.
  bool reproducible = false;
  /// The same with another order: a binary tree over the ranks. Each of its sums is rounded to the
  /// type of the data. So 1, 2, 4 and 8 ranks give the same bits if each rank's own terms are added
  /// in such a tree, too. As PLAIT_ALGO=reproducible_tree. Scans stay in the order of the ranks. If
  /// both options are set, this one counts.
  bool reproducible_tree = false;
};

}  // namespace plait
