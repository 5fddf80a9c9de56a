// Operations: NCCL's own, and those that programs create.
#pragma once
#include "interop/nccl/comm.hpp"

namespace plait::nccl {

/// Writes the operation into `call`, whose type is set. A factor in device memory is read here, at
/// the stream's place, which waits for the stream.
void set_op(const char* name, Comm& comm, Communicator& own, OpNumber op, StreamHandle stream,
            Call& call);

}  // namespace plait::nccl
