#include "interop/nccl/reductions.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "backends/device/numeric.hpp"
#include "interop/nccl/border.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"

namespace plait::nccl {
namespace {

template <class T>
T read_as(const void* memory) {
  T value;
  std::memcpy(&value, memory, sizeof value);
  return value;
}

/// The number that an element in host memory holds. The type is a floating-point one.
double number_at(const void* memory, DataType type) {
  switch (type) {
    case DataType::f64:
      return read_as<double>(memory);
    case DataType::f32:
      return read_as<float>(memory);
    case DataType::f16:
      return widen(read_as<f16>(memory));
    case DataType::bf16:
      return widen(read_as<bf16>(memory));
    case DataType::f8e4m3:
      return widen(read_as<f8e4m3>(memory));
    default:
      return widen(read_as<f8e5m2>(memory));
  }
}

double read_from_device(const char* name, Communicator& own, const void* from, DataType type,
                        StreamHandle stream) {
  Backend& backend = backend_of(own);
  const DeviceScope device(backend);
  const NativeStream resolved = backend.resolve(stream);
  if (backend.is_capturing(resolved))
    refuse_use(name,
               "an operation whose factor is in device memory can't be captured: create it "
               "with ncclScalarHostImmediate");
  alignas(8) std::array<std::byte, 8> element{};
  backend.copy(element.data(), from, size_of(type), resolved);
  backend.synchronize(resolved);
  return number_at(element.data(), type);
}

}  // namespace

void set_op(const char* name, Comm& comm, Communicator& own, OpNumber op, StreamHandle stream,
            Call& call) {
  constexpr std::array ops = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                              ReduceOp::avg};
  static_assert(ops.size() == op_count && ops[op_min] == ReduceOp::min);
  if (op >= 0 && op < op_count) {
    call.op = ops[static_cast<std::size_t>(op)];
    return;
  }
  const auto made = comm.find(op);
  if (!made)
    refuse(name, fmt::format("{} is no operation of this communicator: they are 0 to {}, and what "
                             "ncclRedOpCreatePreMulSum has made and ncclRedOpDestroy has not ended",
                             op, op_count - 1));
  if (made->type != call.type)
    refuse(name, fmt::format("operation {} is for {}, not for {}", op, name_of(made->type),
                             name_of(call.type)));
  call.op = ReduceOp::premul_sum;
  call.scale = made->from == nullptr ? made->factor
                                     : read_from_device(name, own, made->from, made->type, stream);
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
    if (!is_float(known))
      refuse_use(call, fmt::format("Plait multiplies only floating-point numbers, not {}",
                                   name_of(known)));
    if (residence != scalar_on_device && residence != scalar_on_host)
      refuse(call, fmt::format("{} is no residence of a scalar", residence));
    const bool here = residence == scalar_on_host;
    result = (*own)->add({.type = known,
                          .factor = here ? number_at(factor, known) : 1,
                          .from = here ? nullptr : factor});
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
