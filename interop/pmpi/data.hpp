// MPI's types and operations as Plait's, and buffers of any type as bytes in a row.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
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
template <class Count, class Place>
struct BlocksOfMpi {
  const Count* counts;
  const Place* places;
};

/// Data of a call as bytes in a row: where the program has them if they lie in a row there, else in
/// memory of its own, from `pack` to `unpack`.
class Data {
 public:
  /// What the call does with them. Data that change are sent and received.
  enum class Use : std::uint8_t { sent, received, changed };

  Data() = default;
  /// `count` elements. `apart`: in memory of its own although they lie in a row.
  Data(Use use, const void* buffer, std::size_t count, MPI_Datatype type, MPI_Comm comm,
       bool apart = false);
  /// A block for each of `ranks` ranks: `blocks()` says where they are now, in bytes.
  template <class Count, class Place>
  Data(Use use, const void* buffer, const BlocksOfMpi<Count, Place>& given, int ranks,
       MPI_Datatype type, MPI_Comm comm, bool apart = false);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Communicator::BlocksOf blocks() const { return {counts_, places_}; }
  /// Before the call: takes what is sent.
  void pack() const;
  /// After the call: puts what was received into its place.
  void unpack() const;
  /// For calls that don't block: the program may free the type before they end.
  void keep_type();

 private:
  struct Part {
    std::byte* at;
    std::size_t count, begin;  // elements, and a place in `packed_`
  };
  Use use_ = Use::sent;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> packed_;
  std::vector<Part> parts_;  // of packed data
  std::vector<std::size_t> counts_, places_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::shared_ptr<void> own_type_;  // points nowhere, and frees the type
};

}  // namespace plait::pmpi
