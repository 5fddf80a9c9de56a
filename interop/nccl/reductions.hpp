// Operations: NCCL's own, and those that programs create.
#pragma once
#include <optional>

#include "interop/nccl/comm.hpp"

namespace plait::nccl {

/// Writes the operation into `call`, whose type is set. Returns what the rank's elements are
/// multiplied by before that, if they are.
std::optional<PreMulSum> set_op(const char* name, Comm& comm, OpNumber op, Call& call);
/// Whether it is known to multiply by 1.
bool is_one(const PreMulSum& op);

}  // namespace plait::nccl
