// Calls with a count per rank, or per neighbour: what each rank sends and receives in them.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "communicator/calls/known_calls.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "plait/communicator.hpp"
#include "plait/types.hpp"

namespace plait {

/// The ends of the messages that such a call consists of, on one rank. Each function checks the
/// arguments and throws `Error(invalid_argument)`, which names the call, the rank and the values.
/// Buffers are checked where all messages are.
class VectorCall {
 public:
  using BlocksOf = Communicator::BlocksOf;
  using NeighborBlocks = Communicator::NeighborBlocks;
  using Ends = std::vector<MessageEnd>;

  /// `what`: the call, as the user wrote it.
  VectorCall(std::string_view what, DataType type, int rank, int ranks);

  Ends all_to_all(const void* send, const BlocksOf& sent, void* recv,
                  const BlocksOf& received) const;
  Ends all_gather(const void* send, std::size_t count, void* recv, const BlocksOf& received) const;
  Ends gather(const void* send, std::size_t count, void* recv, const BlocksOf& received,
              int root) const;
  Ends scatter(const void* send, const BlocksOf& sent, void* recv, std::size_t count,
               int root) const;
  Ends neighbor_all_to_all(const void* send, const NeighborBlocks& sent, void* recv,
                           const NeighborBlocks& received) const;

  /// The collectives of a reduce-scatter with `counts[r]` elements for rank r: one for all equal
  /// blocks if the options name no algorithm, else a reduction to each rank that has elements.
  std::vector<Request> reduce_scatter(const void* send, std::span<const std::size_t> counts,
                                      void* recv, ReduceOp op, const CallOptions& options) const;

 private:
  enum class Direction : bool { receive, send };
  [[noreturn]] void refuse(const std::string& why) const;
  void check_sizes(Direction direction, const BlocksOf& blocks) const;
  void check_root(int root) const;
  void check_own_block(std::size_t block, std::size_t count, std::string_view of) const;
  void check_block_is_apart(const BlocksOf& blocks) const;
  MessageEnd end(Direction direction, int peer, const void* buffer, std::size_t at,
                 std::size_t count) const;
  MessageEnd block(Direction direction, const void* buffer, const BlocksOf& blocks, int peer) const;
  Ends at_root(Direction direction, const void* all, const BlocksOf& blocks, const void* own,
               std::size_t count, int root) const;
  void add_neighbors(Ends& ends, Direction direction, const void* buffer,
                     const NeighborBlocks& blocks) const;

  std::string_view what_;
  DataType type_;
  int rank_, ranks_;
  std::size_t size_;  // of an element
  std::size_t most_;  // elements: beyond any memory, as for the limit of counts (check_count)
};

}  // namespace plait
