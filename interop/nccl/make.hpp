// How communicators are made and ended.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "interop/nccl/comm.hpp"
#include "interop/nccl/config.hpp"

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

/// Makes `comm`, and what it needs to be shrunk later. In a job.
void make_over(Comm& comm, std::unique_ptr<Bootstrap> bootstrap,
               const CommunicatorOptions& options);
void make_over_id(Comm& comm, const UniqueId& id, int rank, int size,
                  const CommunicatorOptions& options);
/// As `make_over`, for a communicator that is there already.
void adopt(Comm& comm, const std::function<Communicator()>& make);

/// How long ncclCommAbort waits. An abort ends kernels within a second, but the device may have
/// calls of other communicators that only their abort ends.
inline constexpr std::chrono::seconds patience_of_abort{2};

/// Runs `end`, which frees an aborted communicator, on a thread, and waits for it as long as
/// `patience` says.
void close_soon(std::function<void()> end, std::chrono::seconds patience) noexcept;

}  // namespace plait::nccl
