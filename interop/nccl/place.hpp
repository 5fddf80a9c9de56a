// Where communicators run.
#pragma once
#include "plait/communicator.hpp"

namespace plait::nccl {

/// The target of this process's communicators: PLAIT_BACKEND, else a GPU target with a device, else
/// the host. Unlike Communicator::create, never the host for a rank that has a GPU, because then
/// the program's pointers are the GPU's.
BackendKind target();

/// Where a rank's communicator runs.
struct Place {
  BackendKind kind;
  int device;  // -1: on the host, the rank's number on the node
};
/// The calling thread's current device.
Place place_of_thread();

CommunicatorOptions options_at(const Place& place);

}  // namespace plait::nccl
