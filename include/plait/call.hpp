// What a collective call is, as far as all ranks agree on it.
#pragma once
#include <cstddef>
#include <string>

#include "plait/language.hpp"
#include "plait/types.hpp"

namespace plait {

/// In which order the elements of an array of several extents lie in memory.
enum class ArrayOrder : unsigned char {
  unsaid,         ///< a pointer and a count: agrees with any
  first_fastest,  ///< as Fortran's arrays, and Kokkos's LayoutLeft
  last_fastest,   ///< as C's arrays, and Kokkos's LayoutRight
  other
};

/// The facts of a call that are equal on all ranks; algorithms are chosen from these alone.
struct Call {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;  ///< elements of a block: what one rank has of its own, or receives
  /// The buffers that every rank has lie in symmetric memory of the communicator, at the same
  /// offset on every rank. Of messages: the receiver's does, and the sender knows where
  /// (CallOptions::symmetric).
  bool symmetric = false;
  /// `symmetric`, and one buffer lies within the other. (Of ordinary memory, or with a root, ranks
  /// may differ in that.)
  bool in_place = false;
  double scale = 1;  ///< factor of premul_sum; 1: that of CallOptions
  int root = 0;
  int parts =
      1;  ///< blocks in the larger buffer: the number of ranks, or 1. Filled in by the communicator
  /// Of a block's elements. No algorithm asks for it: ranks that say different orders would combine
  /// other elements than they mean, so that is Error(mismatch). Not of messages.
  ArrayOrder order = ArrayOrder::unsaid;

  constexpr std::size_t block_bytes() const { return count * size_of(type); }
  /// Of the larger buffer: what tables, rules and benchmarks call the size of a message.
  constexpr std::size_t bytes() const { return block_bytes() * static_cast<std::size_t>(parts); }
  friend bool operator==(const Call&, const Call&) = default;
};

/// Per-call wishes. The same on all ranks.
struct CallOptions {
  std::string algorithm{};  ///< a name of the registry or of a policy; empty: chosen.
                            ///< Error(invalid_argument) if unknown, Error(unsupported) if it can't
                            ///< serve the call
  double scale = 1;         ///< factor of premul_sum
  unsigned blocks = 0;      ///< of the launch; 0: the algorithm's own choice
  unsigned threads = 0;     ///< a block; 0: the algorithm's own choice
  /// Of `send_recv` alone: `recv` lies in symmetric memory, at the offset at which the rank that is
  /// sent to receives; so messages can go straight there. Also a rank that receives nothing, or
  /// less, passes that `recv`. Of collectives that is found out.
  bool symmetric = false;
};

}  // namespace plait
