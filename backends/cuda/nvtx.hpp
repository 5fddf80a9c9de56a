// NVTX: the ranges of calls in NVIDIA's profilers, in the domain "plait".
#pragma once
#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

namespace plait::cuda {

/// Null where no profiler has loaded its library into this process.
inline nvtxDomainHandle_t nvtx_domain() {
  static const nvtxDomainHandle_t plait = nvtxDomainCreateA("plait");
  return plait;
}
inline bool shows_profiler_ranges() { return nvtx_domain() != nullptr; }
inline void begin_profiler_range(const char* name) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(nvtx_domain(), &range);
}
inline void end_profiler_range() noexcept { nvtxDomainRangePop(nvtx_domain()); }

}  // namespace plait::cuda

#else

#include "core/log.hpp"

namespace plait::cuda {

inline bool shows_profiler_ranges() {
  [[maybe_unused]] static const bool said = [] {
    log::warn("PLAIT_PROFILER_RANGES=1: Plait was built with a CUDA toolkit without NVTX");
    return true;
  }();
  return false;
}
inline void begin_profiler_range(const char*) {}
inline void end_profiler_range() noexcept {}

}  // namespace plait::cuda

#endif
