// What communicators and calls are made with: NCCL's configurations, of every version, and the
// device.
#pragma once
#include <string>

#include "interop/nccl/abi.hpp"
#include "plait/call.hpp"
#include "plait/communicator_options.hpp"

namespace plait::nccl {

/// What Plait takes from a Config.
struct CommWishes {
  bool blocking = true;
  std::string name{};
};
/// Throws Error(invalid_argument) unless the configuration begins as NCCL's initialiser makes it.
/// Null: `otherwise`.
CommWishes comm_wishes(const char* call, const Config* config, CommWishes otherwise = {});

/// What Plait takes from a CallConfig. Null: nothing.
CallOptions call_options(const char* call, const CallConfig* config);

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
