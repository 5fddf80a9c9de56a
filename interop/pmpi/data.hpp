// MPI's types and operations as Plait's, and buffers of any type as bytes in a row.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plait/calls_on_spans.hpp"
#include "plait/communicator.hpp"
#include "plait/types.hpp"

namespace plait::pmpi {

struct Reduced {
  DataType type;
  ReduceOp op;
};
/// Both as Plait's, if Plait has them and MPI allows the one for the other. MPI asks all ranks for
/// the same, so the answer is the same on all.
std::optional<Reduced> reduced(MPI_Datatype type, MPI_Op op);

/// Bytes of data in `count` elements, without gaps.
std::size_t bytes_of(std::size_t count, MPI_Datatype type);

/// Counts and places of blocks, as MPI has them: in elements, and in extents of the type.
template <class Number>
struct BlocksOfMpi {
  const Number* counts;
  const Number* places;
};

/// Data to be sent: where they lie if they lie in a row, else packed.
class Sent {
 public:
  Sent() = default;
  Sent(const void* buffer, std::size_t count, MPI_Datatype type, MPI_Comm comm);
  /// `ranks` blocks: `blocks()` says where they are now, in bytes.
  template <class Number>
  Sent(const void* buffer, const BlocksOfMpi<Number>& given, int ranks, MPI_Datatype type,
       MPI_Comm comm);

  const void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Communicator::BlocksOf blocks() const { return {counts_, places_}; }

 private:
  const void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> packed_;
  std::vector<std::size_t> counts_, places_;
};

/// Room for data: where they are to lie if that is in a row, else in a row until `unpack`.
class Received {
 public:
  Received() = default;
  /// `filled`: what lies there now counts, so it is packed.
  Received(void* buffer, std::size_t count, MPI_Datatype type, MPI_Comm comm, bool filled = false);
  template <class Number>
  Received(void* buffer, const BlocksOfMpi<Number>& given, int ranks, MPI_Datatype type,
           MPI_Comm comm, bool filled = false);

  std::byte* data() const { return data_; }
  Communicator::BlocksOf blocks() const { return {counts_, places_}; }
  void unpack() const;

 private:
  struct Part {
    void* at;
    std::size_t count, begin;  // elements, and a place in `packed_`
  };

  std::byte* data_ = nullptr;
  std::unique_ptr<std::byte[]> packed_;
  std::vector<Part> parts_;
  std::vector<std::size_t> counts_, places_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace plait::pmpi
