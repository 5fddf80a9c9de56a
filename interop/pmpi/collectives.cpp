// MPI's collective functions, in front of those of the MPI below (the profiling interface of MPI).
//
// What travels is bytes: ranks may describe the same data by different types, so whether a rank's
// type lies in a row must not decide who serves a call. Reductions have the same type and operation
// on all ranks.
#include <mpi.h>

#include <cstring>

#include "interop/pmpi/data.hpp"
#include "interop/pmpi/served.hpp"

namespace plait::pmpi {
namespace {

const CallOptions& blocking() {
  static const CallOptions options{.blocking = true};
  return options;
}
constexpr DataType bytes = DataType::u8;

bool is_rank(const Communicator& own, int root) { return root >= 0 && root < own.size(); }
std::size_t size(int count) { return static_cast<std::size_t>(count); }

/// Makes `call(send, count, type and operation)` if Plait has both; in place, `recv` is sent.
template <class Call>
bool reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
            const Call& call) {
  const auto as = reduced(type, op);
  if (!as || count < 0) return false;
  call(send == MPI_IN_PLACE ? recv : send, size(count), *as);
  return true;
}

bool broadcast(Communicator& own, void* buffer, int count, MPI_Datatype type, int root,
               MPI_Comm comm) {
  if (count < 0 || !is_rank(own, root)) return false;
  const bool sends = own.rank() == root;
  const Received data(buffer, size(count), type, comm, sends);
  own.broadcast(data.data(), data.data(), bytes_of(size(count), type), bytes, root, {}, blocking());
  if (!sends) data.unpack();
  return true;
}

bool all_gather(Communicator& own, const void* send, int send_count, MPI_Datatype send_type,
                void* recv, int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  if (recv_count < 0 || (!in_place && send_count < 0)) return false;
  const std::size_t block = bytes_of(size(recv_count), recv_type);
  const Received all(recv, size(recv_count) * size(own.size()), recv_type, comm, in_place);
  const Sent mine = in_place ? Sent() : Sent(send, size(send_count), send_type, comm);
  own.all_gather(in_place ? all.data() + size(own.rank()) * block : mine.data(), all.data(), block,
                 bytes, {}, blocking());
  all.unpack();
  return true;
}

bool all_gather_v(Communicator& own, const void* send, int send_count, MPI_Datatype send_type,
                  void* recv, const BlocksOfMpi<int>& blocks, MPI_Datatype recv_type,
                  MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  if (!in_place && send_count < 0) return false;
  const Received all(recv, blocks, own.size(), recv_type, comm, in_place);
  const Sent mine = in_place ? Sent() : Sent(send, size(send_count), send_type, comm);
  const auto [counts, places] = all.blocks();
  const auto rank = size(own.rank());
  own.all_gather_v(in_place ? all.data() + places[rank] : mine.data(),
                   in_place ? counts[rank] : mine.bytes(), all.data(), all.blocks(), bytes, {},
                   blocking());
  all.unpack();
  return true;
}

bool gather(Communicator& own, const void* send, int send_count, MPI_Datatype send_type, void* recv,
            int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (!is_rank(own, root)) return false;
  const bool is_root = own.rank() == root, in_place = is_root && send == MPI_IN_PLACE;
  const std::size_t block =
      is_root ? bytes_of(size(recv_count), recv_type) : bytes_of(size(send_count), send_type);
  const Received all =
      is_root ? Received(recv, size(recv_count) * size(own.size()), recv_type, comm, in_place)
              : Received();
  const Sent mine = in_place ? Sent() : Sent(send, size(send_count), send_type, comm);
  own.gather(in_place ? all.data() + size(root) * block : mine.data(), all.data(), block, bytes,
             root, {}, blocking());
  all.unpack();
  return true;
}

bool gather_v(Communicator& own, const void* send, int send_count, MPI_Datatype send_type,
              void* recv, const BlocksOfMpi<int>& blocks, MPI_Datatype recv_type, int root,
              MPI_Comm comm) {
  if (!is_rank(own, root)) return false;
  const bool is_root = own.rank() == root, in_place = is_root && send == MPI_IN_PLACE;
  const Received all =
      is_root ? Received(recv, blocks, own.size(), recv_type, comm, in_place) : Received();
  const Sent mine = in_place ? Sent() : Sent(send, size(send_count), send_type, comm);
  const auto [counts, places] = all.blocks();
  own.gather_v(in_place ? all.data() + places[size(root)] : mine.data(),
               in_place ? counts[size(root)] : mine.bytes(), all.data(), all.blocks(), bytes, root,
               {}, blocking());
  all.unpack();
  return true;
}

bool scatter(Communicator& own, const void* send, int send_count, MPI_Datatype send_type,
             void* recv, int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  if (!is_rank(own, root)) return false;
  const bool is_root = own.rank() == root, in_place = is_root && recv == MPI_IN_PLACE;
  const std::size_t block =
      is_root ? bytes_of(size(send_count), send_type) : bytes_of(size(recv_count), recv_type);
  const Sent all =
      is_root ? Sent(send, size(send_count) * size(own.size()), send_type, comm) : Sent();
  const Received mine = in_place ? Received() : Received(recv, size(recv_count), recv_type, comm);
  // In place, nothing is stored there: the block is where it was.
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(all.data()));
  own.scatter(all.data(), in_place ? begin + size(root) * block : mine.data(), block, bytes, root,
              {}, blocking());
  mine.unpack();
  return true;
}

