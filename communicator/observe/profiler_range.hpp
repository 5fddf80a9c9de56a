// PLAIT_PROFILER_RANGES: launches as ranges in the profiler of the GPU's vendor.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "backends/backend.hpp"

namespace plait {

/// The calls that a launch serves.
struct ServedCalls {
  Collective collective;  // these three: of the first call
  DataType type;
  std::size_t count;
  std::size_t others;  // calls besides the first
  std::string_view algorithm;
};

/// "plait all_reduce f32 1024, twoshot_ll", "plait kernel Shift"
std::string name_of(const ServedCalls& calls);

/// A range for the life of the object. The thread that makes it destroys it.
class ProfilerRange {
 public:
  /// `backend`: null for no range. `served()`: the ServedCalls, asked for only if there is one.
  template <class Served>
  ProfilerRange(Backend* backend, Served served) : backend_(backend) {
    if (backend_ != nullptr) backend_->begin_profiler_range(name_of(served()).c_str());
  }
  ~ProfilerRange() {
    if (backend_ != nullptr) backend_->end_profiler_range();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  Backend* backend_;
};

}  // namespace plait
