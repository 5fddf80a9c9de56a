// Calls of a vendor's runtime. CUDA and HIP have the same functions under two prefixes: each target
// lists its functions once (its runtime.hpp), and backends/gpu is written against that list.
#pragma once
#include <fmt/format.h>

#include "plait/error.hpp"

namespace plait::gpu {

/// The target's error codes:
///   static constexpr Status success, not_ready, out_of_memory;
///   static const char* name(Status), *text(Status);
///   static void forget();  // resets the runtime's record of the last error
template <class Status>
struct StatusTraits;

/// Throws an Error that names the call: `out_of_memory` for lack of memory, `backend` for any other
/// failure.
template <class Status>
void check(Status status, const char* call) {
  using Traits = StatusTraits<Status>;
  if (status == Traits::success) return;
  Traits::forget();  // a later check by other code must not find an error that is not sticky
  throw Error(status == Traits::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::backend,
              fmt::format("{}: {} ({})", call, Traits::text(status), Traits::name(status)));
}

/// A function of the runtime and its name for messages.
template <class Status, class... Args>
class RuntimeCall {
 public:
  using Function = Status (*)(Args...);
  constexpr RuntimeCall(const char* name, Function function) : name_(name), function_(function) {}

  /// Throws unless the call succeeds.
  void operator()(Args... args) const { check(function_(args...), name_); }
  /// For callers that check the status themselves or can't throw.
  Status status(Args... args) const { return function_(args...); }
  void check_status(Status status) const { check(status, name_); }

 private:
  const char* name_;
  Function function_;
};

}  // namespace plait::gpu
