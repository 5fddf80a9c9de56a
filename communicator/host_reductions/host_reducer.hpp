// Reductions by a function of the program (HostOperation): calls that move bytes, and tasks between
// them that call the function.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "communicator/calls/collective_calls.hpp"
#include "plait/host_operation.hpp"
#include "plait/stream.hpp"

namespace plait {

/// A reduction as the user asked for it.
struct HostReduction {
  Collective collective;
  const void* send;
  void* recv;
  std::size_t count;
  const HostOperation& op;
  int root = 0;

  /// The type as which the elements are moved. Ranks have the same, because the alignment of their
  /// buffers does not count.
  DataType unit() const {
    return op.alignment >= 8 ? DataType::u64 : op.alignment >= 4 ? DataType::u32 : DataType::u8;
  }
  /// Units in `elements` elements.
  std::size_t units(std::size_t elements) const {
    return elements * (op.element_bytes / size_of(unit()));
  }
};

/// Checks what concerns the operation, and the null pointers, the count and the alignment, for
/// which a call that moves bytes has other numbers. Throws Error(invalid_argument) or
/// Error(unsupported). `elements`: bytes of the typed buffers' elements; 0: they have no type.
void check_host_operation(const HostReduction& reduction, std::size_t elements, BackendKind backend,
                          int rank, int ranks);

/// A short message is exchanged whole: each rank that needs the result gathers all terms and
/// combines them. A long one is cut in a part per rank: each rank gathers the terms of its part
/// (all_to_all) and combines them, and the results are gathered. reduce_scatter needs only the
/// first half of that. In a scan each rank gathers all terms, and combines the first ones.
///
/// The terms meet in work memory that the first reduction allocates. Longer messages take several
/// rounds. Calls of one communicator run one after another, so all use the same memory. Graphs keep
/// its address, so it lives as long as this object.
class HostReducer {
 public:
  HostReducer(CommunicatorResources& own, const Faults& faults, CallPath& path,
              CollectiveCalls& collectives)
      : own_(own), faults_(faults), path_(path), collectives_(collectives) {}

  /// Checks the reduction and enqueues it. `elements`: as for `check_host_operation`. An error in
  /// its midst breaks the communicator.
  void reduce(const HostReduction& reduction, std::size_t elements, StreamRef stream);

 private:
  class Rounds;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  struct Memory {
    std::unique_ptr<std::byte, Free> begin;
    std::size_t bytes;
  };
  const Memory& memory_for(std::size_t element_bytes);
  const Memory& memory_or_abort(const HostReduction& reduction);

  void check(const HostReduction& reduction, std::size_t elements, StreamRef stream) const;
  void enqueue(const HostReduction& reduction, StreamRef stream);
  template <class Function>
  void run_between_calls(StreamRef stream, Function function);

  CommunicatorResources& own_;
  const Faults& faults_;
  CallPath& path_;
  CollectiveCalls& collectives_;
  std::vector<Memory> memories_;  // the last one is in use; graphs may use the others
};

}  // namespace plait
