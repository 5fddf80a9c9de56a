// What a collective call is, as far as all ranks agree on it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>

#include "plait/language.hpp"
#include "plait/types.hpp"

namespace plait {

/// The order in which the elements of a multidimensional array lie in memory.
enum class ArrayOrder : unsigned char {
  unsaid,         ///< a pointer and a count: agrees with any
  first_fastest,  ///< as Fortran's arrays, and Kokkos's LayoutLeft
  last_fastest,   ///< as C's arrays, and Kokkos's LayoutRight
  other
};

/// The order in which the terms of ranks are added (docs/same-bits.md).
enum class SumOrder : unsigned char {
  any,    ///< the algorithm's
  ranks,  ///< the order of the ranks; 16-bit and 8-bit floats are added in f32 and rounded once
  tree    ///< a binary tree over the ranks; every partial sum is rounded to the type of the data
};

/// The facts of a call that are equal on all ranks; algorithms are chosen from these alone.
struct Call {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;  ///< elements of a block: what one rank contributes, or receives
  /// The buffers that every rank has lie in symmetric memory of the communicator, at the same
  /// offset on every rank. For messages: the receive buffer is symmetric, and the sender knows its
  /// offset (CallOptions::symmetric).
  bool symmetric = false;
  /// `symmetric`, and one buffer lies within the other. In ordinary memory, and in calls with a
  /// root, ranks may differ here, so the flag stays false.
  bool in_place = false;
  double scale = 1;  ///< factor of premul_sum; 1: that of CallOptions
  int root = 0;
  /// Blocks in the larger buffer: the number of ranks, or 1. The communicator fills it in.
  int parts = 1;
  /// Of the elements within a block. No algorithm reads it. Ranks with different orders would
  /// combine elements that do not belong together, so a difference is Error(mismatch). Messages
  /// have none.
  ArrayOrder order = ArrayOrder::unsaid;
  /// What the sum's bits demand. The communicator fills it in.
  SumOrder sum_order = SumOrder::any;

  constexpr std::size_t block_bytes() const { return count * size_of(type); }
  /// Size of the larger buffer. Tables, rules and benchmarks call it the size of a message.
  constexpr std::size_t bytes() const { return block_bytes() * static_cast<std::size_t>(parts); }
  friend bool operator==(const Call&, const Call&) = default;
};

/// Wishes for one call. Equal on all ranks, except for `blocking`.
struct CallOptions {
  /// Name of an algorithm or of a policy; empty: the library chooses. Error(invalid_argument) if
  /// the name is unknown, or the communicator is reproducible and the algorithm would give other
  /// bits; Error(unsupported) if the algorithm can't serve the call.
  std::string algorithm{};
  double scale = 1;      ///< factor of premul_sum
  unsigned blocks = 0;   ///< blocks of the launch; 0: the algorithm's choice
  unsigned threads = 0;  ///< threads per block; 0: the algorithm's choice
  /// Only for `send_recv`: `recv` lies in symmetric memory, at the same offset as on the rank that
  /// this rank sends to, so messages can go straight there. A rank that receives nothing, or less
  /// than it sends, passes such a `recv` as well. For collectives the communicator finds out.
  bool symmetric = false;
  /// The call returns when the result is there: it then waits as `Communicator::synchronize` on its
  /// stream, and throws what that throws. Ranks may differ here. `Error(invalid_argument)` in a
  /// group, and on a stream that is being captured: nothing would have begun yet.
  bool blocking = false;
};

}  // namespace plait
