// The communicator's calls on spans, which bring their counts and their type along.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "plait/call.hpp"
#include "plait/collective_table.h"
#include "plait/host_operation.hpp"
#include "plait/language.hpp"
#include "plait/stream.hpp"
#include "plait/types.hpp"

namespace plait {

/// No rank, as the peer of a message: that end of it does nothing, whatever its count and buffer.
inline constexpr int proc_null = -2;

/// Base class of `Communicator`, which has the rules. A call here has spans for its pointers, and
/// neither counts nor a type. Sizes that don't fit each other, or the blocks in them, are
/// `Error(invalid_argument)`.
template <class Comm>
class CallsOnSpans {
 public:
  /// The ranks to which the messages of a call go, and from which they come.
  struct Peers {
    std::span<const int> to{}, from{};
  };

  /// For each rank: how many elements this rank sends to it, or receives from it, and where they
  /// begin in the buffer, in elements. One entry per rank.
  struct BlocksOf {
    std::span<const std::size_t> counts, displacements;
  };

  /// The peers to which this rank sends, or from which it receives, in the order of the messages,
  /// with one count and displacement per entry. An entry of `proc_null` is passed over.
  struct NeighborBlocks {
    std::span<const int> peers;
    std::span<const std::size_t> counts, displacements;
  };

  // The collectives: NAME(send, recv, [op,] [root,] stream = {}, options = {}). Those that reduce
  // also take a `HostOperation` as `op`, and no options then.
#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                  \
  template <class T>                                                                          \
  void NAME(std::span<T> send,                                                                \
            std::span<std::remove_const_t<T>> recv PLAIT_IF_##OP(, ReduceOp op)               \
                PLAIT_IF_##ROOT(, int root),                                                  \
            StreamRef stream = {}, const CallOptions& options = {}) {                         \
    const std::size_t count = block_of(Extent::SEND, send.size(), Extent::RECV, recv.size()); \
    if (self().extents_fit(Collective::NAME, send.size(), recv.size(),                        \
                           count PLAIT_IF_##ROOT(, root)))                                    \
      self().NAME(send.data(), recv.data(), count, data_type_of<std::remove_const_t<T>>,      \
                  PLAIT_IF_##OP(op, ) PLAIT_IF_##ROOT(root, ) stream, options);               \
  }                                                                                           \
  PLAIT_IF_##OP(template <class T> void NAME(                                                 \
      std::span<T> send, std::span<std::remove_const_t<T>> recv, const HostOperation& op,     \
      PLAIT_IF_##ROOT(int root, ) StreamRef stream = {}) {                                    \
    const std::size_t count = block_of(Extent::SEND, send.size(), Extent::RECV, recv.size()); \
    if (self().extents_fit(Collective::NAME, send.size(), recv.size(),                        \
                           count PLAIT_IF_##ROOT(, root)))                                    \
      self().reduce_on_host(Collective::NAME, send.data(), recv.data(), count, op,            \
                            PLAIT_IF_##ROOT(root +) 0, stream, sizeof(T));                    \
  })
  PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

  template <class T>
  void send(std::span<T> data, int to, StreamRef stream = {}, const CallOptions& options = {}) {
    self().send(data.data(), data.size(), data_type_of<std::remove_const_t<T>>, to, stream,
                options);
  }
  template <class T>
  void recv(std::span<T> data, int from, StreamRef stream = {}, const CallOptions& options = {}) {
    self().recv(data.data(), data.size(), data_type_of<T>, from, stream, options);
  }
  template <class T>
  void send_recv(std::span<T> send, int to, std::span<std::remove_const_t<T>> recv, int from,
                 StreamRef stream = {}, const CallOptions& options = {}) {
    self().send_recv(send.data(), send.size(), to, recv.data(), recv.size(), from,
                     data_type_of<std::remove_const_t<T>>, stream, options);
  }

  template <class T>
  void all_to_all_v(std::span<T> send, const BlocksOf& sent, std::span<std::remove_const_t<T>> recv,
                    const BlocksOf& received, StreamRef stream = {},
                    const CallOptions& options = {}) {
    constexpr std::string_view what = "all_to_all_v";
    if (self().blocks_fit(what, "send", send.size(), sent) &&
        self().blocks_fit(what, "recv", recv.size(), received))
      self().all_to_all_v(send.data(), sent, recv.data(), received,
                          data_type_of<std::remove_const_t<T>>, stream, options);
  }
  template <class T>
  void all_gather_v(std::span<T> send, std::span<std::remove_const_t<T>> recv,
                    const BlocksOf& received, StreamRef stream = {},
                    const CallOptions& options = {}) {
    if (self().blocks_fit("all_gather_v", "recv", recv.size(), received))
      self().all_gather_v(send.data(), send.size(), recv.data(), received,
                          data_type_of<std::remove_const_t<T>>, stream, options);
  }
  template <class T>
  void gather_v(std::span<T> send, std::span<std::remove_const_t<T>> recv, const BlocksOf& received,
                int root, StreamRef stream = {}, const CallOptions& options = {}) {
    if (self().rank() != root || self().blocks_fit("gather_v", "recv", recv.size(), received))
      self().gather_v(send.data(), send.size(), recv.data(), received,
                      data_type_of<std::remove_const_t<T>>, root, stream, options);
  }
  template <class T>
  void scatter_v(std::span<T> send, const BlocksOf& sent, std::span<std::remove_const_t<T>> recv,
                 int root, StreamRef stream = {}, const CallOptions& options = {}) {
    if (self().rank() != root || self().blocks_fit("scatter_v", "send", send.size(), sent))
      self().scatter_v(send.data(), sent, recv.data(), recv.size(),
                       data_type_of<std::remove_const_t<T>>, root, stream, options);
  }
  /// `send` has as many elements as the counts add up to, and `recv` as many as this rank's count.
  template <class T>
  void reduce_scatter_v(std::span<T> send, std::span<const std::size_t> counts,
                        std::span<std::remove_const_t<T>> recv, ReduceOp op, StreamRef stream = {},
                        const CallOptions& options = {}) {
    if (self().counts_fit("reduce_scatter_v", send.size(), counts, recv.size()))
      self().reduce_scatter_v(send.data(), counts, recv.data(),
                              data_type_of<std::remove_const_t<T>>, op, stream, options);
  }
  template <class T>
  void neighbor_all_to_all_v(std::span<T> send, const NeighborBlocks& sent,
                             std::span<std::remove_const_t<T>> recv, const NeighborBlocks& received,
                             StreamRef stream = {}, const CallOptions& options = {}) {
    constexpr std::string_view what = "neighbor_all_to_all_v";
    const Peers peers{sent.peers, received.peers};
    if (self().blocks_fit(what, "send", send.size(), {sent.counts, sent.displacements}, &peers) &&
        self().blocks_fit(what, "recv", recv.size(), {received.counts, received.displacements},
                          &peers))
      self().neighbor_all_to_all_v(send.data(), sent, recv.data(), received,
                                   data_type_of<std::remove_const_t<T>>, stream, options);
  }

 private:
  friend Comm;
  CallsOnSpans() = default;

  enum class Extent { block, blocks, root_block, root_blocks };
  /// Elements of a block, as a buffer of one block says that each rank has. Without such a buffer,
  /// `send` has a block per rank.
  std::size_t block_of(Extent sent, std::size_t send, Extent received, std::size_t recv) {
    if (received == Extent::block) return recv;
    if (sent == Extent::block) return send;
    return send / static_cast<std::size_t>(self().size());
  }
  Comm& self() { return static_cast<Comm&>(*this); }
};

}  // namespace plait
