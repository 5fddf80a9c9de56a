// Calls of a vendor's runtime. CUDA's and HIP's are the same functions under two prefixes: each
// target lists its own once (its runtime.hpp), and backends/gpu is written against that list.
#pragma once
#include <fmt/format.h>

#include "plait/error.hpp"

namespace plait::gpu {

/// What the target says about its error codes:
///   static constexpr Status success, not_ready, out_of_memory;
///   static const char* name(Status), *text(Status);
///   static void forget();  // the runtime's own memory of the last error
template <class Status>
struct StatusTraits;

/// Throws Error that names the call: out_of_memory for that, backend for all else.
template <class Status>
void check(Status status, const char* call) {
  using Traits = StatusTraits<Status>;
  if (status == Traits::success) return;
  Traits::forget();  // errors that are not sticky must not show up in somebody else's check
  throw Error(status == Traits::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::backend,
              fmt::format("{}: {} ({})", call, Traits::text(status), Traits::name(status)));
}

/// A function of the runtime with its name, for messages.
template <class Status, class... Args>
class RuntimeCall {
 public:
  using Function = Status (*)(Args...);
  constexpr RuntimeCall(const char* name, Function function) : name_(name), function_(function) {}

  /// Throws unless the call succeeds.
  void operator()(Args... args) const { check(function_(args...), name_); }
  /// For those who look themselves, or can't throw.
  Status status(Args... args) const { return function_(args...); }
  void check_status(Status status) const { check(status, name_); }

 private:
  const char* name_;
  Function function_;
};

}  // namespace plait::gpu
