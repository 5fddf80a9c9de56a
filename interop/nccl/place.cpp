#include "interop/nccl/place.hpp"

#include <chrono>

#include "backends/backend.hpp"
#include "core/environment.hpp"

namespace plait::nccl {

BackendKind target() {
  static const BackendKind kind = [] {
    if (const auto wish = environment("PLAIT_BACKEND")) return parse_backend(*wish);
    for (const BackendKind gpu : {BackendKind::cuda, BackendKind::hip})
      if (device_count(gpu) != 0) return gpu;
    return BackendKind::host;
  }();
  return kind;
}

Place place_of_thread() {
  const BackendKind kind = target();
  return {kind, kind == BackendKind::host ? -1 : current_device(kind)};
}

CommunicatorOptions options_at(const Place& place) {
  CommunicatorOptions options;
  options.backend = place.kind;
  options.device = place.device;
  // NCCL's calls wait for ever. Programs have watchdogs of their own, with limits that they choose.
  if (!environment("PLAIT_TIMEOUT")) options.timeout = std::chrono::nanoseconds(0);
  return options;
}

}  // namespace plait::nccl
