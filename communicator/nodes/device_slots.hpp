// Slots in device memory for the channels between nodes: GPUDirect.
#pragma once
#include <memory>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "bootstrap/nodes.hpp"
#include "plait/bootstrap.hpp"
#include "symm_mem/window.hpp"
#include "transport/transport.hpp"

namespace plait {

/// The kind of the target's device memory; `host` on the host target.
transport::MemoryKind device_memory_kind(BackendKind backend);

/// Memory for the slots of all channels, laid out as that of the host, where ranks of other nodes
/// have stand-ins on the device. Null: chunks lie in host memory, because PLAIT_NET_GDR=0, or
/// because a rank's transport can't register the memory. Collective: the result is the same on all
/// ranks. All throw the same Error(mismatch) if ranks differ in PLAIT_NET_GDR, and
/// Error(unsupported) or Error(out_of_memory) if it is 1 and the memory can't be had or registered.
std::shared_ptr<Window> make_device_slots(const std::shared_ptr<Backend>& backend,
                                          Bootstrap& bootstrap, const Nodes& nodes,
                                          const ChannelMemory& memory, SymmetricHeap& heap,
                                          transport::Transport& transport);

}  // namespace plait
