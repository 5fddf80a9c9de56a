#include "interop/nccl/reductions.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "backends/device/numeric.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::nccl {
namespace {

/// The bits of 1.
std::uint64_t one(DataType type) {
  switch (type) {
    case DataType::f64:
      return std::bit_cast<std::uint64_t>(1.0);
    case DataType::f32:
      return std::bit_cast<std::uint32_t>(1.0F);
    case DataType::f16:
      return narrow<f16>(1).bits;
    case DataType::bf16:
      return narrow<bf16>(1).bits;
    case DataType::f8e4m3:
      return narrow<f8e4m3>(1).bits;
    case DataType::f8e5m2:
      return narrow<f8e5m2>(1).bits;
    default:
      return 1;
  }
}

}  // namespace

bool is_one(const PreMulSum& op) { return op.from == nullptr && op.bits == one(op.type); }

std::optional<PreMulSum> set_op(const char* name, Comm& comm, OpNumber op, Call& call) {
  constexpr std::array ops = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                              ReduceOp::avg};
  static_assert(ops.size() == op_count && ops[op_min] == ReduceOp::min);
  if (op >= 0 && op < op_count) {
    call.op = ops[static_cast<std::size_t>(op)];
    return std::nullopt;
  }
  const auto made = comm.find(op);
  if (!made)
    refuse(name, fmt::format("{} is no operation of this communicator: they are 0 to {}, and what "
                             "ncclRedOpCreatePreMulSum has made and ncclRedOpDestroy has not ended",
                             op, op_count - 1));
  if (made->type != call.type)
    refuse(name, fmt::format("operation {} is for {}, not for {}", op, name_of(made->type),
                             name_of(call.type)));
  // Ranks may have different factors, and kernels know only one: each multiplies its own.
  call.op = ReduceOp::sum;
  return made;
}

}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclRedOpCreatePreMulSum(OpNumber* op, void* scalar, TypeNumber type,
                                             ResidenceNumber residence, CommHandle comm) {
  constexpr const char* call = "ncclRedOpCreatePreMulSum";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    static_cast<void>((*own)->use(call));
    OpNumber& result = needed(call, op, "op");
    const void* const factor = &needed(call, static_cast<std::byte*>(scalar), "scalar");
    const DataType known = data_type(call, type);
    if (residence != scalar_on_device && residence != scalar_on_host)
      refuse(call, fmt::format("{} is no residence of a scalar", residence));
    PreMulSum made{.type = known, .bits = 0, .from = nullptr};
    if (residence == scalar_on_host) std::memcpy(&made.bits, factor, size_of(known));
    else made.from = factor;
    result = (*own)->add(made);
  });
}

Result plait::nccl::ncclRedOpDestroy(OpNumber op, CommHandle comm) {
  constexpr const char* call = "ncclRedOpDestroy";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    if (!(*own)->remove(op))
      refuse(call, fmt::format("{} is no operation that ncclRedOpCreatePreMulSum has made for this "
                               "communicator, or it is destroyed already",
                               op));
  });
}
