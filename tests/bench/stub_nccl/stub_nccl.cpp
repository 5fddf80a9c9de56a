// A stand-in for libnccl with the same interface, over MPI and host memory. It notes its calls.
// Compiled with STUB_NCCL_OLD it has no functions for windows, like old versions. Compiled with
// STUB_NCCL_INCOMPLETE it lacks a function that all versions have.
#include "bench/stub_nccl/stub_nccl.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

using plait::bench::StubNccl;

constexpr int success = 0, failure = 1, invalid_argument = 4;

struct Type {
  std::size_t bytes;
  MPI_Datatype arithmetic;  // MPI_DATATYPE_NULL: MPI only moves such elements
};
/// By ncclDataType_t.
Type type_of(int code) {
  static const std::array<Type, 12> types = {{{1, MPI_INT8_T},
                                              {1, MPI_UINT8_T},
                                              {4, MPI_INT32_T},
                                              {4, MPI_UINT32_T},
                                              {8, MPI_INT64_T},
                                              {8, MPI_UINT64_T},
                                              {2, MPI_DATATYPE_NULL},
                                              {4, MPI_FLOAT},
                                              {8, MPI_DOUBLE},
                                              {2, MPI_DATATYPE_NULL},
                                              {1, MPI_DATATYPE_NULL},
                                              {1, MPI_DATATYPE_NULL}}};
  return types.at(static_cast<std::size_t>(code));
}

/// By ncclRedOp_t; an average is a sum that average() divides.
MPI_Op operation_of(int code) {
  const std::array<MPI_Op, 5> operations = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_SUM};
  return operations.at(static_cast<std::size_t>(code));
}

void average(void* data, std::size_t count, int type, int ranks) {
  const auto divide = [&](auto* x) {
    for (std::size_t i = 0; i < count; ++i) x[i] /= static_cast<decltype(*x + 0)>(ranks);
  };
  if (type == 7) divide(static_cast<float*>(data));
  else if (type == 8) divide(static_cast<double*>(data));
  else std::abort();  // no test asks for it
}

/// Notes the call; false if the test wants it to fail.
bool noted(const char* function, const std::string& arguments = {}) {
  StubNccl& stub = *stub_nccl();
  stub.calls.push_back(function + arguments);
  return stub.fails != function;
}

