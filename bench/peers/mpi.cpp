#include "bench/peers/mpi.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <limits>
#include <optional>

#include "plait/error.hpp"

namespace plait::bench {
namespace {

std::optional<MPI_Datatype> mpi_type(DataType type) {
  switch (type) {
    case DataType::i8:
      return MPI_INT8_T;
    case DataType::u8:
      return MPI_UINT8_T;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::u32:
      return MPI_UINT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u64:
      return MPI_UINT64_T;
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::f64:
      return MPI_DOUBLE;
    default:
      return std::nullopt;  // MPI 3 has no small floats
  }
}

std::optional<MPI_Op> mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::prod:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    default:
      return std::nullopt;
  }
}

/// Overflow is undefined for MPI's integers; Open MPI 4.1 saturates 8-bit sums (its vector code), where others and Plait wrap.
bool wraps(DataType type, ReduceOp op) { return op != ReduceOp::sum || size_of(type) > 1; }

class MpiPeer final : public Contender {
 public:
  MpiPeer(Communicator& comm, const Arena& arena) : Contender("peer:mpi", Memory::ordinary, arena), backend_(comm.backend()) {
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi_);
  }
  ~MpiPeer() override { MPI_Comm_free(&mpi_); }

  void enqueue(const Task& task, NativeStream stream) override {
    const auto type = mpi_type(task.type);
    const auto op = mpi_op(task.op);
    if (!type || !op || !wraps(task.type, task.op) || task.count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw Error(ErrorCode::unsupported,
                  fmt::format("peer:mpi: no {} of {} elements of {}", name_of(task.op), task.count, name_of(task.type)));
    const void* send = task.in_place() ? MPI_IN_PLACE : task.send;
    backend_.host_call(stream, [mpi = mpi_, send, recv = task.recv, count = static_cast<int>(task.count), type = *type, op = *op] {
      MPI_Allreduce(send, recv, count, type, op, mpi);  // an error ends the program: MPI's default
    });
  }

 private:
  Backend& backend_;
  MPI_Comm mpi_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Contender> make_mpi_peer(Communicator& comm, const Arena& arena, std::string& why_not) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (comm.backend_kind() != BackendKind::host) why_not = "MPI is measured on host memory, with --backend host";
  else if (provided < MPI_THREAD_SERIALIZED) why_not = "this MPI does not offer MPI_THREAD_SERIALIZED";
  else return std::make_unique<MpiPeer>(comm, arena);
  return nullptr;
}

}  // namespace plait::bench
