// Launches of the program's own kernels (plait/kernel.hpp).
#pragma once
#include <optional>
#include <set>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/calls/call_path.hpp"
#include "plait/stream.hpp"

namespace plait {

class OpenGroup;

class KernelCalls {
 public:
  KernelCalls(CommunicatorResources& own, CallPath& path) : own_(own), path_(path) {}

  /// Enqueues the launch, or adds it to this thread's group.
  void call(const KernelLaunch& launch, StreamRef stream);

 private:
  PreparedCall prepare(const KernelLaunch& launch, NativeStream stream);
  LaunchShape fitted(const KernelLaunch& launch) const;
  void add_to(OpenGroup& group, const KernelLaunch& launch, NativeStream stream);
  /// PLAIT_CHECK=1: throws unless all ranks launch this.
  void agree(const std::optional<Error>& refusal, const KernelLaunch& launch) const;

  CommunicatorResources& own_;
  CallPath& path_;
  KeptPlan kept_;
  std::set<KernelHandle> loaded_;
};

}  // namespace plait