int ranks_of(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

struct Message {
  bool sent;
  std::byte* data;
  std::size_t bytes;
  int peer;
  MPI_Comm comm;
  CUstream_st* stream;
};
int group_depth = 0;
std::vector<Message> group;

/// All messages at once, as NCCL's groups make them.
void exchange(const std::vector<Message>& messages) {
  std::vector<MPI_Request> requests(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    const int bytes = static_cast<int>(m.bytes);
    if (m.sent) MPI_Isend(m.data, bytes, MPI_BYTE, m.peer, 0, m.comm, &requests[i]);
    else MPI_Irecv(m.data, bytes, MPI_BYTE, m.peer, 0, m.comm, &requests[i]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

int message(const char* function, bool sent, const void* data, std::size_t count, int type,
            int peer, MPI_Comm* comm, CUstream_st* stream) {
  if (!noted(function, fmt::format(" {} {} {}", count, type, peer))) return failure;
  if (group_depth == 0) return invalid_argument;  // alone, two of them would wait for each other
  group.push_back({sent, static_cast<std::byte*>(const_cast<void*>(data)),
                   count * type_of(type).bytes, peer, *comm, stream});
  return success;
}

/// NCCL wants both buffers of a collective on all ranks.
template <class Body>
int collective(const char* function, const std::string& arguments, const void* send, void* recv,
               CUstream_st* stream, Body body) {
  if (!noted(function, arguments)) return failure;
  if (send == nullptr || recv == nullptr) return invalid_argument;
  stub_nccl()->enqueue(stream, std::move(body));
  return success;
}

}  // namespace

extern "C" {

StubNccl* stub_nccl() {
  static StubNccl stub;
  return &stub;
}

struct UniqueId {
  char bytes[128];
};

int ncclGetVersion(int* version) {
  *version = stub_nccl()->version;
  return success;
}
const char* ncclGetErrorString(int result) {
  return result == invalid_argument ? "stub: invalid argument" : "stub: failure";
}
int ncclGetUniqueId(UniqueId* id) {
  std::strcpy(id->bytes, "the stub's id");
  return noted("ncclGetUniqueId") ? success : failure;
}
int ncclCommInitRank(MPI_Comm** comm, int ranks, UniqueId id, int rank) {
  if (!noted("ncclCommInitRank", fmt::format(" {} {}", ranks, rank))) return failure;
  if (std::strcmp(id.bytes, "the stub's id") != 0) return invalid_argument;
  *comm = new MPI_Comm(stub_nccl()->ranks);
  ++stub_nccl()->communicators;
  return success;
}
int ncclCommDestroy(MPI_Comm* comm) {
  --stub_nccl()->communicators;
  delete comm;
  return success;
}

int ncclAllReduce(const void* send, void* recv, std::size_t count, int type, int op, MPI_Comm* comm,
                  CUstream_st* stream) {
  return collective(
      "ncclAllReduce", fmt::format(" {} {} {}", count, type, op), send, recv, stream, [=] {
        MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, static_cast<int>(count),
                      type_of(type).arithmetic, operation_of(op), *comm);
        if (op == 4) average(recv, count, type, ranks_of(*comm));
      });
}
/// In place, `recv` is this rank's block of `send`.
int ncclReduceScatter(const void* send, void* recv, std::size_t count, int type, int op,
                      MPI_Comm* comm, CUstream_st* stream) {
  return collective("ncclReduceScatter", fmt::format(" {} {} {}", count, type, op), send, recv,
                    stream, [=] {
                      std::vector<std::byte> result(count * type_of(type).bytes);
                      MPI_Reduce_scatter_block(send, result.data(), static_cast<int>(count),
                                               type_of(type).arithmetic, operation_of(op), *comm);
                      std::memcpy(recv, result.data(), result.size());
                      if (op == 4) average(recv, count, type, ranks_of(*comm));
                    });
}
int ncclAllGather(const void* send, void* recv, std::size_t count, int type, MPI_Comm* comm,
                  CUstream_st* stream) {
  return collective("ncclAllGather", fmt::format(" {} {}", count, type), send, recv, stream, [=] {
    const std::size_t bytes = count * type_of(type).bytes;
    const auto* const first = static_cast<const std::byte*>(send);
    const std::vector<std::byte> block(first, first + bytes);  // in place, it lies in `recv`
    MPI_Allgather(block.data(), static_cast<int>(bytes), MPI_BYTE, recv, static_cast<int>(bytes),
                  MPI_BYTE, *comm);
  });
}
int ncclBroadcast(const void* send, void* recv, std::size_t count, int type, int root,
                  MPI_Comm* comm, CUstream_st* stream) {
  return collective("ncclBroadcast", fmt::format(" {} {} {}", count, type, root), send, recv,
                    stream, [=] {
                      const std::size_t bytes = count * type_of(type).bytes;
                      int rank = 0;
                      MPI_Comm_rank(*comm, &rank);
                      if (rank == root) std::memmove(recv, send, bytes);
                      MPI_Bcast(recv, static_cast<int>(bytes), MPI_BYTE, root, *comm);
                    });
}
#ifndef STUB_NCCL_INCOMPLETE
int ncclReduce(const void* send, void* recv, std::size_t count, int type, int op, int root,
               MPI_Comm* comm, CUstream_st* stream) {
  return collective("ncclReduce", fmt::format(" {} {} {} {}", count, type, op, root), send, recv,
                    stream, [=] {
                      int rank = 0;
                      MPI_Comm_rank(*comm, &rank);
                      MPI_Reduce(rank == root && send == recv ? MPI_IN_PLACE : send,
                                 rank == root ? recv : nullptr, static_cast<int>(count),
                                 type_of(type).arithmetic, operation_of(op), root, *comm);
                      if (rank == root && op == 4) average(recv, count, type, ranks_of(*comm));
                    });
}
#endif
int ncclSend(const void* data, std::size_t count, int type, int peer, MPI_Comm* comm,
             CUstream_st* stream) {
  return message("ncclSend", true, data, count, type, peer, comm, stream);
}
int ncclRecv(void* data, std::size_t count, int type, int peer, MPI_Comm* comm,
             CUstream_st* stream) {
  return message("ncclRecv", false, data, count, type, peer, comm, stream);
}
int ncclGroupStart() {
  if (!noted("ncclGroupStart")) return failure;
  ++group_depth;
  return success;
}
int ncclGroupEnd() {
  if (!noted("ncclGroupEnd")) return failure;
  if (--group_depth > 0 || group.empty()) return success;
  CUstream_st* const stream = group.front().stream;
  stub_nccl()->enqueue(stream, [messages = std::exchange(group, {})] { exchange(messages); });
  return success;
}

#ifndef STUB_NCCL_OLD
int ncclMemAlloc(void** pointer, std::size_t bytes) {
  if (!noted("ncclMemAlloc", fmt::format(" {}", bytes))) return failure;
  *pointer = std::malloc(bytes);
  ++stub_nccl()->allocations;
  return success;
}
int ncclMemFree(void* pointer) {
  noted("ncclMemFree");
  std::free(pointer);
  --stub_nccl()->allocations;
  return success;
}
int ncclCommWindowRegister(MPI_Comm* comm, void* memory, std::size_t bytes, void** window,
                           int flags) {
  if (!noted("ncclCommWindowRegister", fmt::format(" {} {}", bytes, flags))) return failure;
  *window = nullptr;
  if (comm == nullptr || !stub_nccl()->makes_windows) return success;
  *window = memory;
  ++stub_nccl()->windows;
  return success;
}
int ncclCommWindowDeregister(MPI_Comm* comm, void*) {
  if (!noted("ncclCommWindowDeregister") || comm == nullptr) return failure;
  --stub_nccl()->windows;
  return success;
}
#endif

}  // extern "C"
