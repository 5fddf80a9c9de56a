// MPI's collective calls as Plait's. Each function here says which data a call sends and receives,
// and how it is made, and hands that to `use(sent, received, call)`; or returns false, on all ranks
// alike, if Plait can't serve the call. `use` makes the call at once or later, once or often:
// `call(own, sent, received, how)`.
//
// What travels is bytes: ranks may describe the same data by different types, so whether a rank's
// type lies in a row must not decide who serves a call. Reductions have the same type and operation
// on all ranks.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "interop/pmpi/data.hpp"
#include "plait/call.hpp"
#include "plait/communicator.hpp"

namespace plait::pmpi {

/// How a call is made.
struct How {
  StreamRef stream;
  const CallOptions& options;
};

constexpr DataType bytes = DataType::u8;

inline bool is_rank(const Communicator& own, int root) { return root >= 0 && root < own.size(); }
template <class Count>
std::size_t size(Count count) {
  return static_cast<std::size_t>(count);
}

/// Where nothing must be packed. Data that are sent are not changed.
inline Data as_it_is(const void* buffer) {
  return {Data::Use::sent, buffer, 0, MPI_BYTE, MPI_COMM_NULL};
}

/// A reduction to as many elements as each rank gives. In place, `recv` is sent.
/// `call(own, from, to, count, type and operation, how)`.
template <class Call, class Count, class Use>
bool reduction_by(const Call& call, const void* send, void* recv, Count count, MPI_Datatype type,
                  MPI_Op op, const Use& use) {
  const auto as = reduced(type, op);
  if (!as || count < 0) return false;
  use(as_it_is(send == MPI_IN_PLACE ? recv : send), as_it_is(recv),
      [=](Communicator& own, const Data& sent, const Data& received, const How& how) {
        call(own, sent.data(), received.data(), size(count), *as, how);
      });
  return true;
}
using WithoutRoot = void (Communicator::*)(const void*, void*, std::size_t, DataType, ReduceOp,
                                           StreamRef, const CallOptions&);
template <class Count, class Use>
bool reduction(Communicator&, WithoutRoot function, const void* send, void* recv, Count count,
               MPI_Datatype type, MPI_Op op, const Use& use) {
  return reduction_by(
      [function](Communicator& own, const void* from, void* to, std::size_t n, Reduced as,
                 const How& how) {
        (own.*function)(from, to, n, as.type, as.op, how.stream, how.options);
      },
      send, recv, count, type, op, use);
}
template <class Count, class Use>
bool reduce(Communicator& on, const void* send, void* recv, Count count, MPI_Datatype type,
            MPI_Op op, int root, const Use& use) {
  return is_rank(on, root) &&
         reduction_by(
             [root](Communicator& own, const void* from, void* to, std::size_t n, Reduced as,
                    const How& how) {
               own.reduce(from, to, n, as.type, as.op, root, how.stream, how.options);
             },
             send, recv, count, type, op, use);
}

/// In place, which not all ranks need be: all blocks lie in `recv`, and the result comes to its
/// beginning, where another rank's block is. `call(own, from, to, type and operation, how)`.
template <class Call, class Use>
bool scattered_reduction(const void* send, void* recv, std::size_t count, MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm, const Call& call, const Use& use) {
  const auto as = reduced(type, op);
  if (!as) return false;
  const bool in_place = send == MPI_IN_PLACE;
  const std::size_t result_bytes = count * size_of(as->type);
  use(as_it_is(in_place ? recv : send),
      in_place ? Data(Data::Use::received, recv, result_bytes, MPI_BYTE, comm, true)
               : as_it_is(recv),
      [=](Communicator& own, const Data& sent, const Data& received, const How& how) {
        call(own, sent.data(), received.data(), *as, how);
      });
  return true;
}
template <class Count, class Use>
bool reduce_scatter_block(Communicator&, const void* send, void* recv, Count count,
                          MPI_Datatype type, MPI_Op op, MPI_Comm comm, const Use& use) {
  if (count < 0) return false;
  return scattered_reduction(
      send, recv, size(count), type, op, comm,
      [count](Communicator& own, const void* from, void* to, Reduced as, const How& how) {
        own.reduce_scatter(from, to, size(count), as.type, as.op, how.stream, how.options);
      },
      use);
}
template <class Count, class Use>
bool reduce_scatter(Communicator& on, const void* send, void* recv, const Count counts[],
                    MPI_Datatype type, MPI_Op op, MPI_Comm comm, const Use& use) {
  const std::vector<std::size_t> each(counts, counts + on.size());
  return scattered_reduction(
      send, recv, each[size(on.rank())], type, op, comm,
      [each](Communicator& own, const void* from, void* to, Reduced as, const How& how) {
        own.reduce_scatter_v(from, each, to, as.type, as.op, how.stream, how.options);
      },
      use);
}

template <class Use>
bool barrier(Communicator&, const Use& use) {
  use(Data(), Data(), [](Communicator& own, const Data&, const Data&, const How& how) {
    own.barrier(how.stream, how.options);
  });
  return true;
}

template <class Count, class Use>
bool broadcast(Communicator& on, void* buffer, Count count, MPI_Datatype type, int root,
               MPI_Comm comm, const Use& use) {
  if (count < 0 || !is_rank(on, root)) return false;
  const auto as = on.rank() == root ? Data::Use::sent : Data::Use::received;
  use(Data(as, buffer, size(count), type, comm), Data(),
      [root](Communicator& own, const Data& data, const Data&, const How& how) {
        own.broadcast(data.data(), data.data(), data.bytes(), bytes, root, how.stream, how.options);
      });
  return true;
}

/// The data that a call brings: in place, what lies there is sent, too.
inline Data::Use brought(bool in_place) {
  return in_place ? Data::Use::changed : Data::Use::received;
}
/// What this rank sends: in place, nothing besides what it receives.
template <class Count>
Data given(bool in_place, const void* send, Count count, MPI_Datatype type, MPI_Comm comm) {
  return in_place ? Data() : Data(Data::Use::sent, send, size(count), type, comm);
}

template <class Count, class Use>
bool all_gather(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
                void* recv, Count recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                const Use& use) {
  const bool in_place = send == MPI_IN_PLACE;
  if (recv_count < 0 || (!in_place && send_count < 0)) return false;
  const std::size_t block = bytes_of(size(recv_count), recv_type);
  use(given(in_place, send, send_count, send_type, comm),
      Data(brought(in_place), recv, size(recv_count) * size(on.size()), recv_type, comm),
      [=](Communicator& own, const Data& mine, const Data& all, const How& how) {
        own.all_gather(in_place ? all.data() + size(own.rank()) * block : mine.data(), all.data(),
                       block, bytes, how.stream, how.options);
      });
  return true;
}

template <class Count, class Place, class Use>
bool all_gather_v(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
                  void* recv, const BlocksOfMpi<Count, Place>& blocks, MPI_Datatype recv_type,
                  MPI_Comm comm, const Use& use) {
  const bool in_place = send == MPI_IN_PLACE;
  if (!in_place && send_count < 0) return false;
  use(given(in_place, send, send_count, send_type, comm),
      Data(brought(in_place), recv, blocks, on.size(), recv_type, comm),
      [=](Communicator& own, const Data& mine, const Data& all, const How& how) {
        const auto [counts, places] = all.blocks();
        const auto rank = size(own.rank());
        own.all_gather_v(in_place ? all.data() + places[rank] : mine.data(),
                         in_place ? counts[rank] : mine.bytes(), all.data(), all.blocks(), bytes,
                         how.stream, how.options);
      });
  return true;
}

template <class Count, class Use>
bool gather(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
            void* recv, Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
            const Use& use) {
  if (!is_rank(on, root)) return false;
  const bool is_root = on.rank() == root, in_place = is_root && send == MPI_IN_PLACE;
  if ((is_root && recv_count < 0) || (!in_place && send_count < 0)) return false;
  const std::size_t block =
      is_root ? bytes_of(size(recv_count), recv_type) : bytes_of(size(send_count), send_type);
  use(given(in_place, send, send_count, send_type, comm),
      is_root ? Data(brought(in_place), recv, size(recv_count) * size(on.size()), recv_type, comm)
              : Data(),
      [=](Communicator& own, const Data& mine, const Data& all, const How& how) {
        own.gather(in_place ? all.data() + size(root) * block : mine.data(), all.data(), block,
                   bytes, root, how.stream, how.options);
      });
  return true;
}

template <class Count, class Place, class Use>
bool gather_v(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
              void* recv, const BlocksOfMpi<Count, Place>& blocks, MPI_Datatype recv_type, int root,
              MPI_Comm comm, const Use& use) {
  if (!is_rank(on, root)) return false;
  const bool is_root = on.rank() == root, in_place = is_root && send == MPI_IN_PLACE;
  if (!in_place && send_count < 0) return false;
  use(given(in_place, send, send_count, send_type, comm),
      is_root ? Data(brought(in_place), recv, blocks, on.size(), recv_type, comm) : Data(),
      [=](Communicator& own, const Data& mine, const Data& all, const How& how) {
        const auto [counts, places] = all.blocks();
        own.gather_v(in_place ? all.data() + places[size(root)] : mine.data(),
                     in_place ? counts[size(root)] : mine.bytes(), all.data(), all.blocks(), bytes,
                     root, how.stream, how.options);
      });
  return true;
}

template <class Count, class Use>
bool scatter(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
             void* recv, Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
             const Use& use) {
  if (!is_rank(on, root)) return false;
  const bool is_root = on.rank() == root, in_place = is_root && recv == MPI_IN_PLACE;
  if ((is_root && send_count < 0) || (!in_place && recv_count < 0)) return false;
  const std::size_t block =
      is_root ? bytes_of(size(send_count), send_type) : bytes_of(size(recv_count), recv_type);
  use(given(!is_root, send, size(send_count) * size(on.size()), send_type, comm),
      in_place ? Data() : Data(Data::Use::received, recv, size(recv_count), recv_type, comm),
      [=](Communicator& own, const Data& all, const Data& mine, const How& how) {
        // In place, nothing is stored there: the block is where it was.
        own.scatter(all.data(), in_place ? all.data() + size(root) * block : mine.data(), block,
                    bytes, root, how.stream, how.options);
      });
  return true;
}

template <class Count, class Place, class Use>
bool scatter_v(Communicator& on, const void* send, const BlocksOfMpi<Count, Place>& blocks,
               MPI_Datatype send_type, void* recv, Count recv_count, MPI_Datatype recv_type,
               int root, MPI_Comm comm, const Use& use) {
  if (!is_rank(on, root)) return false;
  const bool is_root = on.rank() == root, in_place = is_root && recv == MPI_IN_PLACE;
  if (!in_place && recv_count < 0) return false;
  use(is_root ? Data(Data::Use::sent, send, blocks, on.size(), send_type, comm) : Data(),
      in_place ? Data() : Data(Data::Use::received, recv, size(recv_count), recv_type, comm),
      [=](Communicator& own, const Data& all, const Data& mine, const How& how) {
        const auto [counts, places] = all.blocks();
        own.scatter_v(
            all.data(), all.blocks(), in_place ? all.data() + places[size(root)] : mine.data(),
            in_place ? counts[size(root)] : mine.bytes(), bytes, root, how.stream, how.options);
      });
  return true;
}

template <class Count, class Use>
bool all_to_all(Communicator& on, const void* send, Count send_count, MPI_Datatype send_type,
                void* recv, Count recv_count, MPI_Datatype recv_type, MPI_Comm comm,
                const Use& use) {
  const bool in_place = send == MPI_IN_PLACE;
  if (recv_count < 0 || (!in_place && send_count < 0)) return false;
  const std::size_t block = bytes_of(size(recv_count), recv_type);
  use(given(in_place, send, size(send_count) * size(on.size()), send_type, comm),
      Data(brought(in_place), recv, size(recv_count) * size(on.size()), recv_type, comm),
      [=](Communicator& own, const Data& mine, const Data& all, const How& how) {
        own.all_to_all(in_place ? all.data() : mine.data(), all.data(), block, bytes, how.stream,
                       how.options);
      });
  return true;
}

/// In place, what lies in `recv` is sent from a copy.
template <class Count, class Place, class Use>
bool all_to_all_v(Communicator& on, const void* send, BlocksOfMpi<Count, Place> sent,
                  MPI_Datatype send_type, void* recv, const BlocksOfMpi<Count, Place>& received,
                  MPI_Datatype recv_type, MPI_Comm comm, const Use& use) {
  const bool in_place = send == MPI_IN_PLACE;
  if (in_place) {
    send = recv;
    sent = received;
    send_type = recv_type;
  }
  use(Data(Data::Use::sent, send, sent, on.size(), send_type, comm, in_place),
      Data(Data::Use::received, recv, received, on.size(), recv_type, comm),
      [](Communicator& own, const Data& mine, const Data& all, const How& how) {
        own.all_to_all_v(mine.data(), mine.blocks(), all.data(), all.blocks(), bytes, how.stream,
                         how.options);
      });
  return true;
}

}  // namespace plait::pmpi
