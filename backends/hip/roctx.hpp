// rocTX: the ranges of calls in AMD's profilers.
#pragma once
#include <dlfcn.h>

#include "core/log.hpp"

namespace plait::hip {

struct Roctx {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
  bool is_there() const { return push != nullptr && pop != nullptr; }

  static Roctx in(void* library) {
    return {reinterpret_cast<int (*)(const char*)>(dlsym(library, "roctxRangePushA")),
            reinterpret_cast<int (*)()>(dlsym(library, "roctxRangePop"))};
  }
  /// A profiler such as rocprofv3 preloads the library that it listens to.
  static Roctx find() {
    if (const Roctx loaded = in(RTLD_DEFAULT); loaded.is_there()) return loaded;
    for (const char* name :
         {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "libroctx64.so.4",
          "/opt/rocm/lib/librocprofiler-sdk-roctx.so", "/opt/rocm/lib/libroctx64.so"})
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr)
        if (const Roctx loaded = in(library); loaded.is_there()) return loaded;
    log::warn("PLAIT_PROFILER_RANGES=1: found neither librocprofiler-sdk-roctx nor libroctx64");
    return {};
  }
};

/// Looks for the library on the first call.
inline const Roctx& roctx() {
  static const Roctx found = Roctx::find();
  return found;
}
inline bool shows_profiler_ranges() { return roctx().is_there(); }
inline void begin_profiler_range(const char* name) {
  if (roctx().is_there()) roctx().push(name);
}
inline void end_profiler_range() noexcept {
  if (roctx().is_there()) roctx().pop();
}

}  // namespace plait::hip