bool scatter_v(Communicator& own, const void* send, const BlocksOfMpi<int>& blocks,
               MPI_Datatype send_type, void* recv, int recv_count, MPI_Datatype recv_type, int root,
               MPI_Comm comm) {
  if (!is_rank(own, root)) return false;
  const bool is_root = own.rank() == root, in_place = is_root && recv == MPI_IN_PLACE;
  const Sent all = is_root ? Sent(send, blocks, own.size(), send_type, comm) : Sent();
  const Received mine = in_place ? Received() : Received(recv, size(recv_count), recv_type, comm);
  const auto [counts, places] = all.blocks();
  const auto* const begin = static_cast<const std::byte*>(all.data());
  own.scatter_v(all.data(), all.blocks(),
                in_place ? const_cast<std::byte*>(begin + places[size(root)]) : mine.data(),
                in_place ? counts[size(root)] : bytes_of(size(recv_count), recv_type), bytes, root,
                {}, blocking());
  mine.unpack();
  return true;
}

bool all_to_all(Communicator& own, const void* send, int send_count, MPI_Datatype send_type,
                void* recv, int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  if (recv_count < 0 || (!in_place && send_count < 0)) return false;
  const std::size_t ranks = size(own.size());
  const Received all(recv, size(recv_count) * ranks, recv_type, comm, in_place);
  const Sent mine = in_place ? Sent() : Sent(send, size(send_count) * ranks, send_type, comm);
  own.all_to_all(in_place ? all.data() : mine.data(), all.data(),
                 bytes_of(size(recv_count), recv_type), bytes, {}, blocking());
  all.unpack();
  return true;
}

bool all_to_all_v(Communicator& own, const void* send, const BlocksOfMpi<int>& sent,
                  MPI_Datatype send_type, void* recv, const BlocksOfMpi<int>& received,
                  MPI_Datatype recv_type, MPI_Comm comm) {
  if (send == MPI_IN_PLACE) return false;  // on all ranks or none
  const Sent mine(send, sent, own.size(), send_type, comm);
  const Received all(recv, received, own.size(), recv_type, comm);
  own.all_to_all_v(mine.data(), mine.blocks(), all.data(), all.blocks(), bytes, {}, blocking());
  all.unpack();
  return true;
}

/// In place, which not all ranks need be: all blocks lie in `recv`, and the result comes to its
/// beginning, where another rank's block is.
template <class Call>
bool reduce_scatter(const void* send, void* recv, std::size_t count, MPI_Datatype type, MPI_Op op,
                    const Call& call) {
  const auto as = reduced(type, op);
  if (!as) return false;
  if (send != MPI_IN_PLACE) {
    call(send, recv, *as);
    return true;
  }
  const std::size_t result_bytes = count * size_of(as->type);
  const auto result = std::make_unique_for_overwrite<std::byte[]>(result_bytes);
  call(recv, result.get(), *as);
  if (result_bytes != 0) std::memcpy(recv, result.get(), result_bytes);
  return true;
}

}  // namespace
}  // namespace plait::pmpi

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::pmpi;  // NOLINT(google-build-using-namespace)

