// NCCL's configurations, of every version.
#pragma once
#include <string>

#include "interop/nccl/abi.hpp"
#include "plait/call.hpp"

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

}  // namespace plait::nccl
