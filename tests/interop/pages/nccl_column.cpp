// The column of NCCL, as Plait's libnccl.so.2 answers it on the host target.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "columns.hpp"
#include "interop/nccl/functions.hpp"

namespace plait::test {
namespace {

// NCCL's names for what abi_test compares with nccl.h.
using namespace nccl;
using ncclComm_t = CommHandle;
using ncclUniqueId = IdBytes;
using ncclResult_t = Result;
using ncclRedOp_t = OpNumber;
using cudaStream_t = StreamHandle;
constexpr TypeNumber ncclInt8 = int8, ncclUint8 = uint8, ncclInt32 = int32, ncclUint32 = uint32,
                     ncclInt64 = int64, ncclUint64 = uint64, ncclFloat16 = float16,
                     ncclFloat32 = float32, ncclFloat64 = float64, ncclBfloat16 = bfloat16,
                     ncclFloat8e4m3 = float8e4m3, ncclFloat8e5m2 = float8e5m2;
constexpr OpNumber ncclSum = op_sum, ncclProd = op_prod, ncclMax = op_max, ncclMin = op_min,
                   ncclAvg = op_avg;
constexpr ResidenceNumber ncclScalarHostImmediate = scalar_on_host;

ncclUniqueId shared_id(const page_row& row) {
  ncclUniqueId id{};
  if (row.own_rank == 0) ncclGetUniqueId(&id);
  MPI_Bcast(id.bytes, sizeof id.bytes, MPI_BYTE, 0, row.mpi);
  return id;
}
ncclComm_t make_comm(const page_row& row) {
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, ranks, shared_id(row), row.own_rank);
  return comm;
}

/// What the lines name.
struct Names {
  explicit Names(page_row& row) : of(row) {}

  page_row& of;
  const std::string error_before = ncclGetLastError(nullptr);
  ncclComm_t nccl = make_comm(of), first = nccl, part = nullptr, comms[2]{};
  cudaStream_t stream = static_cast<cudaStream_t>(of.stream);
  ncclUniqueId id{};
  int &rank = of.rank, &size = of.size;
  const int root = of.root, left = of.left, right = of.right, color = of.color, key = of.key;
  const int devices[2] = {0, 1};
  const std::size_t n = of.n;
  double factor = of.factor;
  double *send = of.send, *recv = of.recv, *x = of.x;
  const std::size_t *send_counts = of.send_counts, *send_starts = of.send_starts;
  const std::size_t *recv_counts = of.recv_counts, *recv_starts = of.recv_starts;
  ncclRedOp_t op{};
  ncclResult_t state{};
  void* memory = nullptr;

  void begin() {
    if (std::string_view(of.name).ends_with("InitRank")) id = shared_id(of);
    if (of.frees_a_part != 0) ncclCommSplit(nccl, 0, of.own_rank, &part, nullptr);
  }
  void end() {
    wait_for_stream();
    if (error_before != ncclGetLastError(nullptr))
      std::snprintf(of.error, sizeof of.error, "%s", ncclGetLastError(nullptr));
    of.part_rank = of.part_size = -1;
    if (part != nullptr && ncclCommUserRank(part, &of.part_rank) == Result::success) {
      ncclCommCount(part, &of.part_size);
      ncclCommDestroy(part);
    }
    if (ncclCommUserRank(nccl, &of.comm_rank) == Result::success) {
      ncclCommCount(nccl, &of.comm_size);
      ncclCommDestroy(nccl);
    } else {  // an abort frees it
      of.comm_rank = of.own_rank, of.comm_size = ranks;
      std::snprintf(of.error, sizeof of.error, "aborted");
    }
    if (nccl != first) ncclCommDestroy(first);
    for (const ncclComm_t comm : comms)
      if (comm != nullptr) ncclCommDestroy(comm);
    ncclMemFree(memory);
  }
};

#define BEGIN_ROW(NAME)                               \
  struct row_##NAME : Names {                         \
    explicit row_##NAME(page_row& row) : Names(row) { \
      begin();
#define BEGIN_LINES
#define END_LINES
#define END_ROW \
  end();        \
  }             \
  }             \
  ;
#include "left.inc"

}  // namespace

void begin_left() { MPI_Init(nullptr, nullptr); }

bool leaves_nothing(std::string_view name) {
  return name == "ncclGetUniqueId" || name == "ncclCommInitRank" || name == "ncclCommInitAll" ||
         name == "ncclCommGetAsyncError" || name == "ncclMemAlloc";
}
bool ends_process(std::string_view) { return false; }

void check_constants(const page_row& row, Communicator& comm) {
  using enum DataType;
  using enum ReduceOp;
  ncclComm_t nccl = make_comm(row);
  const auto reduce = [nccl](TypeNumber type, OpNumber op) {
    return [=](const void* in, void* out, std::size_t count) {
      EXPECT_EQ(ncclAllReduce(in, out, count, type, op, nccl, nullptr), Result::success);
    };
  };
#define TYPE(LEFT, CPP, C)                                              \
  check_reduction(comm, CPP, C, sum, PLAIT_SUM, reduce(LEFT, ncclSum)); \
  check_reduction(comm, CPP, C, max, PLAIT_MAX, reduce(LEFT, ncclMax));
#define OPERATION(LEFT, CPP, C) \
  check_reduction(comm, i32, PLAIT_I32, CPP, C, reduce(ncclInt32, LEFT));
#include "constants.inc"
  ncclCommDestroy(nccl);
}

}  // namespace plait::test

#define LISTED(NAME) {#NAME, [](page_row* row) { plait::test::row_##NAME{*row}; }},
const row_function left_column[] = {
#include "left_names.inc"
    {nullptr, nullptr}};