// Those without a root differ in their names alone.
#define PLAIT_PMPI_REDUCES(NAME, OWN)                                                   \
  int MPI_##NAME(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, \
                 MPI_Comm comm) {                                                       \
    return serve(                                                                       \
        Function::NAME, comm,                                                           \
        [&](Communicator& own) {                                                        \
          return reduce(send, recv, count, type, op,                                    \
                        [&](const void* from, std::size_t n, Reduced as) {              \
                          own.OWN(from, recv, n, as.type, as.op, {}, blocking());       \
                        });                                                             \
        },                                                                              \
        [&] { return PMPI_##NAME(send, recv, count, type, op, comm); });                \
  }
PLAIT_PMPI_REDUCES(Allreduce, all_reduce)
PLAIT_PMPI_REDUCES(Scan, scan)
PLAIT_PMPI_REDUCES(Exscan, exscan)
#undef PLAIT_PMPI_REDUCES

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  return serve(
      Function::Reduce, comm,
      [&](Communicator& own) {
        if (!is_rank(own, root)) return false;
        return reduce(send, recv, count, type, op,
                      [&](const void* from, std::size_t n, Reduced as) {
                        own.reduce(from, recv, n, as.type, as.op, root, {}, blocking());
                      });
      },
      [&] { return PMPI_Reduce(send, recv, count, type, op, root, comm); });
}
int MPI_Reduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  return serve(
      Function::Reduce_scatter_block, comm,
      [&](Communicator& own) {
        if (count < 0) return false;
        return reduce_scatter(
            send, recv, size(count), type, op, [&](const void* from, void* to, Reduced as) {
              own.reduce_scatter(from, to, size(count), as.type, as.op, {}, blocking());
            });
      },
      [&] { return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm); });
}
int MPI_Reduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  return serve(
      Function::Reduce_scatter, comm,
      [&](Communicator& own) {
        const std::vector<std::size_t> each(counts, counts + own.size());
        return reduce_scatter(send, recv, each[size(own.rank())], type, op,
                              [&](const void* from, void* to, Reduced as) {
                                own.reduce_scatter_v(from, each, to, as.type, as.op, {},
                                                     blocking());
                              });
      },
      [&] { return PMPI_Reduce_scatter(send, recv, counts, type, op, comm); });
}
int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return serve(
      Function::Bcast, comm,
      [&](Communicator& own) { return broadcast(own, buffer, count, type, root, comm); },
      [&] { return PMPI_Bcast(buffer, count, type, root, comm); });
}
int MPI_Barrier(MPI_Comm comm) {
  return serve(
      Function::Barrier, comm,
      [&](Communicator& own) {
        own.barrier({}, blocking());
        return true;
      },
      [&] { return PMPI_Barrier(comm); });
}

// Those that move blocks differ in their parameters alone.
#define PLAIT_PMPI_MOVES(NAME, OWN, PARAMETERS, ARGUMENTS, OWN_ARGUMENTS)           \
  int MPI_##NAME PARAMETERS {                                                       \
    return serve(                                                                   \
        Function::NAME, comm, [&](Communicator& own) { return OWN OWN_ARGUMENTS; }, \
        [&] { return PMPI_##NAME ARGUMENTS; });                                     \
  }
PLAIT_PMPI_MOVES(Allgather, all_gather,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, MPI_Comm comm),
                 (send, send_count, send_type, recv, recv_count, recv_type, comm),
                 (own, send, send_count, send_type, recv, recv_count, recv_type, comm))
PLAIT_PMPI_MOVES(Alltoall, all_to_all,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, MPI_Comm comm),
                 (send, send_count, send_type, recv, recv_count, recv_type, comm),
                 (own, send, send_count, send_type, recv, recv_count, recv_type, comm))
PLAIT_PMPI_MOVES(Gather, gather,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm),
                 (send, send_count, send_type, recv, recv_count, recv_type, root, comm),
                 (own, send, send_count, send_type, recv, recv_count, recv_type, root, comm))
PLAIT_PMPI_MOVES(Scatter, scatter,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm),
                 (send, send_count, send_type, recv, recv_count, recv_type, root, comm),
                 (own, send, send_count, send_type, recv, recv_count, recv_type, root, comm))
PLAIT_PMPI_MOVES(Allgatherv, all_gather_v,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  const int counts[], const int places[], MPI_Datatype recv_type, MPI_Comm comm),
                 (send, send_count, send_type, recv, counts, places, recv_type, comm),
                 (own, send, send_count, send_type, recv, {counts, places}, recv_type, comm))
PLAIT_PMPI_MOVES(Gatherv, gather_v,
                 (const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  const int counts[], const int places[], MPI_Datatype recv_type, int root,
                  MPI_Comm comm),
                 (send, send_count, send_type, recv, counts, places, recv_type, root, comm),
                 (own, send, send_count, send_type, recv, {counts, places}, recv_type, root, comm))
PLAIT_PMPI_MOVES(Scatterv, scatter_v,
                 (const void* send, const int counts[], const int places[], MPI_Datatype send_type,
                  void* recv, int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm),
                 (send, counts, places, send_type, recv, recv_count, recv_type, root, comm),
                 (own, send, {counts, places}, send_type, recv, recv_count, recv_type, root, comm))
PLAIT_PMPI_MOVES(Alltoallv, all_to_all_v,
                 (const void* send, const int send_counts[], const int send_places[],
                  MPI_Datatype send_type, void* recv, const int recv_counts[],
                  const int recv_places[], MPI_Datatype recv_type, MPI_Comm comm),
                 (send, send_counts, send_places, send_type, recv, recv_counts, recv_places,
                  recv_type, comm),
                 (own, send, {send_counts, send_places}, send_type, recv,
                  {recv_counts, recv_places}, recv_type, comm))
#undef PLAIT_PMPI_MOVES

int MPI_Comm_free(MPI_Comm* comm) {
  forget(*comm);
  return PMPI_Comm_free(comm);
}
int MPI_Comm_disconnect(MPI_Comm* comm) {
  forget(*comm);
  return PMPI_Comm_disconnect(comm);
}
int MPI_Finalize() {
  forget_all();
  report();
  return PMPI_Finalize();
}
