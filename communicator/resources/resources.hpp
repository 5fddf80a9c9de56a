// The resources that a communicator keeps for its lifetime.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "bootstrap/call_bootstrap.hpp"
#include "bootstrap/nodes.hpp"
#include "communicator/fault/board.hpp"
#include "communicator/fault/watchdog.hpp"
#include "communicator/groups/birth.hpp"
#include "communicator/nodes/other_nodes.hpp"
#include "communicator/observe/progress.hpp"
#include "communicator/observe/trace.hpp"
#include "communicator/resources/algorithm_list.hpp"
#include "communicator/resources/algorithm_memory.hpp"
#include "communicator/resources/setup.hpp"
#include "communicator/resources/stream_order.hpp"
#include "communicator/selection/selection.hpp"
#include "core/in_use.hpp"
#include "core/process.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Such as "the part of ranks 2, 0 (its ranks 0, 1)". None if the part numbers its ranks as its
/// parent does.
std::optional<std::string> name_part(const std::vector<int>& parent_ranks);

/// In the order in which they are made. They are destroyed in reverse: memory before its device,
/// the device before the bootstrap.
class CommunicatorResources {
 public:
  /// Collective. `parent`: those of the communicator that this one is a part of, or null. A part
  /// has its parent's device, settings and trace file.
  CommunicatorResources(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options,
                        const CommunicatorResources* parent, HostDevices host);
  CommunicatorResources(const CommunicatorResources&) = delete;
  CommunicatorResources& operator=(const CommunicatorResources&) = delete;
  /// Makes what takes no other rank: from `log` on.
  void make_local(const CommunicatorResources* parent);

  int rank() const { return bootstrap->rank(); }
  int size() const { return bootstrap->size(); }
  /// Throws unless the stream belongs to this target and has not been destroyed. `what`: the call.
  void check_live(std::string_view what, NativeStream stream) const {
    if (!backend->is_live(stream)) refuse_stream(what, stream);
  }
  /// For the group of all ranks and, if there are several nodes, that of this node.
  template <class Body>
  void for_each_group(Body body) {
    body(*bootstrap);
    if (nodes.are_several()) body(nodes.group_here());
  }

  const Origin origin{};
  const std::unique_ptr<Bootstrap> bootstrap;
  std::optional<BootstrapHooks::Purpose> creating;  // until the communicator stands
  const CommunicatorOptions made_with;
  std::vector<Nodes::Place> places;  // until the constructor's end
  const CommunicatorSettings settings;
  Nodes nodes;
  Discovery found;  // what follows is made of it
  const std::shared_ptr<Backend> backend;
  CommunicatorOnDevice counted;
  SymmetricHeap heap;  // of this node's ranks
  const AlgorithmList algorithms;
  const Birth birth;
  Selector selector;
  std::shared_ptr<Board> board;
  std::optional<CallBootstrap> in_calls;
  std::unique_ptr<AlgorithmMemory> memory;
  std::shared_ptr<BlockLog> log;  // null: PLAIT_PROGRESS=0
  std::unique_ptr<Trace> trace;   // null: no PLAIT_TRACE
  std::shared_ptr<Watchdog> watchdog;
  std::unique_ptr<OtherNodes> other_nodes;  // null on one node
  std::optional<StreamOrder> order;
  InUse in_use;

 private:
  void start_log(const CommunicatorResources* parent);
  [[noreturn]] void refuse_stream(std::string_view what, NativeStream stream) const;
};

}  // namespace plait
