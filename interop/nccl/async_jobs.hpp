// Jobs that take long because they wait for other ranks: making, dividing, finishing and freeing
// communicators. Jobs of one group run side by side, because the ranks that one thread drives wait
// for each other.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "interop/nccl/comm.hpp"

namespace plait::nccl {

struct Job {
  const char* call;
  /// Jobs of one communicator run in the order of their calls, which is the same on all ranks.
  std::shared_ptr<Comm> of;
  /// The job uses the communicator `of`, so no call may do so meanwhile (`Comm::take`).
  bool takes = false;
  std::function<void()> body;
  /// What becomes of the job if it does not run at all.
  std::function<void(const Error&)> drop = [](const Error&) {};
  /// Whether the caller waits for it.
  bool blocking = true;
};

/// Runs the jobs, each communicator's on a thread. Returns the first error of those that it waits
/// for, else in_progress if it does not wait for all, else success.
Result run(std::vector<Job> jobs) noexcept;

}  // namespace plait::nccl
