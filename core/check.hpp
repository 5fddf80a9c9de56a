// Bad arguments are found here, before anything is enqueued.
#pragma once
#include <string>

#include "core/algorithm.hpp"
#include "plait/bootstrap.hpp"
#include "plait/call.hpp"

namespace plait {

/// Throws Error(invalid_argument) or Error(unsupported) that names the rank, the call and the values.
void check_call(const Call& call, const Buffers& buffers, int rank, int ranks);

/// PLAIT_CHECK=1: compares the call with those of all ranks. Collective; throws Error(mismatch) with both sides on all ranks.
/// `places` says where the buffers lie.
void check_agreement(Bootstrap& bootstrap, const Call& call, const CallOptions& options, const std::string& places);

}  // namespace plait
