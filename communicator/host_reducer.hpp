// Reductions by a function of the program (HostOperation): calls that move bytes, and tasks between
// them that call the function.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "plait/call.hpp"
#include "plait/host_operation.hpp"
#include "plait/stream.hpp"

namespace plait {

class CommunicatorState;

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
  explicit HostReducer(CommunicatorState& state) : state_(state) {}

  /// Enqueues a reduction that was checked and has elements. An error in its midst breaks the
  /// communicator.
  void run(const HostReduction& reduction, StreamRef stream);

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

  CommunicatorState& state_;
  std::vector<Memory> memories_;  // the last one is in use; graphs may use the others
};

}  // namespace plait
